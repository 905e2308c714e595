//! Journals from outside: read from lines, compared with each other, and run through the machine again.
//!
//! [`replay`] says whether the machine of turns, as it is built now, would have written a journal: what was put in,
//! answered, judged, returned and decided is said to it again, and what it writes is compared record by record. It asks
//! no model, runs no tool and stores nothing. [`difference`] compares two journals apart from ids and times.
//!
//! | file | what it holds |
//! |---|---|
//! | `lines` | JSON lines to records |
//! | `driver`, `same` | the machine, what it waits for, and the comparison |
//! | `cause` | what must have been said, since the next record is what it is |
//! | `owner` | how an owner of the session began: a start, a crash, a kill |
//! | `answer` | a model's answer and a tool's result, made from the records they became |
//! | `alike`, `difference` | two journals, apart from ids and times; what differs first |

mod alike;
mod answer;
mod cause;
mod difference;
mod driver;
mod lines;
mod owner;
mod same;

pub use alike::difference;
pub use difference::first_difference;
pub use lines::{Unreadable, read};

use crate::store::Record;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A journal that the machine would write again as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Same {
    /// Its records.
    pub records: usize,
    /// Its runs of turns that have an outcome.
    pub outcomes: usize,
    /// How many owners wrote it, one after the other.
    pub owners: usize,
}

/// Where the machine goes on differently.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Which record of the session, from 1.
    pub record: u64,
    /// What the journal has there.
    pub expected: Value,
    /// What the machine writes instead; null when it writes nothing.
    pub got: Value,
    /// What differs first, in words.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} differs: {}", self.record, self.what)
    }
}

/// Runs the journal of one session through the machine. Pure: the same journal always comes to the same.
///
/// Times are not compared, nor are sizes that are only estimates: how many bytes a prompt had and a call's arguments.
///
/// # Errors
/// The first record that the machine would not have written so.
pub fn replay(records: &[Arc<Record>]) -> Result<Same, Box<Difference>> {
    driver::Driver::new(records).run()
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
