//! Appending to the journals of a folder.

use super::journals::{Door, Entered, Journals, Slot, lock};
use super::name;
use super::position::Position;
use crate::store::line;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, StoreError};
use std::time::Duration;

impl Journals {
    /// Stores the appends of one session: written together, synced once. `None`
    /// when another process keeps the journal locked for longer than this.
    pub(super) fn append_within(
        &self,
        session: &SessionId,
        appends: &[Append],
        patience: Duration,
    ) -> Option<Vec<Result<u64, StoreError>>> {
        let shared = self.slot(session);
        let mut slot = lock(&shared);
        let answers = self.append_in(&mut slot, session, appends, patience);
        let is_forgettable = slot.known.is_none() && slot.doubt.is_none();
        drop(slot);
        if is_forgettable {
            self.forget(session, shared);
        }
        answers.unwrap_or_else(|error| Some(appends.iter().map(|_| Err(error.clone())).collect()))
    }

    fn append_in(
        &self,
        slot: &mut Slot,
        session: &SessionId,
        appends: &[Append],
        patience: Duration,
    ) -> Result<Option<Vec<Result<u64, StoreError>>>, StoreError> {
        let mut entered = match self.enter_within(session, false, patience)? {
            Door::Entered(entered) => entered,
            Door::Locked => return Ok(None),
            Door::Absent if slot.known.is_some() || slot.doubt.is_some() => {
                let path = self.folder.path_of(&name::of(session));
                let gone = format!("{path} is gone; it was removed while the session was in use");
                return Err(StoreError::Unavailable(gone));
            }
            Door::Absent => return Err(StoreError::Fenced { epoch: 0 }),
        };
        self.settle(slot, &mut entered, session)?;
        let position = self.catch_up(slot, &mut entered, session)?;
        let (start, mut bytes) = (position.end, Vec::new());
        let answers: Vec<_> = appends.iter().map(|append| take(position, append, &mut bytes)).collect();
        if bytes.is_empty() {
            // Of a session that went to another process nothing need be remembered.
            if !self.is_ours(position) {
                slot.known = None;
            }
            return Ok(Some(answers));
        }
        match self.write(entered, &bytes).and_then(|file| self.disk.sync(&file)) {
            Ok(()) => {
                position.wrote(&bytes);
                Ok(Some(answers))
            }
            Err(error) => {
                let in_doubt = self.doubt(slot, session, start, &error);
                Ok(Some(answers.into_iter().map(|answer| answer.and(Err(in_doubt.clone()))).collect()))
            }
        }
    }

    /// Makes what is known of the journal true again: reads it when it is not known
    /// or another file now, and reads on when another process has written.
    fn catch_up<'a>(
        &self,
        slot: &'a mut Slot,
        entered: &mut Entered,
        session: &SessionId,
    ) -> Result<&'a mut Position, StoreError> {
        let seen = entered.seen;
        slot.known.take_if(|(position, inode)| *inode != seen.inode || position.end > seen.size);
        let (position, _) = slot.known.get_or_insert_with(|| (Position::default(), seen.inode));
        if position.end < seen.size {
            if let Err(error) = position.read_on(entered.file(), None, session, drop) {
                slot.known = None;
                return Err(self.unreadable(session, error));
            }
            if position.end < seen.size {
                // Whoever wrote it has ended: we hold the file's lock.
                tracing::warn!(%session, bytes = seen.size - position.end, "a torn line is cut off");
                self.cut(entered, &name::of(session), position.end)?;
            }
        }
        // Borrowed anew, since the error above gives the slot up.
        slot.known.as_mut().map(|(position, _)| position).ok_or(StoreError::Fenced { epoch: 0 })
    }
}

/// Rules on an append and, when it is in order, notes its new records and writes
/// their lines.
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
            // Whoever claimed the session synced what it found, and every write since was.
            line::begin_write(bytes);
        }
    }
    for record in fresh {
        position.ledger.stored(record);
    }
    Ok(ruling.version)
}
