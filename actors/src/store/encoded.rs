//! Records as lines, made before they reach the writer of a database: reading them through, hashing them and looking how
//! deep they nest takes time for a large one, and the writer does not wait for it.

use super::line;
use bob_messages::store::{Append, Record, StoreError};

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

/// Whether encoding an append takes so long that its batch does not wait for it.
pub(super) fn is_large(append: &Append) -> bool {
    append.records.iter().map(|record| record.bytes()).sum::<usize>() >= LARGE
}

/// The line of a record, without its end.
fn line_of(record: &Record) -> Result<Vec<u8>, StoreError> {
    let mut line = Vec::new();
    line::write_record(&mut line, record).map_err(|why| StoreError::Corrupt(format!("{why}; nothing was stored")))?;
    line.pop();
    Ok(line)
}
