//! How a database comes to be: under another name, until it is whole.

use super::Made;
use super::database::Database;
use super::file::{self, Inode};
use super::steps::Known;
use crate::store::folder::Folder;
use bob_messages::store::StoreError;
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
            // One process at a time, so that what is told of last is what has the name. Where that cannot be, without it.
            let folder = Folder::open(file::folder(path)).ok();
            let _locked_until_it_is_closed = folder.as_ref().map(Folder::lock);
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
