//! Reading, comparing and replaying journals.
//!
//! [`replay`] checks whether the current turn machine would write a given journal: it feeds the recorded inputs,
//! replies, verdicts, results and decisions to a machine and compares the records that it writes. It calls no model,
//! runs no tool and stores nothing. [`difference`] compares two journals apart from ids and times.
//!
//! | file | contents |
//! |---|---|
//! | `lines` | parses JSON lines into records |
//! | `driver`, `compare` | drives the machine and compares records |
//! | `cause` | infers the message that produced a record |
//! | `owner` | infers how an owner began: a start, a crash, a kill |
//! | `answer` | reconstructs model replies and tool results from records |
//! | `normalise`, `difference` | compares journals apart from ids and times |

mod agents;
mod answer;
mod cause;
mod compare;
mod difference;
mod driver;
mod lines;
mod normalise;
mod owner;

pub use difference::first_difference;
pub use lines::{Unreadable, read};
pub use normalise::difference;

use crate::store::Record;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A successful replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Its records.
    pub records: usize,
    /// Its runs of turns that have an outcome.
    pub outcomes: usize,
    /// How many owners wrote it, one after the other.
    pub owners: usize,
}

/// The first record that the machine would write differently.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Which record of the session, from 1.
    pub record: u64,
    /// The recorded value.
    pub expected: Value,
    /// The replayed value; null if the machine writes nothing.
    pub got: Value,
    /// Description of the difference.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} differs: {}", self.record, self.what)
    }
}

/// Replays the journal of one session. Deterministic and without I/O.
///
/// Times and estimated sizes (bytes of a prompt and of a call's arguments) are not compared.
///
/// # Errors
/// Returns the first record that the machine would write differently.
pub fn replay(records: &[Arc<Record>]) -> Result<Replayed, Box<Difference>> {
    driver::Driver::new(records).run()
}

#[cfg(test)]
mod older_tests;
#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
