//! The lock of a folder: one process at a time writes its journals.
//!
//! The lock is a file's and ends with its process, however it ends, so neither clocks nor process ids decide; a process
//! that is paused keeps it. Programs that know only format 1 share a folder session by session, with a file of their
//! own each: while one of them lives, the folder is theirs.

use crate::store::folder::{Folder, Seen};
use crate::store::full;
use crate::store::owners::{self, StoreOptions};
use bob_messages::store::{Pools, StoreError};
use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The locked file, which also says whose it is.
const FILE: &str = "folder.owner";

/// How often the lock is tried, and the pause before each further attempt.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Hold {
    folder: Arc<Folder>,
    options: StoreOptions,
    /// Taken by the first claim, so that a store that only reads writes nothing.
    held: Mutex<Option<File>>,
}

impl Hold {
    pub(super) fn new(folder: Arc<Folder>, options: StoreOptions) -> Self {
        Self { folder, options, held: Mutex::default() }
    }

    /// For people, and as claims name their owner.
    pub(super) fn name(&self) -> &str {
        &self.options.owner_name
    }

    pub(super) fn pools(&self) -> &Pools {
        &self.options.pools
    }

    /// Locks the folder, if it is not locked here.
    /// Errors: `Busy` while another process has it, or another store of this one; `Unavailable`.
    pub(super) fn take(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(());
        }
        let failed = |error: io::Error| full::unavailable("lock the folder by", &self.folder.path_of(FILE), &error);
        let Some(mut file) = self.locked().map_err(failed)? else {
            let name = owners::named_in(&self.folder, FILE).unwrap_or_else(|| "another process".to_owned());
            return Err(self.busy(name));
        };
        if let Some(name) = owners::living(&self.folder, FILE).map_err(failed)? {
            return Err(self.busy(format!("{name}, an older program")));
        }
        // Only for the error of a refused process; a full disk must not matter here.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", self.options.owner_name));
        *held = Some(file);
        Ok(())
    }

    /// The name of the living process that has the folder; `None` when there is none.
    pub(super) fn owner(&self) -> io::Result<Option<String>> {
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(Some(self.name().to_owned()));
        }
        let Some(file) = self.folder.open_file(FILE, OFlags::RDONLY)? else { return Ok(None) };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(owners::named_in(&self.folder, FILE)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file under its lock; `None` while another store holds it.
    fn locked(&self) -> io::Result<Option<File>> {
        let mut attempts = 1;
        loop {
            let access = OFlags::RDWR | OFlags::CREATE;
            let Some(file) = self.folder.open_file(FILE, access)? else { continue };
            match file.try_lock() {
                Ok(()) => {}
                // One that asks whose the folder is locks it, too, for a moment.
                Err(TryLockError::WouldBlock) if attempts < ATTEMPTS => {
                    attempts += 1;
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Its last owner may have removed it between our opening and locking it.
            let ours = Seen::from(rustix::fs::fstat(&file)?).inode;
            if self.folder.look(FILE)?.is_some_and(|seen| seen.inode == ours) {
                return Ok(Some(file));
            }
        }
    }

    fn busy(&self, name: String) -> StoreError {
        let owner = match self.options.take_over {
            true => format!("{name}, which has the whole folder: a store of kind json is not taken over"),
            false => name,
        };
        StoreError::Busy { owner }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // No other store removes it while it is locked; if it stays, the next owner takes it.
        if self.held.get_mut().is_ok_and(|held| held.is_some()) {
            let _ = self.folder.remove(FILE);
        }
    }
}
