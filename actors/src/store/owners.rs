//! Who lives: a store that has claimed something keeps a file locked while it lives.
//!
//! A lock ends with its process, however it ends, so neither clocks nor process ids decide whether an owner lives: one
//! that is paused lives. Files that dead owners left are removed when a store becomes an owner or meets one.

use super::folder::Folder;
use bob_messages::store::Pools;
use rustix::fs::OFlags;
use std::fs::TryLockError;
use std::io::{self, Read};

pub(super) const SUFFIX: &str = ".owner";

/// The most that is read of an owner's name, in bytes.
const MAX_NAME: u64 = 1024;

/// How a store that other processes may have open, too, is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Whether the first claim of a session takes it from another living process, which is then fenced. A session that
    /// is taken from this store afterwards is not taken back: two that were told to take over do not fight. A folder of
    /// journals is not taken over: with this, its `Busy` says so behind the name of the owner.
    pub take_over: bool,
    /// What another process tells its user when we own the session it wants.
    pub owner_name: String,
    /// The pools of machines in which this process is. A claim of a session that is bound to another one is refused as
    /// `Unreachable`, and it is not due here.
    pub pools: Pools,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let owner_name = format!("bob (process {})", std::process::id());
        Self { take_over: false, owner_name, pools: Pools::default() }
    }
}

/// The name of a living owner, but for the one with this file. Removes the files of dead ones.
pub(super) fn living(folder: &Folder, but: &str) -> io::Result<Option<String>> {
    let mut found = None;
    for lock in folder.names()?.into_iter().filter(|name| name.ends_with(SUFFIX) && name != but) {
        if lives(folder, &lock) {
            found = Some(named_in(folder, &lock).unwrap_or_else(|| "another process".to_owned()));
        }
    }
    Ok(found)
}

/// The name that an owner has written into its file, if it has come to that.
pub(super) fn named_in(folder: &Folder, lock: &str) -> Option<String> {
    let mut name = String::new();
    let file = folder.open_file(lock, OFlags::RDONLY).ok().flatten()?;
    file.take(MAX_NAME).read_to_string(&mut name).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Whether the owner with this file lives. Of a dead one the file is removed. When it cannot be found out, it lives:
/// taking a session from a living owner by mistake is the worse error.
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
