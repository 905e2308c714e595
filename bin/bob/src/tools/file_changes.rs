//! What the turns of a session changed of files, and how it is taken back.

#[cfg(feature = "local-tools")]
pub use bob_actors::tools::local::{Originals, Undone, undo};
pub use bob_messages::file_changes::{
    Child, ChildRecords, TurnChanges, children, in_order, of_records, together, with_children,
};
