//! How a database comes to be: under another name, until it is whole.

use super::Made;
use super::database::Database;
use super::file::{self, Inode};
use super::steps::Known;
use bob_messages::store::StoreError;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

/// How often the lock of the folder is tried, and how long is waited in between: what it is held for takes milliseconds.
const LOOKS: u32 = 250;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

impl Database {
    /// Makes a database under another name, and gives it its own when it is whole: one that is empty under its own name
    /// was emptied.
    /// Errors: `Corrupt` when a log or messages lie beside its place.
    pub(super) fn make(path: &Path, known: Known, made: Option<&Made>) -> Result<Inode, StoreError> {
        file::refuse_remains(path)?;
        let beside = file::make_beside(path)?;
        let make = || {
            let inode = file::look(&beside)?.unwrap_or_default();
            let database = Self::connect_to_write(&beside, inode, known)?;
            database.admit(0)?;
            database.pragma("synchronous", "FULL")?;
            database.migrate()?;
            // Here, so that a rollback journal never lies beside a database under its name.
            database.switch_on_the_log()?;
            drop(database);
            // One process at a time, so that what is told of last is what has the name.
            let _locked = locked(path);
            if let Some(others) = file::look(path)? {
                // Another program may have taken it for gone in between, and forgotten it.
                made.iter().for_each(|made| made(path));
                return Ok(Some(others));
            }
            // Before it has its name, so that a crash leaves none that was not told of.
            made.iter().for_each(|made| made(&beside));
            if !file::give_name(&beside, path)? {
                made.iter().for_each(|made| made(path));
            }
            file::look(path)
        };
        let named = make();
        let _is_gone_when_it_was_renamed = std::fs::remove_file(&beside);
        named?.ok_or_else(|| StoreError::Unavailable(format!("{} was removed while it was made", path.display())))
    }
}

/// The folder under a lock that ends with this, also with its process; `None` where folders have no locks, and when it is not
/// to be had in time: a stopped process holds nobody up for good.
fn locked(path: &Path) -> Option<File> {
    let folder = File::open(file::folder(path)).ok()?;
    for _look in 0..LOOKS {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_LOOKS),
            Err(TryLockError::Error(_none_here)) => return None,
        }
    }
    None
}
