//! Tool servers: how one is started or reached, and how it is doing.

pub use bob_messages::ids::ServerId;
pub use bob_messages::mcp::{ServerBrief, ServerState, ServerStatus};
pub use bob_messages::options::{CommandSpec, Hidden, HttpSpec, Named, ServerSpec, ServerStart, ServerTransport};
#[cfg(feature = "mcp")]
pub use bob_supervisors::tools::servers::Reloaded;
