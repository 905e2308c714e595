//! Records as lines, made before they reach the writer of a database: reading them through, hashing them and looking how
//! deep they nest takes time for a large one, and the writer does not wait for it.

use super::line;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Record, StoreError};
use std::collections::{HashMap, HashSet};

/// From how many bytes on an append is encoded by itself.
const LARGE: usize = 256 * 1024;

/// An append and the lines of its records, without their ends.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) append: Append,
    /// An error where one of the records could not be read back.
    pub(super) lines: Result<Vec<Vec<u8>>, StoreError>,
}

impl Encoded {
    pub(super) fn of(append: Append) -> Self {
        let lines = append.records.iter().map(|record| line_of(record)).collect();
        Self { append, lines }
    }
}

/// A batch of appends, each with its place in it, as they are encoded.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) together: Vec<(usize, Append)>,
    /// The appends of one session each. Encoding one of these takes so long that the batch does not wait for it; what it
    /// has of the same session waits behind it.
    pub(super) apart: Vec<Vec<(usize, Append)>>,
}

impl Split {
    pub(super) fn of(batch: Vec<Append>) -> Self {
        let large: HashSet<SessionId> =
            batch.iter().filter(|append| is_large(append)).map(|append| append.session.clone()).collect();
        let mut apart: HashMap<SessionId, Vec<_>> = HashMap::new();
        let mut together = Vec::new();
        for placed in batch.into_iter().enumerate() {
            match large.contains(&placed.1.session) {
                true => apart.entry(placed.1.session.clone()).or_default().push(placed),
                false => together.push(placed),
            }
        }
        Self { together, apart: apart.into_values().collect() }
    }
}

fn is_large(append: &Append) -> bool {
    append.records.iter().map(|record| record.bytes()).sum::<usize>() >= LARGE
}

fn line_of(record: &Record) -> Result<Vec<u8>, StoreError> {
    let mut line = Vec::new();
    line::write_record(&mut line, record).map_err(|why| StoreError::Corrupt(format!("{why}; nothing was stored")))?;
    line.pop();
    Ok(line)
}
