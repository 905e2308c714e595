//! Tool servers: how one is started or reached, and how it is doing.

pub use bob_messages::ids::ServerId;
pub use bob_messages::mcp::{Reloaded, ServerBrief, ServerState, ServerStatus};
pub use bob_messages::options::{CommandSpec, Hidden, HttpSpec, Named, ServerSpec, ServerStart, ServerTransport};
pub use bob_messages::pool::{Isolation, ServerOwner};
