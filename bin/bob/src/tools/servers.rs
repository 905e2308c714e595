//! Tool servers: how one is started or reached, and how it is doing.

/// The port that shows a person the page of an authorization server, for
/// [`RuntimeBuilder::sign_ins`](crate::RuntimeBuilder::sign_ins).
///
/// ```
/// use bob::BoxFuture;
/// use bob::tools::servers::{ServerId, SignInPort};
///
/// /// Prints the page for a person who reads the output of the program.
/// struct Printed;
///
/// impl SignInPort for Printed {
///     fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
///         println!("{server} asks you to sign in: {page}");
///         Box::pin(std::future::ready(()))
///     }
/// }
/// ```
#[cfg(feature = "mcp")]
pub use bob_actors::mcp::SignInPort;
#[cfg(feature = "mcp")]
pub use bob_actors::mcp::{SignInError, SignIns, keeps_secrets, log_in, log_out};
pub use bob_messages::ids::ServerId;
pub use bob_messages::mcp::{Reloaded, ServerBrief, ServerState, ServerStatus};
pub use bob_messages::options::{
    CommandSpec, Hidden, HttpSpec, Named, ServerSpec, ServerStart, ServerTransport, SignIn, SignInGrant,
};
pub use bob_messages::pool::{Isolation, ServerOwner};
