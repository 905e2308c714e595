//! How a database comes to be: under another name, until it is whole.

use super::Made;
use super::database::Database;
use super::file::{self, Inode};
use super::steps::Known;
use bob_messages::store::StoreError;
use std::fs::File;
use std::path::Path;

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

/// The folder under a lock that ends with this, also with its process; `None` where folders have no locks.
fn locked(path: &Path) -> Option<File> {
    let folder =
        File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))).ok()?;
    folder.lock().is_ok().then_some(folder)
}
