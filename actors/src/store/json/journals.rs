//! The journals of one folder: their files, and what is known of each.
//!
//! Everything here blocks. A session's slot is locked for as long as something is done with
//! its journal; no other process writes it, since the folder is locked.

use super::disk::Disk;
use super::hold::Hold;
use super::lock::lock;
use super::name;
use super::own::{Origin, Own};
use super::position::{Position, Unreadable};
use crate::store::Marked;
use crate::store::folder::{Folder, Inode, Seen};
use crate::store::owners::StoreOptions;
use bob_messages::ids::SessionId;
use bob_messages::store::{Formats, Pools, StoreError};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) struct Journals {
    pub(super) folder: Arc<Folder>,
    pub(super) hold: Hold,
    pub(super) formats: Formats,
    slots: Mutex<HashMap<SessionId, Arc<Mutex<Slot>>>>,
    pub(super) disk: Disk,
    pub(super) epochs: Epochs,
    pub(super) own: Own,
}

/// The epochs that were given here. A journal that begins anew after a deletion goes on behind them; no owner of another
/// process has one, since the folder is locked until this process ends.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    greatest: AtomicU64,
    /// The greatest one at the last deletion.
    deleted: AtomicU64,
}

impl Epochs {
    pub(super) fn given(&self, epoch: u64) {
        self.greatest.fetch_max(epoch, Ordering::SeqCst);
    }

    pub(super) fn deleted(&self) {
        self.deleted.fetch_max(self.greatest.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// The epoch of a journal before its first claim.
    pub(super) fn before_the_first(&self) -> u64 {
        self.deleted.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) known: Option<(Position, Inode)>,
    /// A write or sync failed; what stands behind this offset is not known to be
    /// on the disk and is cut off before anything else is written.
    pub(super) doubt: Option<u64>,
}

/// An open journal, as it was when it was opened.
pub(super) struct Entered {
    pub(super) file: File,
    pub(super) seen: Seen,
}

impl Journals {
    pub(super) fn new(folder: Folder, options: StoreOptions, formats: Formats, marked: Option<Marked>) -> Self {
        let folder = Arc::new(folder);
        Self {
            hold: Hold::new(Arc::clone(&folder), options),
            disk: Disk::new(Arc::clone(&folder)),
            own: Own::new(Arc::clone(&folder), formats, marked),
            folder,
            formats,
            slots: Mutex::default(),
            epochs: Epochs::default(),
        }
    }

    pub(super) fn pools(&self) -> Pools {
        self.hold.pools().clone()
    }

    /// Does something under a session's slot, and forgets the slot when nothing is known of it.
    pub(super) fn within<T>(&self, session: &SessionId, work: impl FnOnce(&mut Slot) -> T) -> T {
        let shared = Arc::clone(lock(&self.slots).entry(session.clone()).or_default());
        let mut slot = lock(&shared);
        let done = work(&mut slot);
        let is_forgettable = slot.known.is_none() && slot.doubt.is_none();
        drop(slot);
        if is_forgettable {
            let mut slots = lock(&self.slots);
            // One count is the map's, one ours; another needs the map's lock.
            if Arc::strong_count(&shared) == 2 {
                slots.remove(session);
            }
        }
        done
    }

    /// Locks the folder for this process, settles which journals are its own, and makes the names in it durable: a journal may have its name from an attempt, or
    /// from a process, that ended before that, and what is written to it would be lost with the name.
    pub(super) fn own(&self) -> Result<(), StoreError> {
        self.hold.take()?;
        self.own.settle()?;
        self.disk.sync_names().map_err(|error| self.unavailable("sync", "", &error))
    }

    /// Opens a journal; `None` when there is none.
    pub(super) fn enter(&self, session: &SessionId) -> Result<Option<Entered>, StoreError> {
        let name = name::of(session);
        let opened = self
            .disk
            .open(&name, OFlags::RDWR | OFlags::APPEND)
            .map_err(|error| self.unavailable("open", &name, &error))?;
        let entered = opened.map(Entered::of).transpose();
        entered.map_err(|error| self.unavailable("look at", &name, &error))
    }

    pub(super) fn make(&self, name: &str) -> io::Result<Entered> {
        let access = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        self.disk.open(name, access)?.map_or_else(|| Err(io::ErrorKind::NotFound.into()), Entered::of)
    }

    /// Cuts everything behind an offset off, durably.
    pub(super) fn cut(&self, entered: &mut Entered, name: &str, end: u64) -> Result<(), StoreError> {
        let cut = self.disk.cut(&entered.file, end);
        cut.map_err(|error| self.unavailable("cut a torn line off", name, &error))?;
        entered.seen.size = end;
        Ok(())
    }

    /// Removes what a failed write left behind.
    pub(super) fn settle(&self, slot: &mut Slot, entered: &mut Entered, session: &SessionId) -> Result<(), StoreError> {
        let Some(end) = slot.doubt else { return Ok(()) };
        slot.known = None;
        if entered.seen.size > end {
            self.cut(entered, &name::of(session), end)?;
        }
        slot.doubt = None;
        Ok(())
    }

    /// Writes at the end of the file. Durable when it returns.
    pub(super) fn write(&self, entered: &Entered, bytes: &[u8]) -> Result<(), io::Error> {
        self.disk.write(&entered.file, entered.seen.inode, entered.seen.size, bytes)?;
        self.disk.sync(&entered.file)
    }

    /// Notes that a write failed: nothing that stands behind `end` counts any more.
    pub(super) fn doubt(&self, slot: &mut Slot, session: &SessionId, end: u64, error: &io::Error) -> StoreError {
        slot.known = None;
        slot.doubt = Some(end);
        crate::store::full::in_doubt("write", &self.folder.path_of(&name::of(session)), error)
    }

    /// Fails if a journal is shorter than what was written to it here.
    pub(super) fn refuse_shortened(slot: &Slot, entered: &Entered) -> Result<(), Unreadable> {
        let is_shortened =
            |(position, inode): &(Position, Inode)| *inode == entered.seen.inode && position.end > entered.seen.size;
        match slot.known.as_ref().filter(|known| is_shortened(known)) {
            Some((position, _)) => Err(Unreadable::Damaged(format!(
                "it has {} bytes, and {} were written to it while it was in use",
                entered.seen.size, position.end
            ))),
            None => Ok(()),
        }
    }

    /// Fails if a journal is not the folder's own, or does not begin as one.
    pub(super) fn refuse_foreign(&self, session: &SessionId, file: &File) -> Result<(), StoreError> {
        match self.own.origin(session, file)? {
            Origin::Own => Ok(()),
            Origin::Foreign => Err(self.own.foreign(session)),
            Origin::Unreadable => {
                let read = Position::new(self.formats).read_on(file, None, session, drop);
                Err(read.map_or_else(|bad| self.unreadable(session, bad), |_torn| self.own.foreign(session)))
            }
        }
    }

    pub(super) fn gone(&self, session: &SessionId) -> StoreError {
        let path = self.folder.path_of(&name::of(session));
        StoreError::Unavailable(format!("{path} is gone; it was removed while the session was in use"))
    }

    pub(super) fn unavailable(&self, doing: &str, name: &str, error: &io::Error) -> StoreError {
        crate::store::full::unavailable(doing, &self.folder.path_of(name), error)
    }

    pub(super) fn unreadable(&self, session: &SessionId, error: Unreadable) -> StoreError {
        let name = name::of(session);
        match error {
            Unreadable::Io(error) => self.unavailable("read", &name, &error),
            Unreadable::TooNew(found) => StoreError::TooNew { found, known: self.formats.newest() },
            Unreadable::Damaged(what) => StoreError::Corrupt(format!("{}, {what}", self.folder.path_of(&name))),
        }
    }
}

impl Entered {
    fn of(file: File) -> io::Result<Self> {
        let seen = Seen::from(rustix::fs::fstat(&file)?);
        Ok(Self { file, seen })
    }
}
