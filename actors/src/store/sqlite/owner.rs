//! Whose a session is: each open store keeps a file of its own locked while it lives, and a claim names that file.

use crate::store::folder::Folder;
use crate::store::full;
use crate::store::owners::{SUFFIX, StoreOptions, lives, living};
use bob_messages::ids::SessionId;
use bob_messages::store::{Pools, StoreError};
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Owners {
    folder: Arc<Folder>,
    options: StoreOptions,
    /// Entered at the first claim, so that a store that only reads writes nothing.
    ours: Mutex<Option<Arc<Owner>>>,
    /// What was claimed here: it is not taken over again.
    claimed: Mutex<HashSet<SessionId>>,
}

impl Owners {
    pub(super) fn new(folder: Arc<Folder>, options: StoreOptions) -> Self {
        Self { folder, options, ours: Mutex::default(), claimed: Mutex::default() }
    }

    pub(super) fn pools(&self) -> &Pools {
        &self.options.pools
    }

    pub(super) fn ours(&self) -> Result<Arc<Owner>, StoreError> {
        let mut ours = lock(&self.ours);
        if let Some(owner) = &*ours {
            return Ok(Arc::clone(owner));
        }
        let entered = Owner::enter(&self.folder, &self.options.owner_name)
            .map_err(|error| full::unavailable("make an owner's file in", &self.folder.path_of(""), &error))?;
        Ok(Arc::clone(ours.insert(Arc::new(entered))))
    }

    /// The name of the file that claims of this store name; none before the first.
    pub(super) fn our_file(&self) -> Option<String> {
        lock(&self.ours).as_ref().map(|ours| ours.lock.clone())
    }

    /// Whether a claim that names this file is of this store.
    pub(super) fn are_we(&self, file: &str) -> bool {
        lock(&self.ours).as_ref().is_some_and(|ours| ours.lock == file)
    }

    pub(super) fn lives(&self, file: &str) -> bool {
        self.are_we(file) || lives(&self.folder, file)
    }

    /// Refuses a session that another running process owns, unless it is to be taken over.
    pub(super) fn refuse_others(&self, session: &SessionId, name: &str, file: &str) -> Result<(), StoreError> {
        let is_taken_over = || self.options.take_over && !lock(&self.claimed).contains(session);
        match !self.are_we(file) && lives(&self.folder, file) && !is_taken_over() {
            true => Err(StoreError::Busy { owner: name.to_owned() }),
            false => Ok(()),
        }
    }

    pub(super) fn claimed(&self, session: &SessionId) {
        if self.options.take_over {
            lock(&self.claimed).insert(session.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Neither a set nor an option is left half changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    fn enter(folder: &Arc<Folder>, name: &str) -> io::Result<Self> {
        let _others = living(folder, "")?;
        loop {
            let lock = format!("{}{SUFFIX}", uuid::Uuid::now_v7());
            let created = folder.open_file(&lock, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
            let Some(mut file) = created else { continue };
            // Between making and locking it, another process may have taken it
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
