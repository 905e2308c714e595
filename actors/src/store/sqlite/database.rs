//! The database file: opened, checked, migrated, and spoken to in SQL.
//!
//! This file, `statement.rs` and `failed.rs` are the only ones that know the SQL library. Everything here blocks; a database is
//! used by one thread. A file that is not ours, or of a newer program, is refused
//! before anything is written to it.

use super::Made;
use super::failed::{LOCK_PATIENCE, failed, is_busy};
use super::file::{self, Inode, emptied};
use super::steps::{APPLICATION, KNOWN, Known};
use bob_messages::store::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    inode: Inode,
    pub(super) known: Known,
    /// Whether it excludes all other connections, so that it is closed after each question.
    pub(super) is_alone: bool,
    /// As it was when the steps were last looked at.
    data_version: Cell<Option<i64>>,
    /// Whether it has an identity, which its transactions write.
    pub(super) signs: Cell<bool>,
    /// The next commit happens and tells that it failed.
    #[cfg(test)]
    pub(super) loses_commit: Cell<bool>,
    /// The next commit panics before it begins.
    #[cfg(test)]
    pub(super) panics: Cell<bool>,
}

pub(super) enum Nature {
    Empty,
    /// Ours, after so many steps.
    Ours(usize),
}

impl Database {
    /// Opens a database to write to, makes it when it is not there, and brings it up to date.
    #[cfg(test)]
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_of(path, KNOWN)
    }

    /// Opens a database to write to, as a program that knows these formats.
    #[cfg(test)]
    pub(super) fn open_of(path: &Path, known: Known) -> Result<Self, StoreError> {
        Self::open_telling(path, known, None)
    }

    /// Opens a database to write to, and calls `made` when it creates one.
    pub(super) fn open_telling(path: &Path, known: Known, made: Option<&Made>) -> Result<Self, StoreError> {
        let inode = match file::look(path)? {
            Some(_) if file::is_read_only(path) => return Err(file::read_only(path)),
            Some(inode) => inode,
            None => Self::make(path, known, made)?,
        };
        let database = Self::connect_to_write(path, inode, known)?;
        let steps = match database.nature()? {
            Nature::Empty => return Err(emptied(path)),
            Nature::Ours(steps) => steps,
        };
        database.admit(steps)?;
        database.switch_on_the_log()?;
        database.pragma("synchronous", "FULL")?;
        if steps < known.steps.len() {
            database.migrate()?;
            database.admit(known.steps.len())?;
        }
        Ok(database)
    }

    /// Opens a database that is there, only to read; `None` when there is none.
    pub(super) fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::open_to_read_of(path, KNOWN)
    }

    /// Opens a database to read, as a program that knows these formats.
    pub(super) fn open_to_read_of(path: &Path, known: Known) -> Result<Option<Self>, StoreError> {
        let Some(inode) = file::look(path)? else { return Ok(None) };
        let opened = Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_ONLY, known);
        let opened = match opened.and_then(|database| Ok((database.nature()?, database))) {
            // There is no log, and none can be made.
            Err(StoreError::Unavailable(_)) if file::is_read_only(path) => {
                let database = Self::connect_unchanging(path, inode, known)?;
                (database.nature()?, database)
            }
            Err(_no_room) if file::is_disk_full(path) => {
                let database = Self::connect_alone(path, inode, known)?;
                (database.nature()?, database)
            }
            opened => opened?,
        };
        let (nature, database) = opened;
        match nature {
            Nature::Empty => Err(emptied(path)),
            // A log of another database may say that this one is older.
            Nature::Ours(steps) => match database.admit(steps)? {
                () if steps < known.steps.len() && file::is_read_only(path) => Err(file::older_and_read_only(path)),
                () if steps < known.steps.len() => {
                    let path = path.display();
                    Err(StoreError::Unavailable(format!("another process is bringing {path} up to date; try again")))
                }
                () => Ok(Some(database)),
            },
        }
    }

    /// Opens a database to read where the disk has no room for the index of its log, which others would share: it is in
    /// memory, and nothing else has the database open meanwhile.
    pub(super) fn connect_alone(path: &Path, inode: Inode, known: Known) -> Result<Self, StoreError> {
        let mut database = Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_WRITE, known)?;
        database.is_alone = true;
        database.pragma("locking_mode", "EXCLUSIVE")?;
        database.pragma("query_only", "ON")?;
        Ok(database)
    }

    /// Opens a database to read that nothing changes: it has no log, and its file system takes none.
    pub(super) fn connect_unchanging(path: &Path, inode: Inode, known: Known) -> Result<Self, StoreError> {
        Self::connect_immutable(&file::unchanging(path)?, path, inode, known)
    }

    /// Opens a database by a name as a file that nothing changes, to read.
    pub(super) fn connect_immutable(name: &str, path: &Path, inode: Inode, known: Known) -> Result<Self, StoreError> {
        let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Self::connect_by(Path::new(name), path, inode, access, known)
    }

    pub(super) fn connect_to_write(path: &Path, inode: Inode, known: Known) -> Result<Self, StoreError> {
        Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_WRITE, known)
    }

    pub(super) fn connect(path: &Path, inode: Inode, access: OpenFlags, known: Known) -> Result<Self, StoreError> {
        Self::connect_by(&file::real(path)?, path, inode, access, known)
    }

    fn connect_by(name: &Path, path: &Path, inode: Inode, access: OpenFlags, known: Known) -> Result<Self, StoreError> {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        file::look_beside(path)?;
        file::refuse_rollback(path)?;
        let connection = Connection::open_with_flags(name, flags).map_err(|error| failed(path, "open", &error))?;
        let database = Self {
            connection,
            path: path.to_owned(),
            inode,
            known,
            is_alone: false,
            data_version: Cell::default(),
            signs: Cell::default(),
            #[cfg(test)]
            loses_commit: Cell::default(),
            #[cfg(test)]
            panics: Cell::default(),
        };
        let patience = database.connection.busy_timeout(LOCK_PATIENCE);
        patience.map_err(|error| database.failed("open", &error))?;
        // A log that lies beside it is not folded into it before it is known to be its own.
        database.fold_at_close(false)?;
        // What a hostile file brings along is not run, and what is malformed is noticed early.
        database.pragma("trusted_schema", "OFF")?;
        database.pragma("cell_size_check", "ON")?;
        Ok(database)
    }

    /// Whether the path still leads to this database: what is written to a file that was removed is lost.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(file::look(&self.path), Ok(Some(inode)) if inode == self.inode)
    }

    pub(super) fn nature(&self) -> Result<Nature, StoreError> {
        // One statement sees one moment: another process may be making the database.
        let question = "SELECT (SELECT application_id FROM pragma_application_id),
                               (SELECT user_version FROM pragma_user_version),
                               (SELECT count(*) FROM sqlite_schema)";
        let read = self
            .connection
            .query_row(question, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        let (application, version, tables) = read.map_err(|error| self.failed("read", &error))?;
        let steps = usize::try_from(version).unwrap_or(usize::MAX);
        if application == APPLICATION {
            self.refuse_newer(version)?;
        }
        match (application, steps, tables) {
            (APPLICATION, steps, _) => Ok(Nature::Ours(steps)),
            (0, 0, 0) => Ok(Nature::Empty),
            _ => {
                let path = self.path.display();
                let text = format!("{path} is a database of another program; it was left as it is: name another file");
                Err(StoreError::Unavailable(text))
            }
        }
    }

    /// Two processes may do this at once to a new file; SQLite then returns to one of them
    /// that the database is locked, without a wait.
    pub(super) fn switch_on_the_log(&self) -> Result<(), StoreError> {
        let patience = Instant::now() + LOCK_PATIENCE;
        loop {
            let set =
                self.connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
            match set {
                Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
                Ok(mode) => {
                    let path = self.path.display();
                    let text = format!("{path} cannot have a write-ahead log here (its mode is {mode:?})");
                    return Err(StoreError::Unavailable(text));
                }
                Err(error) if is_busy(&error) && Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(self.failed("open", &error)),
            }
        }
    }

    /// Notes that so many steps were taken.
    pub(super) fn mark(&self, steps: usize) -> Result<(), StoreError> {
        self.run(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {steps}"))
    }

    fn refuse_newer(&self, version: i64) -> Result<(), StoreError> {
        let (found, known) = (u32::try_from(version).unwrap_or(u32::MAX), self.known.steps.len() as u32);
        if found > known { Err(StoreError::TooNew { found, known }) } else { Ok(()) }
    }

    /// A number that changes when another connection has changed the database since it was last asked for.
    ///
    /// What is begun must see no steps that this program does not know: a newer one may have taken them since the
    /// database was opened.
    fn still_known(&self) -> Result<i64, StoreError> {
        let now = self.number("PRAGMA data_version")?;
        if self.data_version.get() != Some(now) {
            self.refuse_newer(self.number("PRAGMA user_version")?)?;
            self.data_version.set(Some(now));
        }
        Ok(now)
    }

    fn number(&self, sql: &str) -> Result<i64, StoreError> {
        let mut found = 0;
        self.statement(sql)?.each(&[], |row| {
            found = row.number(0)?;
            Ok::<_, StoreError>(())
        })?;
        Ok(found)
    }

    /// What SQLite says of the sessions and their indexes: `ok`, or what is wrong. Reads all of them.
    pub(super) fn check_sessions(&self) -> Result<String, StoreError> {
        let said = self.connection.query_row("PRAGMA integrity_check(sessions)", [], |row| row.get(0));
        said.map_err(|error| self.failed("read", &error))
    }

    pub(super) fn interrupt(&self) -> Interrupt {
        Interrupt(self.connection.get_interrupt_handle())
    }

    pub(super) fn pragma(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.connection.pragma_update(None, name, value).map_err(|error| self.failed("open", &error))
    }

    pub(super) fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.failed("write", &error))
    }

    /// Reads from here on see one state of the database.
    pub(super) fn read(&self) -> Result<Transaction<'_>, StoreError> {
        self.begin("BEGIN")
    }

    /// Begins a transaction that excludes other writers; waits for the current one.
    pub(super) fn write(&self) -> Result<Transaction<'_>, StoreError> {
        self.begin("BEGIN IMMEDIATE")
    }

    fn begin(&self, sql: &str) -> Result<Transaction<'_>, StoreError> {
        self.statement(sql)?.run(&[])?;
        let mut begun = Transaction { database: self, data_version: 0, changes: self.connection.total_changes() };
        begun.data_version = self.still_known()?;
        Ok(begun)
    }

    /// Ends the open transaction; its commit will say so.
    pub(super) fn give_up(&self) {
        if self.is_in_transaction() {
            // If this fails, so does the next transaction, which says so.
            let _ = self.run("ROLLBACK");
        }
    }

    /// Whether a transaction is open; some failures end it.
    pub(super) fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    pub(super) fn failed(&self, doing: &str, error: &rusqlite::Error) -> StoreError {
        failed(&self.path, doing, error)
    }

    /// Lets the database have no more pages than it has now, as a full disk would.
    #[cfg(test)]
    pub(super) fn fill(&self, is_full: bool) {
        let pages = if is_full { 1 } else { i64::from(u32::MAX - 1) };
        self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    }

    #[cfg(test)]
    pub(super) fn check(&self) -> String {
        self.connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    }

    #[cfg(test)]
    pub(super) fn count(&self, table: &str) -> usize {
        let count = self.connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
        usize::try_from(count.unwrap()).unwrap()
    }

    #[cfg(test)]
    pub(super) fn tamper(&self, sql: &str) {
        // What is tampered with is the database's own.
        if self.signs.get() {
            self.sign().unwrap();
        }
        self.connection.execute_batch(sql).unwrap();
    }
}

pub(super) struct Interrupt(rusqlite::InterruptHandle);

impl Interrupt {
    /// Ends the statement that runs now, if one does.
    pub(super) fn now(&self) {
        self.0.interrupt();
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupt")
    }
}

/// What is read and written between here and the commit. Dropped, it never was.
#[derive(Debug)]
pub(super) struct Transaction<'c> {
    database: &'c Database,
    /// Another number than that of the transaction before when another connection wrote between them.
    pub(super) data_version: i64,
    /// How many rows the connection had changed before.
    changes: u64,
}

impl Transaction<'_> {
    /// Makes it durable. Errors: `InDoubt` when the commit itself failed; `Unavailable` when the transaction was given
    /// up before, and nothing of it is stored.
    pub(super) fn commit(self) -> Result<(), StoreError> {
        if !self.database.is_in_transaction() {
            let path = self.database.path.display();
            return Err(StoreError::Unavailable(format!("{path} gave up what was being written; nothing was stored")));
        }
        if self.database.signs.get() && self.database.connection.total_changes() != self.changes {
            self.database.sign()?;
        }
        #[cfg(test)]
        assert!(!self.database.panics.take(), "sabotaged");
        let mut commit = self.database.statement("COMMIT")?;
        commit.run(&[]).map(drop).map_err(|error| match error {
            StoreError::Unavailable(why) => StoreError::InDoubt(why),
            error => StoreError::InDoubt(error.to_string()),
        })?;
        #[cfg(test)]
        if self.database.loses_commit.take() {
            return Err(StoreError::InDoubt("sabotaged".to_owned()));
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.database.give_up();
    }
}
