//! What a store must remember of a session to rule on an append.
//!
//! The rules of epochs, versions and record ids stand here once, for every store
//! that keeps them in memory. A ledger does no I/O and knows no clock.

use super::known_ids::KnownIds;
use bob_messages::store::{Append, Glance, Record, StoreError};
use std::sync::Arc;

/// How many record ids are known: what is sent again was sent just now. Of older ones the store has the records.
const IDS_KNOWN: usize = 256;

/// One session's epoch, version and newest record ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    epoch: u64,
    version: u64,
    /// The ids of the newest records, in order. A record that is sent again has its version, so
    /// it is looked for there and nowhere else.
    ids: KnownIds,
    glance: Glance,
}

/// What is to be done with an append that is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ruling {
    /// How many of its records, from the first, are stored already.
    pub stored: usize,
    /// The version to answer once the others are stored too.
    pub version: u64,
}

impl Ledger {
    /// The ledger of a session that has so many records, of which none was read, and looks so.
    pub fn behind(version: u64, glance: Glance) -> Self {
        Self { version, glance, ..Self::default() }
    }

    /// The epoch of the last claim; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many records there are.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a list shows of the session, as far as its records tell.
    pub fn glance(&self) -> &Glance {
        &self.glance
    }

    /// Notes a claim. Epochs only grow; a smaller one changes nothing.
    pub fn claimed(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Notes one more record as stored, at the next version.
    pub fn stored(&mut self, record: &Record) {
        self.version += 1;
        self.ids.push(record);
        self.ids.keep(IDS_KNOWN);
        self.glance.note(record);
    }

    /// Drops the record ids, for a store that has the records: a session without an owner
    /// receives no appends. Before the next ruling they must be [recalled](Self::recall).
    pub fn rest(&mut self) {
        self.ids = KnownIds::default();
    }

    /// Whether it let go of the ids of records there are.
    pub(crate) fn is_resting(&self) -> bool {
        self.ids.len() == 0 && self.version > 0
    }

    /// From which version on the ids of records must be [recalled](Self::recall) before this append is ruled on: it
    /// may have records that are stored and were let go of here.
    pub fn wants(&self, append: &Append) -> Option<u64> {
        let known = self.version - self.ids.len() as u64;
        let first = append.records.first().filter(|_| append.epoch == self.epoch)?.version;
        (1..=known).contains(&first).then_some(first)
    }

    /// Knows the ids of the newest records again, if it let go of some.
    pub fn recall(&mut self, newest: &[Arc<Record>]) {
        if self.ids.len() < newest.len() {
            self.ids = KnownIds::default();
            newest.iter().for_each(|record| self.ids.push(record));
        }
    }

    fn has(&self, record: &Record) -> bool {
        let known = self.version - self.ids.len() as u64;
        let at = record.version.checked_sub(known + 1).and_then(|at| usize::try_from(at).ok());
        at.is_some_and(|at| self.ids.is_at(at, record))
    }

    /// Whether an append may be stored, and how much of it is left to store. Changes nothing.
    ///
    /// # Errors
    /// `Fenced` for another epoch than that of the last claim; `Conflict` when the
    /// records do not continue the journal; `Corrupt` for a record of another session.
    pub fn rule(&self, append: &Append) -> Result<Ruling, StoreError> {
        if append.epoch != self.epoch || append.epoch == 0 {
            return Err(StoreError::Fenced { epoch: self.epoch });
        }
        let conflict = StoreError::Conflict { version: self.version };
        let stored = append.records.iter().take_while(|record| self.has(record)).count();
        let last = append.records[..stored].last().map(|record| record.version);
        let Some(fresh) = append.records.get(stored..).filter(|fresh| !fresh.is_empty()) else {
            return match last {
                Some(version) => Ok(Ruling { stored, version }),
                None if append.expected_version == self.version => Ok(Ruling { stored, version: self.version }),
                None => Err(conflict),
            };
        };
        if last.unwrap_or(append.expected_version) != self.version {
            return Err(conflict);
        }
        let mut version = self.version;
        for (index, record) in fresh.iter().enumerate() {
            version += 1;
            if record.session != append.session {
                let (found, expected) = (&record.session, &append.session);
                return Err(StoreError::Corrupt(format!(
                    "a record of session {found} was sent to {expected}; it was not stored"
                )));
            }
            let is_twice = fresh.iter().take(index).any(|other| other.id == record.id);
            if record.version != version || is_twice {
                return Err(conflict);
            }
        }
        Ok(Ruling { stored, version })
    }
}
