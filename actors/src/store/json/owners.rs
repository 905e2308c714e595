//! Who lives: each open store keeps a file of its own locked while it does.
//!
//! A claim in a journal names that file. A lock ends with its process, however it
//! ends, so neither clocks nor process ids decide whether an owner lives. Files
//! that dead owners left are removed when a store is opened or meets one.

use super::folder::Folder;
use rustix::fs::OFlags;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::sync::Arc;

const SUFFIX: &str = ".owner";

/// This store, as an owner of sessions.
#[derive(Debug)]
pub(super) struct Owner {
    /// For people.
    pub(super) name: String,
    /// The name of the locked file, unique for all time.
    pub(super) lock: String,
    folder: Arc<Folder>,
    /// Held for its lock.
    _file: File,
}

impl Owner {
    /// Becomes an owner in this folder, and removes what dead ones left.
    pub(super) fn enter(folder: &Arc<Folder>, name: &str) -> io::Result<Self> {
        for lock in folder.names()?.into_iter().filter(|name| name.ends_with(SUFFIX)) {
            lives(folder, &lock);
        }
        loop {
            let lock = format!("{}{SUFFIX}", uuid::Uuid::now_v7());
            let created = folder.open_file(&lock, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
            let Some(mut file) = created else { continue };
            // Between making and locking it, somebody who sweeps may have taken it
            // for a dead owner's and removed it; then another file is made.
            if file.try_lock().is_ok() && folder.look(&lock)?.is_some() {
                // Only for people who look into the folder; a full disk must not matter here.
                let _ = writeln!(file, "{name}");
                return Ok(Self { name: name.to_owned(), lock, folder: Arc::clone(folder), _file: file });
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If it stays, the next store that is opened here removes it.
        let _ = self.folder.remove(&self.lock);
    }
}

/// Whether the owner with this file lives. Of a dead one the file is removed. When
/// it cannot be found out, it lives: taking a session from a living owner by
/// mistake is the worse error.
pub(super) fn lives(folder: &Folder, lock: &str) -> bool {
    if !lock.ends_with(SUFFIX) || lock.contains('/') {
        return false;
    }
    match folder.open_file(lock, OFlags::RDONLY) {
        Ok(None) => false,
        Ok(Some(file)) => match file.try_lock() {
            Ok(()) => {
                let _ = folder.remove(lock);
                false
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        },
        Err(_) => true,
    }
}
