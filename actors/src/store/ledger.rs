//! What a store must remember of a session to rule on an append.
//!
//! The rules of epochs, versions and record ids stand here once, for every store
//! that keeps them in memory. A ledger does no I/O and knows no clock.

use bob_messages::ids::RecordId;
use bob_messages::store::{Append, Record, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// One session's epoch, version and record ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    epoch: u64,
    version: u64,
    /// At which version each record stands.
    ids: HashMap<RecordId, u64>,
}

/// What is to be done with an append that is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// How many of its records, from the first, are stored already.
    pub stored: usize,
    /// The version to answer once the others are stored too.
    pub version: u64,
}

impl Ledger {
    /// The epoch of the last claim; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many records there are.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Notes a claim. Epochs only grow; a smaller one changes nothing.
    pub fn claimed(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Notes one more record as stored, at the next version.
    pub fn stored(&mut self, record: &Record) {
        self.version += 1;
        self.ids.insert(record.id.clone(), self.version);
    }

    /// Lets go of the record ids, for a store that has the records: without an owner nobody
    /// appends. Before the next ruling they must be [recalled](Self::recall).
    pub fn rest(&mut self) {
        self.ids = HashMap::new();
    }

    /// Whether it let go of the ids of records there are.
    #[cfg(test)]
    pub(crate) fn is_resting(&self) -> bool {
        self.ids.is_empty() && self.version > 0
    }

    /// Knows the ids of all records again, if it let go of them.
    pub fn recall(&mut self, records: &[Arc<Record>]) {
        if self.ids.len() < records.len() {
            self.ids = (1..).zip(records).map(|(version, record)| (record.id.clone(), version)).collect();
        }
    }

    /// Whether an append may be stored, and how much of it is left to store.
    /// Changes nothing.
    ///
    /// # Errors
    /// `Fenced` for another epoch than that of the last claim; `Conflict` when the
    /// records do not continue the journal; `Corrupt` for a record of another session.
    pub fn rule(&self, append: &Append) -> Result<Ruling, StoreError> {
        if append.epoch != self.epoch || append.epoch == 0 {
            return Err(StoreError::Fenced { epoch: self.epoch });
        }
        let conflict = StoreError::Conflict { version: self.version };
        let known = append.records.iter().map_while(|record| self.ids.get(&record.id).copied());
        let (stored, last) = known.fold((0, None), |(count, _), version| (count + 1, Some(version)));
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
            if record.version != version || is_twice || self.ids.contains_key(&record.id) {
                return Err(conflict);
            }
        }
        Ok(Ruling { stored, version })
    }
}
