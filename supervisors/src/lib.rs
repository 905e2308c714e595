//! The supervision tree of a runtime, which `ARCHITECTURE.md` shows.
//!
//! A child that dies is started again by its supervisor, which then sets its address anew; its siblings are not
//! affected. A child that dies too often ends its supervisor if it is critical, and is left down otherwise. The root
//! then stops the tree in reverse order and reports the reason. No message handler
//! here waits for an actor: restarts run in tasks. A supervisor waits when it starts (for children that must be up, and
//! up to 1 s for actors of a sessions supervisor that died) and, when it ends, for its children.
//!
//! | module | what it owns |
//! |---|---|
//! | [`tree`] | the order of the root's children, and the handle of a running tree |
//! | [`root`] | the root supervisor and how a tree ended |
//! | [`tools`] | the supervisor of the local tools and the tool servers |
//! | [`models`] | the child that refreshes the catalogue of models |
//! | [`model_server`] | the child that owns a local model server's process |
//! | [`sessions`] | one child per live session, and the callers waiting for their outcomes |
//! | [`children`] | the children of one supervisor, one for one: starts, deaths, restarts, stops |
//! | [`restart`] | when a dead child is started again; pure |
//! | [`look`] | a snapshot of the live tree |

// A supervisor can only restart a child whose panic did not abort the process.
#[cfg(not(panic = "unwind"))]
compile_error!("supervision needs `panic = \"unwind\"` in every profile");

pub mod children;
pub(crate) mod deadlines;
pub mod look;
pub mod model_server;
pub mod models;
pub(crate) mod patience;
pub mod restart;
pub mod root;
pub(crate) mod session_table;
pub mod sessions;
#[cfg(test)]
#[path = "../../tests/support/stopwatch.rs"]
mod stopwatch;
pub mod tools;
pub mod tree;
pub(crate) mod turn_clock;

pub use children::StartError;
pub use look::NodeState;
pub use root::TreeEnd;
pub use tree::{Tree, TreeSpec, start};
#[cfg(test)]
mod testing;
