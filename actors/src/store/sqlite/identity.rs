//! Which database it is: the one row of a table, which each transaction that changes something writes.
//!
//! Thereby it is in each log of the database, and in no other one (`log.rs`).

use super::database::{Database, Nature};
use super::file::{self, emptied};
use super::log;
use super::steps::{IDENTITY, KNOWN};
use crate::store::Made;
use crate::store::identity::{Identified, Identity};
use bob_messages::store::StoreError;
use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

impl Database {
    /// Lets a database be used that is after so many steps: its log is folded into it from now on.
    /// Errors: `Corrupt` when the log beside it is that of another one.
    pub(super) fn admit(&self, steps: usize) -> Result<(), StoreError> {
        let own = match self.identity_in_the_file() {
            Some(identity) => Some(identity),
            None => self.identity(steps)?,
        };
        if let Some(identity) = own {
            let log = file::log_of(&self.path);
            let is_own = log::has_none_or(&log, identity.as_written());
            if !is_own.map_err(|error| file::unavailable("read", &log, &error))? {
                return Err(file::foreign(&self.path, &log));
            }
        }
        self.signs.set(steps >= IDENTITY);
        self.fold_at_close(true)
    }

    /// The identity that the file has without its log, which may be another database's with an identity of its own or of none.
    /// `None` for one of an older program, and for one whose tables are in its log only.
    fn identity_in_the_file(&self) -> Option<Identity> {
        let inode = file::look(&self.path).ok()??;
        let name = file::without_its_log(&file::real(&self.path).ok()?)?;
        let alone = Self::connect_immutable(&name, &self.path, inode, KNOWN).ok()?;
        match alone.nature().ok()? {
            Nature::Ours(steps) => alone.identity(steps).ok()?,
            Nature::Empty => None,
        }
    }

    /// The identity of a database that is after so many steps; `None` when that is too few.
    pub(super) fn identity(&self, steps: usize) -> Result<Option<Identity>, StoreError> {
        if steps < IDENTITY {
            return Ok(None);
        }
        let mut found = None;
        self.statement("SELECT secret FROM identity WHERE one = 1")?.each(&[], |row| {
            found = row.text(0)?.and_then(Identity::read);
            Ok::<_, StoreError>(())
        })?;
        let none =
            || StoreError::Corrupt(format!("{} has lost its identity: put a copy of it back", self.path.display()));
        found.map(Some).ok_or_else(none)
    }

    /// Writes the identity into the log, once more.
    pub(super) fn sign(&self) -> Result<(), StoreError> {
        self.statement("UPDATE identity SET transactions = transactions + 1")?.run(&[]).map(drop)
    }

    /// Whether the last connection that is closed folds the log into the database and removes it.
    pub(super) fn fold_at_close(&self, folds: bool) -> Result<(), StoreError> {
        let set = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !folds);
        set.map(drop).map_err(|error| self.failed("open", &error))
    }

    /// By what a database is known outside of it, also one of an older program.
    pub(super) fn mark_of(path: &Path) -> Result<Option<String>, StoreError> {
        let Some(inode) = file::look(path)? else { return Ok(None) };
        // Nothing else has it open, and nothing is made beside it.
        let alone = (!file::has_log(path)).then(|| Self::connect_unchanging(path, inode, KNOWN).ok()).flatten();
        let database = match alone {
            Some(database) => database,
            None => Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_ONLY, KNOWN)?,
        };
        match database.nature()? {
            Nature::Empty => Err(emptied(path)),
            Nature::Ours(steps) => {
                database.admit(steps)?;
                Ok(database.identity(steps)?.map(|identity| identity.mark()))
            }
        }
    }
}

/// The identity of a database for what lies beside it.
pub(super) struct DatabaseIdentity {
    path: PathBuf,
    made: Option<Made>,
    known: OnceLock<Identity>,
}

impl DatabaseIdentity {
    pub(super) fn new(path: PathBuf, made: Option<Made>) -> Self {
        Self { path, made, known: OnceLock::new() }
    }
}

impl fmt::Debug for DatabaseIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseIdentity").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Identified for DatabaseIdentity {
    fn identity(&self, makes: bool) -> Result<Option<Identity>, StoreError> {
        if let Some(known) = self.known.get() {
            return Ok(Some(known.clone()));
        }
        let database = match makes && file::look(&self.path)?.is_none() {
            true => Some(Database::open_telling(&self.path, KNOWN, self.made.as_ref())?),
            false => Database::open_to_read(&self.path)?,
        };
        let found = database.map(|database| database.identity(KNOWN.steps.len())).transpose()?.flatten();
        Ok(found.map(|found| self.known.get_or_init(|| found).clone()))
    }
}
