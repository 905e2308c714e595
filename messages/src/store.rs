//! Messages of the store, the records of the journal, and their rules.
//!
//! A session is an append-only journal; its state is the fold of its records ([`crate::session_state::Session`]). The
//! version of a session counts its records, the epoch counts its owners.

mod fact;
mod format;
mod glance;
mod listing;
mod pools;
mod record;

pub use crate::error::StoreError;
pub use fact::{Answered, AskedBelow, Ended, Fact, Reasoning, Snapshot, StepCost, Suspension};
pub use format::{BadRecord, FORMAT, Formats, Step};
pub use glance::{Glance, SessionState, title};
pub use listing::{SessionFilter, SessionPage, SessionSummary};
pub use pools::Pools;
pub use record::Record;

use crate::ids::SessionId;
use crate::reply::Reply;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mailbox of the StoreActor.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum StoreMessage {
    /// Take a session over: raises its epoch and reads its records.
    Claim {
        session: SessionId,
        /// All records, and not only those from the last snapshot on.
        whole: bool,
        reply: Reply<Result<Claim, StoreError>>,
    },
    /// Read a session's records without owning it.
    Load {
        session: SessionId,
        /// Where the records go; empty for a session that does not exist.
        reply: Reply<Result<Vec<Arc<Record>>, StoreError>>,
    },
    /// Read a part of a session's records without owning it.
    LoadPart {
        session: SessionId,
        part: Part,
        /// Where the records go; empty for a session that does not exist.
        reply: Reply<Result<Vec<Arc<Record>>, StoreError>>,
    },
    /// Store these records; answered when they are durable.
    Append { append: Append, reply: Reply<Result<u64, StoreError>> },
    /// This process no longer owns the session.
    Release {
        session: SessionId,
        /// Under which epoch it was owned.
        epoch: u64,
        reply: Reply<()>,
    },
    /// Which sessions are there? Reads no journals.
    List {
        filter: SessionFilter,
        /// Where the last page ended.
        cursor: Option<String>,
        reply: Reply<Result<SessionPage, StoreError>>,
    },
    /// Remove a session and its journal.
    Delete {
        session: SessionId,
        /// Whether there was one.
        reply: Reply<Result<bool, StoreError>>,
    },
    /// Answered immediately: a health check.
    Ping { reply: Reply<()> },
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
    /// The number of records of the session, as known to the owner.
    pub expected_version: u64,
    /// The records, in order.
    pub records: Vec<Arc<Record>>,
}

/// The result of a claim: the session, and the epoch to write with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The new owner's epoch.
    pub epoch: u64,
    /// How many records there are.
    pub version: u64,
    /// All of them, in order, or those from the last snapshot on.
    pub records: Vec<Arc<Record>>,
}

/// A part of a session's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the last snapshot on; all of them when there is none.
    Latest,
    /// A page of them.
    Page {
        /// Those behind this version.
        behind: u64,
        /// Maximum number of records.
        most: usize,
    },
}

impl Part {
    /// This part of all records.
    pub fn of(self, records: &[Arc<Record>]) -> &[Arc<Record>] {
        match self {
            Self::Latest => latest(records),
            Self::Page { behind, most } => {
                let start = usize::try_from(behind).map_or(records.len(), |behind| behind.min(records.len()));
                &records[start..start.saturating_add(most).min(records.len())]
            }
        }
    }
}

/// The records from the last snapshot on; all of them when there is none.
pub fn latest(records: &[Arc<Record>]) -> &[Arc<Record>] {
    let at = records.iter().rposition(|record| matches!(record.fact, Fact::Snapshot(_))).unwrap_or(0);
    records.get(at..).unwrap_or_default()
}
