//! Messages to sessions, kept until their effect is in the journal.
//!
//! - [`port`](Inbox): what an inbox can do
//! - `memory`, `folder`: those of the stores that come with Bob

mod folder;
mod memory;
mod port;

pub(super) use folder::FolderInbox;
#[cfg(feature = "sqlite")]
pub(super) use folder::{BESIDE, beside};
pub(super) use memory::MemoryInbox;
#[cfg(feature = "postgres")]
pub(super) use memory::full;
#[cfg(feature = "postgres")]
pub(super) use port::MOST_WAITING;
pub use port::{Due, Inbox, StoreLease};
