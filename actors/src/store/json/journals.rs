//! The journals of one folder: their files, and what is known of each.
//!
//! Everything here blocks. A session's slot is locked for as long as something is
//! done with its journal, so that of one process only one thread touches a file;
//! between processes the file's own lock does the same for the short time between
//! looking at the file's size and having written.

use super::disk::Disk;
use super::handles::{Handle, Handles};
use super::name;
use super::position::{Position, Unreadable};
use crate::store::folder::{Folder, Inode, Seen};
use crate::store::owners::{Owners, StoreOptions};
use bob_messages::ids::SessionId;
use bob_messages::store::{FORMAT, StoreError};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long another process may hold a file's lock before we give up: it holds it
/// only to write some lines or to read the journal.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Journals {
    pub(super) folder: Arc<Folder>,
    pub(super) owners: Owners,
    slots: Mutex<HashMap<SessionId, Arc<Mutex<Slot>>>>,
    handles: Mutex<Handles>,
    pub(super) disk: Disk,
}

/// What this process knows of one journal.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) known: Option<(Position, Inode)>,
    /// A write or sync failed; what stands behind this offset is not known to be
    /// on the disk and is cut off before anything else is written.
    pub(super) doubt: Option<u64>,
}

/// What came of going for a journal's lock.
pub(super) enum Door {
    Entered(Entered),
    /// There is no journal.
    Absent,
    /// Another process has the lock and kept it for as long as we waited.
    Locked,
}

/// An open journal under its lock.
pub(super) struct Entered {
    handle: Handle,
    pub(super) seen: Seen,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The lock also ends with the descriptor.
        let _ = self.handle.file.unlock();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left half changed by a panic that a later reader would miss:
    // slots are compared with the file before they are relied on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journals {
    pub(super) fn new(folder: Folder, options: StoreOptions) -> Self {
        let folder = Arc::new(folder);
        Self {
            owners: Owners::new(Arc::clone(&folder), options),
            disk: Disk::new(Arc::clone(&folder)),
            folder,
            slots: Mutex::default(),
            handles: Mutex::default(),
        }
    }

    /// Whether the last claim in a journal is of this store.
    pub(super) fn is_ours(&self, position: &Position) -> bool {
        position.owner.as_ref().is_some_and(|claim| self.owners.are_we(&claim.lock))
    }

    pub(super) fn slot(&self, session: &SessionId) -> Arc<Mutex<Slot>> {
        Arc::clone(lock(&self.slots).entry(session.clone()).or_default())
    }

    /// The slot, if anything was ever done with the session.
    pub(super) fn existing_slot(&self, session: &SessionId) -> Option<Arc<Mutex<Slot>>> {
        lock(&self.slots).get(session).map(Arc::clone)
    }

    /// Forgets a session, unless somebody else waits for its slot.
    pub(super) fn forget(&self, session: &SessionId, slot: Arc<Mutex<Slot>>) {
        lock(&self.handles).forget(session);
        let mut slots = lock(&self.slots);
        // One count is the map's, one ours; nobody can get another under the map's lock.
        if Arc::strong_count(&slot) == 2 {
            slots.remove(session);
        }
    }

    /// Closes the file, so that what follows goes through a new descriptor.
    pub(super) fn close(&self, session: &SessionId) {
        lock(&self.handles).forget(session);
    }

    /// Opens and locks a journal; `None` when there is none and none is to be made.
    pub(super) fn enter(&self, session: &SessionId, create: bool) -> Result<Option<Entered>, StoreError> {
        match self.enter_within(session, create, LOCK_PATIENCE)? {
            Door::Entered(entered) => Ok(Some(entered)),
            Door::Absent => Ok(None),
            Door::Locked => Err(self.locked(session)),
        }
    }

    /// The same, for whoever has something else to do when the journal is locked.
    pub(super) fn enter_within(
        &self,
        session: &SessionId,
        create: bool,
        patience: Duration,
    ) -> Result<Door, StoreError> {
        let name = name::of(session);
        let patience = Instant::now() + patience;
        loop {
            let Some(handle) = self.handle(session, &name, create)? else { return Ok(Door::Absent) };
            if !self.lock_file(&handle.file, &name, patience)? {
                return Ok(Door::Locked);
            }
            // While we waited for the lock, the journal may have been removed or set aside.
            match self.folder.look(&name).map_err(|error| self.unavailable("look at", &name, &error))? {
                Some(seen) if seen.inode == handle.inode => return Ok(Door::Entered(Entered { handle, seen })),
                Some(_) | None => {
                    let _ = handle.file.unlock();
                    self.close(session);
                    if Instant::now() > patience + LOCK_PATIENCE {
                        return Ok(Door::Locked);
                    }
                }
            }
        }
    }

    pub(super) fn locked(&self, session: &SessionId) -> StoreError {
        let path = self.folder.path_of(&name::of(session));
        StoreError::Unavailable(format!("another process keeps {path} locked; is it paused?"))
    }

    fn handle(&self, session: &SessionId, name: &str, create: bool) -> Result<Option<Handle>, StoreError> {
        if let Some(handle) = lock(&self.handles).get(session) {
            return Ok(Some(handle));
        }
        let access = OFlags::RDWR | OFlags::APPEND | if create { OFlags::CREATE } else { OFlags::empty() };
        let opened = self.disk.open(name, access).map_err(|error| self.unavailable("open", name, &error))?;
        let Some(file) = opened else { return Ok(None) };
        let stat = rustix::fs::fstat(&file).map_err(|error| self.unavailable("look at", name, &error.into()))?;
        let handle = Handle { file: Arc::new(file), inode: Seen::from(stat).inode };
        lock(&self.handles).keep(session.clone(), handle.clone());
        Ok(Some(handle))
    }

    fn lock_file(&self, file: &File, name: &str, patience: Instant) -> Result<bool, StoreError> {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) => return Err(self.unavailable("lock", name, &error)),
            }
        }
    }

    /// Cuts everything behind an offset off, durably.
    pub(super) fn cut(&self, entered: &mut Entered, name: &str, end: u64) -> Result<(), StoreError> {
        let cut = self.disk.cut(entered.file(), end);
        cut.map_err(|error| self.unavailable("cut a torn line off", name, &error))?;
        entered.seen.size = end;
        Ok(())
    }

    /// Removes what a failed write of ours left behind, unless somebody has claimed
    /// the session since and thereby taken it as it stands.
    pub(super) fn settle(&self, slot: &mut Slot, entered: &mut Entered, session: &SessionId) -> Result<(), StoreError> {
        let Some(end) = slot.doubt else { return Ok(()) };
        slot.known = None;
        if entered.seen.size > end {
            let mut position = Position::default();
            let read = |position: &mut Position, limit| position.read_on(entered.file(), limit, session, drop);
            read(&mut position, Some(end)).map_err(|error| self.unreadable(session, error))?;
            let epoch = position.ledger.epoch();
            // Behind the offset anything may stand; only a whole claim counts, and not
            // our own, which is what failed.
            let _ = read(&mut position, None);
            if self.is_ours(&position) || position.ledger.epoch() == epoch {
                self.cut(entered, &name::of(session), end)?;
            }
        }
        slot.doubt = None;
        Ok(())
    }

    /// Writes at the end of the file and lets go of its lock; the sync is apart.
    pub(super) fn write(&self, entered: Entered, bytes: &[u8]) -> Result<Arc<File>, io::Error> {
        self.disk.write(entered.file(), entered.handle.inode, entered.seen.size, bytes)?;
        Ok(Arc::clone(&entered.handle.file))
    }

    /// An error of the system, with the path and what was tried.
    pub(super) fn unavailable(&self, doing: &str, name: &str, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("cannot {doing} {}: {error}", self.folder.path_of(name)))
    }

    pub(super) fn unreadable(&self, session: &SessionId, error: Unreadable) -> StoreError {
        let name = name::of(session);
        match error {
            Unreadable::Io(error) => self.unavailable("read", &name, &error),
            Unreadable::TooNew(found) => StoreError::TooNew { found, known: FORMAT },
            Unreadable::Damaged(what) => StoreError::Corrupt(format!("{}, {what}", self.folder.path_of(&name))),
        }
    }
}

impl Entered {
    pub(super) fn file(&self) -> &File {
        &self.handle.file
    }
}
