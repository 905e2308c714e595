//! What is said to and by a store: the journal's records and their rules.
//!
//! A session is an append-only journal; its state is the fold of its records
//! ([`crate::session::Session`]). The version of a session counts its records,
//! the epoch counts its owners.

mod error;
mod fact;
mod listing;
mod record;

pub use error::StoreError;
pub use fact::{Answered, Ended, Fact, StepCost, Suspension};
pub use listing::{SessionFilter, SessionPage, SessionSummary};
pub use record::{FORMAT, Record};

use crate::ids::SessionId;
use crate::reply::Reply;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mailbox of the StoreActor.
#[derive(Debug)]
pub enum StoreMessage {
    /// Take a session over: raises its epoch and reads its records.
    Claim {
        /// Which session.
        session: SessionId,
        /// Where the claim goes.
        reply: Reply<Result<Claim, StoreError>>,
    },
    /// Read a session's records without owning it.
    Load {
        /// Which session.
        session: SessionId,
        /// Where the records go; empty for a session that does not exist.
        reply: Reply<Result<Vec<Arc<Record>>, StoreError>>,
    },
    /// Store these records; answered when they are durable.
    Append {
        /// What to store.
        append: Append,
        /// Where the new version goes.
        reply: Reply<Result<u64, StoreError>>,
    },
    /// This process no longer owns the session.
    Release {
        /// Which session.
        session: SessionId,
        /// Under which epoch it was owned.
        epoch: u64,
    },
    /// Which sessions are there? Reads no journals.
    List {
        /// Which of them.
        filter: SessionFilter,
        /// Where the last page ended.
        cursor: Option<String>,
        /// Where the page goes.
        reply: Reply<Result<SessionPage, StoreError>>,
    },
    /// Remove a session and its journal.
    Delete {
        /// Which session.
        session: SessionId,
        /// Whether there was one.
        reply: Reply<Result<bool, StoreError>>,
    },
    /// Answered when everything accepted before it is durable or has failed.
    Flush {
        /// Told when done.
        reply: Reply<()>,
    },
    /// The batch in flight has ended; the next one may start.
    BatchEnded,
}

/// Some records of one session, to be stored together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Append {
    /// Whose records.
    pub session: SessionId,
    /// The owner's epoch; an older one is fenced.
    pub epoch: u64,
    /// How many records the session has, as the owner knows it.
    pub expected_version: u64,
    /// The records, in order.
    pub records: Vec<Arc<Record>>,
}

/// What an owner gets: the session as it is, and the epoch to write under.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The new owner's epoch.
    pub epoch: u64,
    /// How many records there are.
    pub version: u64,
    /// All of them, in order.
    pub records: Vec<Arc<Record>>,
}
