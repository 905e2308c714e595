//! The whole state of a session as a record, so that an owner need not read its journal from the beginning.
//!
//! A snapshot contains nothing new: it is the fold of the records before it, as a live session keeps it. A fold that
//! begins with it and one that begins with the first record give equal sessions; one that an earlier version wrote may lack
//! what that did not note, as which sub-agents had failed. If a snapshot cannot be used,
//! because its format is unknown, it is damaged, or it keeps too little, the whole journal is read instead.

use super::Session;
use crate::ids::SessionId;
use crate::store::{Fact, Record, Snapshot};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// What the fields of a written session mean. It is raised when a field of [`Session`] comes to mean something else, or
/// when one is added that an older snapshot cannot leave at its default.
pub const SNAPSHOT_FORM: u32 = 1;

/// The most bytes a snapshot has: a session that is larger is read from its records.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A snapshot is paid for by the records behind it: for so many bytes of it there is one of them at least.
const BYTES_A_RECORD: u64 = 512;

/// Which share of the usual records lie between two snapshots when the history was condensed in between.
const SOONER: u64 = 10;

/// Where the last snapshot is, and what came since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Taken {
    /// The version of its record; 0 when there is none.
    version: u64,
    /// How many bytes it has.
    bytes: u64,
    /// Whether the history was condensed behind it.
    condensed: bool,
}

impl Session {
    /// The session its last records tell of: from the first one on, or from a snapshot on. With `keeping` it is as a
    /// live one keeps it, with at most about so many messages before its open turn; without, as the snapshot kept it,
    /// or whole. `None` when the records begin with neither, or with a snapshot that cannot be used: then all records
    /// are needed.
    pub fn fold_latest(id: SessionId, keeping: Option<usize>, records: &[Arc<Record>]) -> Option<Self> {
        let (first, behind) = match records.split_first() {
            Some((first, behind)) if first.version != 1 => (first, behind),
            Some(_) | None => {
                return Some(match keeping {
                    Some(messages) => Self::fold_keeping(id, messages, records),
                    None => Self::fold(id, records),
                });
            }
        };
        let mut session = Self::restored(&id, keeping, first)?;
        for record in behind {
            session.apply(record);
        }
        Some(session)
    }

    /// The session with the snapshot of this record as its last one.
    fn restored(id: &SessionId, keeping: Option<usize>, record: &Record) -> Option<Self> {
        let Fact::Snapshot(snapshot) = &record.fact else { return None };
        if snapshot.form != SNAPSHOT_FORM {
            return None;
        }
        let mut session: Self = serde_json::from_str(&snapshot.session).ok()?;
        if session.id != *id || session.version + 1 != record.version || !session.keeps_for(keeping) {
            return None;
        }
        session.apply(record);
        Some(session)
    }

    /// Whether a snapshot is to be written: behind so many records, behind more when the last one was large, and sooner
    /// when the history was condensed since. 0 is never.
    pub fn wants_snapshot(&self, every: u64) -> bool {
        let taken = self.taken();
        let apart = match taken.condensed {
            true => every / SOONER,
            false => every.max(taken.bytes / BYTES_A_RECORD),
        };
        every > 0 && self.version.saturating_sub(taken.version) >= apart
    }

    /// The session written down; `None` when it is too large for that.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut text = Bounded(Vec::new());
        serde_json::to_writer(&mut text, self).ok()?;
        let session = String::from_utf8(text.0).ok()?.into();
        Some(Snapshot { form: SNAPSHOT_FORM, session })
    }

    /// A snapshot was written: nothing changes but that.
    pub(super) fn took(&mut self, snapshot: &Snapshot) {
        let bytes = snapshot.session.len() as u64;
        *self.taken_mut() = Taken { version: self.version, bytes, condensed: false };
    }

    /// The history was condensed: the next snapshot is smaller.
    pub(super) fn outdates_snapshot(&mut self) {
        self.taken_mut().condensed = true;
    }
}

/// Text of so many bytes at most.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
