//! Stores: where the journals of sessions are kept, and what is in a journal.
//!
//! A program implements [`SessionStore`] for a database of its own; [`Ledger`] has the rules of a journal ready made.

#[cfg(feature = "sqlite")]
pub use bob_actors::store::SqliteStore;
pub use bob_actors::store::{
    FileStore, Ledger, Made, MemoryStore, Ruling, SessionStore, StoreOptions, Stored, make_folder, page_of,
};
pub use bob_messages::ids::RecordId;
pub use bob_messages::input::TurnInput;
pub use bob_messages::limits::Spent;
pub use bob_messages::replay;
pub use bob_messages::reply::{Answer, Interest, Reply};
pub use bob_messages::session_state::{
    ExternalResult, OpenApproval, OpenCall, OpenStep, OpenTurn, RunCaller, Session, Submissions,
};
pub use bob_messages::store::{
    Answered, Append, Claim, Ended, FORMAT, Fact, Glance, Part, Record, Snapshot, StepCost, StoreError, Suspension,
};
