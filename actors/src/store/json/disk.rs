//! What the journals do to the disk: every byte that is written, every sync and every
//! change of a name is done here, and nowhere else.
//!
//! Thereby tests can look on, make any of it fail, and build what a crash of the whole
//! machine may leave of it. It decides nothing.

use crate::store::folder::{Folder, Inode};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Disk {
    folder: Arc<Folder>,
    /// How often names changed. It begins at one, for what an earlier process changed and did not sync.
    names_changed: AtomicU64,
    /// How many of these changes are durable.
    names_synced: AtomicU64,
    #[cfg(test)]
    pub(super) watch: std::sync::Mutex<super::watch::Watch>,
}

#[cfg(test)]
use super::watch::Step;

/// In tests, notes a step and fails if it is to fail.
macro_rules! watched {
    ($disk:ident, $step:expr) => {
        #[cfg(test)]
        if let Some(fault) = $disk.meet($step) {
            return Err(fault);
        }
    };
}

impl Disk {
    pub(super) fn new(folder: Arc<Folder>) -> Self {
        Self {
            folder,
            names_changed: AtomicU64::new(1),
            names_synced: AtomicU64::new(0),
            #[cfg(test)]
            watch: std::sync::Mutex::default(),
        }
    }

    /// Opens a file, and makes it if it may. Its name is not durable by that.
    pub(super) fn open(&self, name: &str, access: OFlags) -> io::Result<Option<File>> {
        #[cfg(test)]
        let is_new = access.contains(OFlags::CREATE) && self.folder.look(name)?.is_none();
        #[cfg(test)]
        if is_new && let Some(fault) = self.meet(Step::Make(name.to_owned())) {
            return Err(fault);
        }
        self.folder.open_file(name, access)
    }

    /// Writes at the end of a file, which is at this offset.
    pub(super) fn write(&self, mut file: &File, which: Inode, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if let Some(fault) = self.meet(Step::Write(which, at, bytes.to_vec())) {
            let count = super::lock::lock(&self.watch).bytes_of_a_failing_write.min(bytes.len());
            file.write_all(bytes.get(..count).unwrap_or_default())?;
            return Err(fault);
        }
        let _for_those_who_look_on = (which, at);
        file.write_all(bytes)
    }

    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        watched!(self, Step::Sync(super::watch::inode(file)?));
        file.sync_data()
    }

    /// Cuts everything behind an offset off, durably.
    pub(super) fn cut(&self, file: &File, end: u64) -> io::Result<()> {
        watched!(self, Step::Cut(super::watch::inode(file)?, end));
        file.set_len(end)?;
        watched!(self, Step::Sync(super::watch::inode(file)?));
        file.sync_all()
    }

    /// Renames a journal, never over another file. Whether the name was free. Durable by [`sync_names`](Self::sync_names).
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<bool> {
        watched!(self, Step::Rename(from.to_owned(), to.to_owned()));
        let renamed = self.folder.rename(from, to);
        self.change_names();
        renamed
    }

    /// Gives a journal another one's name, which leads to it from then on. Durable by [`sync_names`](Self::sync_names).
    pub(super) fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        watched!(self, Step::Replace(from.to_owned(), to.to_owned()));
        let replaced = self.folder.replace(from, to);
        self.change_names();
        replaced
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        watched!(self, Step::Remove(name.to_owned()));
        let removed = self.folder.remove(name);
        if !matches!(removed, Ok(false)) {
            self.change_names();
        }
        removed
    }

    /// After the change: a sync that began before it may not cover it.
    fn change_names(&self) {
        self.names_changed.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes new and removed names durable, if any changed since that was done: also those of an attempt that failed.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        let changed = self.names_changed.load(Ordering::SeqCst);
        if self.names_synced.load(Ordering::SeqCst) >= changed {
            return Ok(());
        }
        watched!(self, Step::SyncNames);
        self.folder.sync()?;
        self.names_synced.fetch_max(changed, Ordering::SeqCst);
        Ok(())
    }

    #[cfg(test)]
    fn meet(&self, step: Step) -> Option<io::Error> {
        super::lock::lock(&self.watch).meet(step)
    }
}
