//! Tool servers: one actor each, with its process and its tools.
//!
//! A [`McpServerActor`] judges and runs the calls of one server's tools, as the actor of
//! this process's own tools does with its own. Its keeper, a task that lives as long as
//! the actor and no longer, starts the server, shakes hands, reads its list of tools,
//! notices its end and ends its process, however the actor ends. A server that dies is
//! the actor's death: its supervisor decides about another one.
//!
//! Nothing here runs a call twice, shows anything on a terminal, or waits for a server
//! without a deadline of its own.
//!
//! | file | what is in it |
//! |---|---|
//! | [`actor`] | the mailbox: questions, held while the server starts |
//! | `keeper`, `start` | the life of one server, and its beginning |
//! | `arguments` | what the actor starts with |
//! | `end` | how a connection ended, told to its calls |
//! | `shared` | what actor and keeper share |
//! | `host_address` | the way of the tool plane to the actor |
//! | `port` | the way from a judged call to the server |
//! | [`elicit`] | what a server asks a person |
//! | `sieve` | what a server writes, made fit for the protocol's reader |
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
mod start;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod web_testing;
#[cfg(test)]
mod web_tests;

pub use actor::McpServerActor;
pub use arguments::McpServerArguments;
pub use elicit::{Answer, Elicit, Question};
