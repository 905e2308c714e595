//! Claiming, releasing and deleting a session of a folder.

use super::journals::{Entered, Journals, Slot, lock};
use super::name;
use super::position::{Position, Unreadable};
use crate::store::line::{self, ClaimLine, ReleaseLine};
use bob_messages::ids::SessionId;
use bob_messages::store::{Claim, Record, StoreError};
use rustix::fs::OFlags;
use std::sync::Arc;

impl Journals {
    pub(super) fn claim(&self, session: &SessionId) -> Result<Claim, StoreError> {
        let shared = self.slot(session);
        let mut slot = lock(&shared);
        let claim = self.claim_in(&mut slot, session);
        let is_forgettable = slot.known.is_none() && slot.doubt.is_none();
        drop(slot);
        if is_forgettable {
            self.forget(session, shared);
        }
        claim
    }

    fn claim_in(&self, slot: &mut Slot, session: &SessionId) -> Result<Claim, StoreError> {
        let owner = self.owners.ours()?;
        slot.known = None;
        self.refuse_set_aside(session)?;
        let mut entered = self.enter(session, true)?.ok_or_else(|| {
            StoreError::Unavailable(format!("cannot make {}", self.folder.path_of(&name::of(session))))
        })?;
        self.settle(slot, &mut entered, session)?;
        let (mut position, records) = self.read_to_claim(&entered, session)?;
        self.refuse_owned(session, &position)?;
        if entered.seen.size > position.end {
            let (journal, bytes) = (name::of(session), entered.seen.size - position.end);
            tracing::warn!(%session, journal, bytes, "the last line was never written to its end; it is cut off");
            self.cut(&mut entered, &journal, position.end)?;
        }
        let epoch = position.ledger.epoch() + 1;
        let claim = ClaimLine { epoch, owner: owner.name.clone(), lock: owner.lock.clone() };
        self.write_claim(slot, entered, session, &mut position, claim)?;
        self.owners.claimed(session);
        Ok(Claim { epoch, version: position_version(slot), records })
    }

    /// Reads the whole journal; a damaged one is set aside, byte for byte.
    fn read_to_claim(
        &self,
        entered: &Entered,
        session: &SessionId,
    ) -> Result<(Position, Vec<Arc<Record>>), StoreError> {
        let (mut position, mut records) = (Position::default(), Vec::new());
        match position.read_on(entered.file(), None, session, |record| records.push(record)) {
            Ok(_torn) => Ok((position, records)),
            Err(Unreadable::Damaged(what)) => {
                // Whoever owned it before the damage may still write behind it.
                self.refuse_owned(session, &position)?;
                let journal = name::of(session);
                self.close(session);
                let aside = self.set_aside(&journal);
                let aside = aside.map_err(|error| self.unavailable("set aside", &journal, &error))?;
                tracing::error!(%session, journal, aside, what, "a journal is damaged and was set aside");
                Err(self.set_aside_error(session, &aside, &what))
            }
            Err(other) => Err(self.unreadable(session, other)),
        }
    }

    fn write_claim(
        &self,
        slot: &mut Slot,
        entered: Entered,
        session: &SessionId,
        position: &mut Position,
        claim: ClaimLine,
    ) -> Result<(), StoreError> {
        let (start, inode) = (position.end, entered.seen.inode);
        let mut bytes = Vec::new();
        if start == 0 {
            bytes.extend_from_slice(&line::header(session));
            bytes.push(b'\n');
        }
        line::write_claim(&mut bytes, &claim);
        let written = self.write(entered, &bytes).and_then(|file| {
            self.disk.sync(&file)?;
            if start == 0 { self.disk.sync_names() } else { Ok(()) }
        });
        if let Err(error) = written {
            return Err(self.doubt(slot, session, start, &error));
        }
        position.wrote(&bytes);
        position.ledger.claimed(claim.epoch);
        position.owner = Some(claim);
        slot.known = Some((std::mem::take(position), inode));
        Ok(())
    }

    /// Notes that a write failed: nothing that stands behind `end` counts any more.
    pub(super) fn doubt(&self, slot: &mut Slot, session: &SessionId, end: u64, error: &std::io::Error) -> StoreError {
        slot.known = None;
        slot.doubt = Some(end);
        self.close(session);
        StoreError::InDoubt(format!("cannot write {}: {error}", self.folder.path_of(&name::of(session))))
    }

    fn refuse_owned(&self, session: &SessionId, position: &Position) -> Result<(), StoreError> {
        match &position.owner {
            Some(claim) => self.owners.refuse_others(session, &claim.owner, &claim.lock),
            None => Ok(()),
        }
    }

    /// Renames a journal so that nobody continues it, and never over another file.
    /// Answers its new name.
    fn set_aside(&self, journal: &str) -> std::io::Result<String> {
        let mut number = 1;
        loop {
            let aside = name::aside(journal, number);
            if self.disk.rename(journal, &aside)? {
                return Ok(aside);
            }
            number += 1;
        }
    }

    /// A session whose journal was set aside does not begin anew by itself: its
    /// past would seem to be nothing.
    pub(super) fn refuse_set_aside(&self, session: &SessionId) -> Result<(), StoreError> {
        let (journal, aside) = (name::of(session), name::aside(&name::of(session), 1));
        let look = |name: &str| self.folder.look(name).map_err(|error| self.unavailable("look at", name, &error));
        match look(&journal)?.is_none() && look(&aside)?.is_some() {
            true => Err(self.set_aside_error(session, &aside, "it was found damaged before")),
            false => Ok(()),
        }
    }

    fn set_aside_error(&self, session: &SessionId, aside: &str, what: &str) -> StoreError {
        let path = self.folder.path_of(aside);
        StoreError::Corrupt(format!(
            "{what}; the journal is kept as it was in {path}: repair it and name it {} again, or delete session {session}",
            name::of(session)
        ))
    }

    pub(super) fn release(&self, session: &SessionId, epoch: u64) {
        let Some(shared) = self.existing_slot(session) else { return };
        let mut slot = lock(&shared);
        let is_ours = slot.known.as_ref().is_some_and(|(position, _)| position.ledger.epoch() == epoch);
        if !is_ours {
            return;
        }
        let mut bytes = Vec::new();
        line::write_release(&mut bytes, &ReleaseLine { epoch });
        if let Ok(Some(entered)) = self.enter(session, false) {
            let end = slot.known.as_ref().map_or(0, |(position, _)| position.end);
            // Somebody else has written: then it is no longer ours to release. A
            // release that is not on the disk costs nobody more than our lifetime.
            if entered.seen.size == end && self.write(entered, &bytes).is_err() {
                slot.doubt = Some(end);
                slot.known = None;
                self.close(session);
                return;
            }
        }
        slot.known = None;
        drop(slot);
        self.forget(session, shared);
    }

    pub(super) fn delete(&self, session: &SessionId) -> Result<bool, StoreError> {
        let shared = self.slot(session);
        let mut slot = lock(&shared);
        let journal = name::of(session);
        let failed = |error| self.unavailable("remove", &journal, &error);
        if let Some(file) = self.folder.open_file(&journal, OFlags::RDONLY).map_err(failed)? {
            let mut position = Position::default();
            // A journal that does not read to its end may be deleted; the last claim
            // before its fault is the one that counts.
            let _ = position.read_on(&file, None, session, drop);
            self.refuse_owned(session, &position)?;
        }
        let mut found = self.disk.remove(&journal).map_err(failed)?;
        for number in 1.. {
            if !self.disk.remove(&name::aside(&journal, number)).map_err(failed)? {
                break;
            }
            found = true;
        }
        if found {
            self.disk.sync_names().map_err(failed)?;
        }
        *slot = Slot::default();
        drop(slot);
        self.forget(session, shared);
        Ok(found)
    }
}

fn position_version(slot: &Slot) -> u64 {
    slot.known.as_ref().map_or(0, |(position, _)| position.ledger.version())
}
