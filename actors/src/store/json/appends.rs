//! Appending to the journals of a folder.

use super::journals::{Entered, Journals, Slot};
use super::name;
use super::position::Position;
use crate::store::line;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Record, StoreError};
use std::sync::Arc;

impl Journals {
    /// Stores the appends of one session: written together, synced once.
    pub(super) fn append(&self, session: &SessionId, appends: &[Append]) -> Vec<Result<u64, StoreError>> {
        let answers = self.within(session, |slot| self.append_in(slot, session, appends));
        answers.unwrap_or_else(|error| appends.iter().map(|_| Err(error.clone())).collect())
    }

    fn append_in(
        &self,
        slot: &mut Slot,
        session: &SessionId,
        appends: &[Append],
    ) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
        self.own()?;
        let is_known = slot.known.is_some() || slot.doubt.is_some();
        let mut entered = match self.enter(session)? {
            Some(entered) => entered,
            None if is_known => return Err(self.gone(session)),
            None => return Err(StoreError::Fenced { epoch: 0 }),
        };
        self.settle(slot, &mut entered, session)?;
        Self::refuse_shortened(slot, &entered).map_err(|error| self.unreadable(session, error))?;
        let position = self.catch_up(slot, &mut entered, session)?;
        if let Some(first) = appends.iter().filter_map(|append| position.ledger.wants(append)).min() {
            // It is sent again, and more was written since than is remembered.
            let mut newest = Vec::new();
            let take = |record: Arc<Record>| newest.extend(Some(record).filter(|record| record.version >= first));
            let read = Position::new(self.formats).read_on(&entered.file, Some(position.end), session, take);
            read.map_err(|error| self.unreadable(session, error))?;
            position.ledger.recall(&newest);
        }
        let (start, mut bytes) = (position.end, Vec::new());
        let answers: Vec<_> = appends.iter().map(|append| take(position, append, &mut bytes)).collect();
        if bytes.is_empty() {
            if !is_known {
                slot.known = None;
            }
            return Ok(answers);
        }
        match self.write(&entered, &bytes) {
            Ok(()) => {
                position.wrote(&bytes);
                Ok(answers)
            }
            Err(error) => {
                let in_doubt = self.doubt(slot, session, start, &error);
                Ok(answers.into_iter().map(|answer| answer.and(Err(in_doubt.clone()))).collect())
            }
        }
    }

    /// Makes what is known of the journal true again: reads it when it is not known, or another file than before.
    fn catch_up<'a>(
        &self,
        slot: &'a mut Slot,
        entered: &mut Entered,
        session: &SessionId,
    ) -> Result<&'a mut Position, StoreError> {
        let seen = entered.seen;
        slot.known.take_if(|(_, inode)| *inode != seen.inode);
        if slot.known.is_none() {
            self.refuse_foreign(session, &entered.file)?;
        }
        let (position, _) = slot.known.get_or_insert_with(|| (Position::new(self.formats), seen.inode));
        if position.end < seen.size || seen.size == 0 {
            if let Err(error) = position.read_on(&entered.file, None, session, drop) {
                slot.known = None;
                return Err(self.unreadable(session, error));
            }
            if position.end < seen.size {
                tracing::warn!(%session, bytes = seen.size - position.end, "a torn line is cut off");
                self.cut(entered, &name::of(session), position.end)?;
            }
        }
        if position.is_older() {
            // It was claimed by an older program; who claims it here brings it up to date.
            let epoch = position.ledger.epoch();
            slot.known = None;
            return Err(StoreError::Fenced { epoch });
        }
        // Borrowed anew, since the errors above give the slot up.
        slot.known.as_mut().map(|(position, _)| position).ok_or(StoreError::Fenced { epoch: 0 })
    }
}

/// Rules on an append and, when it is in order, notes its new records and writes their lines.
fn take(position: &mut Position, append: &Append, bytes: &mut Vec<u8>) -> Result<u64, StoreError> {
    let ruling = position.ledger.rule(append)?;
    let before = bytes.len();
    let fresh = append.records.get(ruling.stored..).unwrap_or_default();
    for record in fresh {
        let is_first = bytes.is_empty();
        if let Err(why) = line::write_record(bytes, record) {
            bytes.truncate(before);
            return Err(StoreError::Corrupt(format!("{why}; nothing was stored")));
        }
        if is_first {
            // The claim synced what it found, and every write since was synced.
            line::begin_write(bytes);
        }
    }
    for record in fresh {
        position.ledger.stored(record);
    }
    Ok(ruling.version)
}
