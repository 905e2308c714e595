//! Tool servers: how one is started or reached, and how it is doing.

#[cfg(feature = "mcp")]
pub use bob_actors::mcp::{SignInPort, SignIns, keeps_secrets, log_in, log_out};
pub use bob_messages::ids::ServerId;
pub use bob_messages::mcp::{Reloaded, ServerBrief, ServerState, ServerStatus};
pub use bob_messages::options::{
    CommandSpec, Hidden, HttpSpec, Named, ServerSpec, ServerStart, ServerTransport, SignIn, SignInGrant,
};
pub use bob_messages::pool::{Isolation, ServerOwner};
