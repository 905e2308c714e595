//! Who is alive: the supervision tree of a runtime.
//!
//! ```text
//! RootSupervisor                 starts top to bottom, stops bottom to top
//! ├─ store     StoreActor        permanent, critical
//! ├─ llm       LlmActor          permanent, critical
//! ├─ …         model servers     permanent, each on its own
//! ├─ tools     ToolsSupervisor   permanent, critical
//! │  ├─ local  ToolsActor        permanent, on its own
//! │  └─ …      tool servers      permanent, each on its own
//! └─ sessions  the sessions supervisor, permanent, critical
//! ```
//!
//! A child that dies is started again by its supervisor and its address is filled
//! anew; its siblings notice nothing. One that dies too often ends its supervisor if
//! it is critical and is left down otherwise. The root then stops the tree in reverse
//! order and says why. No handler here waits for an actor: starts run in tasks, and
//! only a supervisor that ends waits for its children.
//!
//! | module | what it owns |
//! |---|---|
//! | [`tree`] | the order of the root's children, and the handle of a running tree |
//! | [`root`] | the last word on an end |
//! | [`tools`] | whatever has tools |
//! | [`sessions`] | one child per live session, and the guest book: who is owed an answer |
//! | [`family`] | one for one: starts, deaths, restarts, stops |
//! | [`restart`] | when a dead child is started again; pure |
//! | [`look`] | the live tree as it can be shown |

// A supervisor can only start again what did not take the process with it.
#[cfg(not(panic = "unwind"))]
compile_error!("supervision needs `panic = \"unwind\"` in every profile");

pub(crate) mod admission;
pub(crate) mod deadlines;
pub mod family;
pub(crate) mod guests;
pub mod look;
pub mod model_server;
pub mod restart;
pub mod root;
pub mod sessions;
pub mod tools;
pub mod tree;

pub use family::StartError;
pub use look::NodeState;
pub use root::TreeEnd;
pub use tree::{Tree, TreeSpec, start};
#[cfg(test)]
mod testing;
