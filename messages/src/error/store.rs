//! Why a store refused or failed.

use crate::ids::PoolName;
use serde::{Deserialize, Serialize};

/// Why a store refused or failed. Serialisable, since it travels in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreError {
    /// The session has another version than expected.
    #[error("the session is at version {version}, not where this writer believed it to be")]
    Conflict {
        /// The version it has.
        version: u64,
    },
    /// Another owner has taken over the session.
    #[error("the session was taken over by another owner (epoch {epoch})")]
    Fenced {
        /// The epoch it has now.
        epoch: u64,
    },
    /// Another living process owns the session.
    #[error("the session is in use by {owner}")]
    Busy {
        /// Its name.
        owner: String,
    },
    /// The session is bound to a pool of machines in which this process is not.
    #[error("{}", unreachable(pool, processes))]
    Unreachable {
        /// The pool.
        pool: PoolName,
        /// The living processes of the pool, by name and address, as far as the store knows them.
        processes: Vec<String>,
    },
    /// The records may or may not have been stored; sending them again is safe.
    #[error("it is not known whether the records were stored: {0}")]
    InDoubt(String),
    /// The store cannot be reached or written now.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store is on a network and cannot be reached now, or is starting. Nothing was stored. A call that is about to run waits
    /// for it as long as its turn may last.
    #[error("the store is away: {0}")]
    Away(String),
    /// The journal does not read as one; it was left as it is.
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
    /// The journal was written by a newer program.
    #[error("the journal has format {found}, this program knows {known}: use the newer program")]
    TooNew {
        /// Its format; the first that this program does not know, where the journal does not say.
        found: u32,
        /// Ours.
        known: u32,
    },
}

impl StoreError {
    /// Whether sending the records again may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InDoubt(_) | Self::Unavailable(_) | Self::Away(_) => true,
            Self::Conflict { .. }
            | Self::Fenced { .. }
            | Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Corrupt(_)
            | Self::TooNew { .. } => false,
        }
    }
}

fn unreachable(pool: &PoolName, processes: &[String]) -> String {
    let known = match processes {
        [] => "no process of that pool is known".to_owned(),
        some => format!("processes of that pool: {}", some.join(", ")),
    };
    format!("the session is bound to the pool {pool}, in which this process is not; {known}")
}
