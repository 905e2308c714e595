//! Tool servers: one actor each, with its process and its tools.
//!
//! A [`McpServerActor`] judges and runs the calls of one server's tools, like the actor of the local tools. Its
//! keeper, a task that lives as long as the actor, starts the server, performs the handshake, reads its tools,
//! detects its end and ends its process, however the actor ends. When the server dies, the actor fails, and its
//! supervisor decides about a restart.
//!
//! Nothing here runs a call twice, writes to a terminal, or waits for a server without a deadline.
//!
//! | file | contents |
//! |---|---|
//! | [`actor`] | the mailbox: questions, held while the server starts |
//! | `keeper`, `start` | the lifecycle of one server, and its start |
//! | `arguments` | the actor's arguments |
//! | `connection_end` | broadcasts the end of a connection to its calls |
//! | `shared` | state shared by actor and keeper |
//! | `host_address` | the actor's address in the tool registry |
//! | `port` | runs a permitted call on the server |
//! | [`elicit`] | forms requested by a server |
//! | [`sign_in`] | where tokens are kept, and who shows a person where to sign in |
//! | `sieve` | limits depth and length of a server's output |
//! | `rmcp` | the protocol |

pub mod actor;
mod arguments;
mod connection_end;
pub mod elicit;
mod host_address;
mod keeper;
mod port;
mod rmcp;
mod shared;
mod sieve;
pub mod sign_in;
mod start;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod web_testing;
#[cfg(test)]
mod web_tests;

pub use actor::McpServerActor;
pub use arguments::McpServerArguments;
pub use elicit::{Answer, Question};
pub use sign_in::{SignInError, SignInPort, SignIns};

use bob_messages::options::ServerSpec;
use std::path::Path;

/// Whether a secret may be sent to this URL: with https anywhere, with http only to this machine.
pub fn keeps_secrets(url: &str) -> bool {
    url.parse().is_ok_and(|url| crate::loopback::keeps_secrets(&url))
}

/// Signs in to a server, also if there are tokens for it.
///
/// # Errors
/// Why that is not possible.
pub async fn log_in(spec: &ServerSpec, sign_ins: &SignIns) -> Result<(), SignInError> {
    self::rmcp::log_in(spec, sign_ins).await.map_err(|why| SignInError { server: spec.id.clone(), why })
}

/// Removes the tokens of a server from this folder; returns whether there were any. What the authorization server knows
/// of them stays valid until it expires.
///
/// # Errors
/// When they cannot be removed.
pub fn log_out(spec: &ServerSpec, folder: &Path) -> Result<bool, SignInError> {
    self::rmcp::log_out(spec, folder).map_err(|why| SignInError { server: spec.id.clone(), why })
}
