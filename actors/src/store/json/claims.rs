//! Claiming, releasing and deleting a session of a folder.

use super::journals::{Entered, Journals, Slot};
use super::name;
use super::own::Origin;
use super::position::{Position, Unreadable};
use crate::store::line::{self, ClaimLine};
use bob_messages::ids::SessionId;
use bob_messages::session_state::pool_of;
use bob_messages::store::{Claim, Record, StoreError};
use rustix::fs::OFlags;
use std::sync::Arc;

impl Journals {
    pub(super) fn claim(&self, session: &SessionId) -> Result<Claim, StoreError> {
        self.within(session, |slot| self.claim_in(slot, session, true))
    }

    pub(super) fn claim_latest(&self, session: &SessionId) -> Result<Claim, StoreError> {
        self.within(session, |slot| self.claim_in(slot, session, false))
    }

    fn claim_in(&self, slot: &mut Slot, session: &SessionId, whole: bool) -> Result<Claim, StoreError> {
        self.own()?;
        self.refuse_set_aside(session)?;
        let Some(mut entered) = self.enter(session)? else {
            return self.begin(slot, session);
        };
        let origin = self.own.origin(session, &entered.file)?;
        if origin == Origin::Foreign {
            return Err(self.own.foreign(session));
        }
        self.settle(slot, &mut entered, session)?;
        let shortened = Self::refuse_shortened(slot, &entered);
        slot.known = None;
        if let Err(Unreadable::Damaged(what)) = shortened {
            return Err(self.set_damaged_aside(session, &what));
        }
        let latest = if whole || origin == Origin::Unreadable { None } else { self.read_latest(&entered, session) };
        let (mut position, records) = latest.map_or_else(|| self.read_to_claim(&entered, session), Ok)?;
        if origin == Origin::Unreadable {
            return Err(self.own.foreign(session));
        }
        self.hold.pools().refuse(pool_of(session, &records).as_ref())?;
        if position.is_older() {
            (entered, position) = self.bring_up(session, &entered, &position, &records)?;
        }
        if entered.seen.size > position.end {
            let (journal, bytes) = (name::of(session), entered.seen.size - position.end);
            tracing::warn!(%session, journal, bytes, "the last line was never written to its end; it is cut off");
            self.cut(&mut entered, &journal, position.end)?;
        }
        let version = position.ledger.version();
        let epoch = position.ledger.epoch() + 1;
        self.epochs.given(epoch);
        let (start, mut bytes) = (position.end, Vec::new());
        line::write_claim(&mut bytes, &self.claim_line(epoch));
        if let Err(error) = self.write(&entered, &bytes) {
            return Err(self.doubt(slot, session, start, &error));
        }
        self.claimed(slot, &entered, position, &bytes, epoch);
        Ok(Claim { epoch, version, records })
    }

    /// Makes a journal and claims it. It is written beside its place and gets its name when it is whole, so none
    /// without a header and a claim ever has the name.
    fn begin(&self, slot: &mut Slot, session: &SessionId) -> Result<Claim, StoreError> {
        *slot = Slot::default();
        let journal = name::of(session);
        let beside = name::beside(&journal);
        let epoch = self.epochs.before_the_first() + 1;
        self.epochs.given(epoch);
        let mut bytes = line::header(self.formats.newest(), session);
        bytes.push(b'\n');
        line::write_claim(&mut bytes, &self.own.sign(session, self.claim_line(epoch))?);
        let failed = |error| self.unavailable("make", &journal, &error);
        self.disk.remove(&beside).map_err(failed)?;
        let entered = self.make(&beside).map_err(failed)?;
        let in_doubt = |error| crate::store::full::in_doubt("write", &self.folder.path_of(&journal), &error);
        self.write(&entered, &bytes).map_err(in_doubt)?;
        if !self.disk.rename(&beside, &journal).map_err(in_doubt)? {
            return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
        }
        self.disk.sync_names().map_err(in_doubt)?;
        self.claimed(slot, &entered, Position::new(self.formats), &bytes, epoch);
        Ok(Claim { epoch, version: 0, records: Vec::new() })
    }

    /// Reads the journal from its last snapshot on; `None` when it must be read whole, to be understood or to see
    /// what is wrong with it.
    fn read_latest(&self, entered: &Entered, session: &SessionId) -> Option<(Position, Vec<Arc<Record>>)> {
        let found = Position::before_snapshot(&entered.file, entered.seen.size, session, self.formats);
        // One of an older format is rewritten, for which all of it is read.
        let found = found.ok().flatten().filter(|position| !position.is_older());
        let (mut position, mut records) = (found?, Vec::new());
        let read = position.read_on(&entered.file, None, session, |record| records.push(record));
        read.is_ok().then_some((position, records))
    }

    /// Reads the whole journal; a damaged one is set aside, byte for byte.
    fn read_to_claim(
        &self,
        entered: &Entered,
        session: &SessionId,
    ) -> Result<(Position, Vec<Arc<Record>>), StoreError> {
        let (mut position, mut records) = (Position::new(self.formats), Vec::new());
        match position.read_on(&entered.file, None, session, |record| records.push(record)) {
            Ok(_torn) => Ok((position, records)),
            Err(Unreadable::Damaged(what)) => {
                self.refuse_old_owner(&position)?;
                Err(self.set_damaged_aside(session, &what))
            }
            Err(other) => Err(self.unreadable(session, other)),
        }
    }

    fn claim_line(&self, epoch: u64) -> ClaimLine {
        ClaimLine { epoch, owner: self.hold.name().to_owned(), lock: String::new(), own: String::new() }
    }

    /// Notes a claim whose lines are on the disk.
    fn claimed(&self, slot: &mut Slot, entered: &Entered, mut position: Position, bytes: &[u8], epoch: u64) {
        position.wrote(bytes);
        position.ledger.claimed(epoch);
        slot.known = Some((position, entered.seen.inode));
    }

    /// Sets a damaged journal aside. Answers what its claim is answered.
    fn set_damaged_aside(&self, session: &SessionId, what: &str) -> StoreError {
        let journal = name::of(session);
        match self.set_aside(&journal) {
            Ok(aside) => {
                tracing::error!(%session, journal, aside, what, "a journal is damaged and was set aside");
                self.set_aside_error(session, &aside, what)
            }
            Err(error) => self.unavailable("set aside", &journal, &error),
        }
    }

    /// Renames a journal so that it is not continued, and never over another file. Answers its new name.
    fn set_aside(&self, journal: &str) -> std::io::Result<String> {
        let mut number = 1;
        loop {
            let aside = name::aside(journal, number);
            if self.disk.rename(journal, &aside)? {
                self.disk.sync_names()?;
                return Ok(aside);
            }
            number += 1;
        }
    }

    /// A session whose journal was set aside does not begin anew by itself: its past would seem to be nothing.
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

    /// Lets go of what is known of a session. The folder stays ours.
    pub(super) fn release(&self, session: &SessionId, epoch: u64) {
        self.within(session, |slot| slot.known.take_if(|(position, _)| position.ledger.epoch() == epoch));
    }

    pub(super) fn delete(&self, session: &SessionId) -> Result<bool, StoreError> {
        self.own()?;
        self.within(session, |slot| self.delete_in(slot, session))
    }

    fn delete_in(&self, slot: &mut Slot, session: &SessionId) -> Result<bool, StoreError> {
        let journal = name::of(session);
        let failed = |error| self.unavailable("remove", &journal, &error);
        if let Some(file) = self.folder.open_file(&journal, OFlags::RDONLY).map_err(failed)? {
            let mut position = Position::new(self.formats);
            // A journal that does not read to its end may be deleted; the last claim
            // before its fault is the one that counts.
            let _ = position.read_on(&file, None, session, drop);
            self.refuse_old_owner(&position)?;
        }
        // Before anything is removed: a deletion that fails may have removed the journal.
        self.epochs.deleted();
        let mut found = self.disk.remove(&journal).map_err(failed)?;
        self.disk.remove(&name::beside(&journal)).map_err(failed)?;
        for number in 1.. {
            if !self.disk.remove(&name::aside(&journal, number)).map_err(failed)? {
                break;
            }
            found = true;
        }
        self.disk.sync_names().map_err(failed)?;
        *slot = Slot::default();
        Ok(found)
    }
}
