//! The database file: opened, checked, migrated, and spoken to in SQL.
//!
//! The only file that knows the SQL library. Everything here blocks; a database is
//! used by one thread. A file that is not ours, or of a newer program, is refused
//! before anything is written to it.

use super::file::{self, Inode};
use super::steps::{APPLICATION, STEPS, Steps};
use bob_messages::store::StoreError;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another process may hold the database before we give up: it holds it
/// only to commit.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    inode: Inode,
    steps: Steps,
    /// Whether the sessions and their indexes were found to agree.
    is_checked: Cell<bool>,
    /// The next commit happens and tells that it failed.
    #[cfg(test)]
    pub(super) loses_commit: Cell<bool>,
    /// The next commit panics before it begins.
    #[cfg(test)]
    pub(super) panics: Cell<bool>,
}

/// What a database says it is.
enum Nature {
    Empty,
    /// Ours, after so many steps.
    Ours(usize),
}

impl Database {
    /// Opens a database to write to, makes it when it is not there, and brings it
    /// up to date.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_of(path, STEPS)
    }

    /// The same, for a program that knows these steps.
    pub(super) fn open_of(path: &Path, known: Steps) -> Result<Self, StoreError> {
        let inode = file::make(path)?;
        let database = Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_WRITE, known)?;
        let steps = match database.nature()? {
            Nature::Empty => 0,
            Nature::Ours(steps) => steps,
        };
        database.switch_on_the_log()?;
        database.pragma("synchronous", "FULL")?;
        if steps < known.len() {
            database.migrate()?;
        }
        Ok(database)
    }

    /// Opens a database that is there, only to read; `None` when nothing was ever
    /// stored in it.
    pub(super) fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::open_to_read_of(path, STEPS)
    }

    /// The same, for a program that knows these steps.
    pub(super) fn open_to_read_of(path: &Path, known: Steps) -> Result<Option<Self>, StoreError> {
        let Some(inode) = file::look(path)? else { return Ok(None) };
        let database = Self::connect(path, inode, OpenFlags::SQLITE_OPEN_READ_ONLY, known)?;
        match database.nature()? {
            Nature::Empty => Ok(None),
            Nature::Ours(steps) if steps < known.len() => {
                let path = path.display();
                Err(StoreError::Unavailable(format!("another process is bringing {path} up to date; try again")))
            }
            Nature::Ours(_) => Ok(Some(database)),
        }
    }

    fn connect(path: &Path, inode: Inode, access: OpenFlags, steps: Steps) -> Result<Self, StoreError> {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        file::look_beside(path)?;
        let real = file::real(path)?;
        let connection = Connection::open_with_flags(&real, flags).map_err(|error| failed(path, "open", &error))?;
        let database = Self {
            connection,
            path: path.to_owned(),
            inode,
            steps,
            is_checked: Cell::default(),
            #[cfg(test)]
            loses_commit: Cell::default(),
            #[cfg(test)]
            panics: Cell::default(),
        };
        let patience = database.connection.busy_timeout(LOCK_PATIENCE);
        patience.map_err(|error| database.failed("open", &error))?;
        // What a hostile file brings along is not run, and what is malformed is noticed early.
        database.pragma("trusted_schema", "OFF")?;
        database.pragma("cell_size_check", "ON")?;
        Ok(database)
    }

    /// Whether the path still leads to this database: what is written to a file that
    /// was removed is lost.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(file::look(&self.path), Ok(Some(inode)) if inode == self.inode)
    }

    fn nature(&self) -> Result<Nature, StoreError> {
        // One statement sees one moment: another process may be making the database.
        let question = "SELECT (SELECT application_id FROM pragma_application_id),
                               (SELECT user_version FROM pragma_user_version),
                               (SELECT count(*) FROM sqlite_schema)";
        let read = self
            .connection
            .query_row(question, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        let (application, version, tables) = read.map_err(|error| self.failed("read", &error))?;
        let steps = usize::try_from(version).unwrap_or(usize::MAX);
        if application == APPLICATION && steps > self.steps.len() {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(StoreError::TooNew { found, known: u32::try_from(self.steps.len()).unwrap_or(u32::MAX) });
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

    /// Two processes may do this at once to a new file; then one of them is told
    /// that the database is locked, without a wait.
    fn switch_on_the_log(&self) -> Result<(), StoreError> {
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

    fn migrate(&self) -> Result<(), StoreError> {
        let transaction = self.write()?;
        // Another process may have been first.
        let Nature::Ours(have) = self.nature()? else { return self.take_steps(transaction, 0) };
        self.take_steps(transaction, have)
    }

    fn take_steps(&self, transaction: Transaction<'_>, have: usize) -> Result<(), StoreError> {
        for step in self.steps.iter().skip(have) {
            self.run(step)?;
        }
        self.run(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}", self.steps.len()))?;
        transaction.commit()
    }

    /// That a session which is not found is not there: the sessions and their indexes
    /// agree. Reads all of them, once for each connection.
    pub(super) fn check_sessions(&self) -> Result<(), StoreError> {
        if self.is_checked.get() {
            return Ok(());
        }
        let check = "PRAGMA integrity_check(sessions)";
        let said = self.connection.query_row(check, [], |row| row.get::<_, String>(0));
        match said.map_err(|error| self.failed("read", &error))?.as_str() {
            "ok" => {
                self.is_checked.set(true);
                Ok(())
            }
            what => {
                let path = self.path.display();
                Err(StoreError::Corrupt(format!(
                    "the list of sessions in {path} is damaged ({what}), so that no session can begin; restore a copy, \
                     or export what can be read of it, session by session"
                )))
            }
        }
    }

    fn pragma(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.connection.pragma_update(None, name, value).map_err(|error| self.failed("open", &error))
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.failed("write", &error))
    }

    pub(super) fn statement(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        let prepared = self.connection.prepare(sql).map_err(|error| self.failed("use", &error))?;
        Ok(Statement { prepared, database: self })
    }

    /// Reads from here on see one state of the database.
    pub(super) fn read(&self) -> Result<Transaction<'_>, StoreError> {
        self.run("BEGIN").map(|()| Transaction { database: self })
    }

    /// Nobody else writes from here on. Waits for whoever does.
    pub(super) fn write(&self) -> Result<Transaction<'_>, StoreError> {
        self.run("BEGIN IMMEDIATE").map(|()| Transaction { database: self })
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

    fn failed(&self, doing: &str, error: &rusqlite::Error) -> StoreError {
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
    pub(super) fn tamper(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }
}

/// What is read and written between here and the commit. Dropped, it never was.
#[derive(Debug)]
pub(super) struct Transaction<'c> {
    database: &'c Database,
}

impl Transaction<'_> {
    /// Makes it durable.
    ///
    /// # Errors
    /// `InDoubt` when the commit itself failed; `Unavailable` when the transaction
    /// was given up before, and nothing of it is stored.
    pub(super) fn commit(self) -> Result<(), StoreError> {
        if !self.database.is_in_transaction() {
            let path = self.database.path.display();
            return Err(StoreError::Unavailable(format!("{path} gave up what was being written; nothing was stored")));
        }
        #[cfg(test)]
        assert!(!self.database.panics.take(), "sabotaged");
        self.database.run("COMMIT").map_err(|error| StoreError::InDoubt(error.to_string()))?;
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

/// A prepared statement.
pub(super) struct Statement<'c> {
    prepared: rusqlite::Statement<'c>,
    database: &'c Database,
}

/// A value for a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Number(i64),
    Nothing,
    Text(&'v [u8]),
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Number(number) => ValueRef::Integer(number),
            Value::Nothing => ValueRef::Null,
            Value::Text(text) => ValueRef::Text(text),
        }))
    }
}

impl Statement<'_> {
    /// Runs it. Answers how many rows it changed.
    pub(super) fn run(&mut self, values: &[Value<'_>]) -> Result<usize, StoreError> {
        let done = self.prepared.execute(params_from_iter(values));
        done.map_err(|error| self.database.failed("write", &error))
    }

    /// Runs it and gives each row to the sink, which may end it with an error.
    pub(super) fn each<E: From<StoreError>>(
        &mut self,
        values: &[Value<'_>],
        mut sink: impl FnMut(Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let database = self.database;
        let failed = |error: &rusqlite::Error| E::from(database.failed("read", error));
        let mut rows = self.prepared.query(params_from_iter(values)).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            sink(Row { row, database })?;
        }
        Ok(())
    }
}

/// One row of an answer. Columns count from 0.
pub(super) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    database: &'r Database,
}

impl<'r> Row<'r> {
    pub(super) fn number(&self, column: usize) -> Result<i64, StoreError> {
        self.row.get(column).map_err(|error| self.database.failed("read", &error))
    }

    /// The bytes of a text; nothing where there is none.
    pub(super) fn text(&self, column: usize) -> Result<Option<&'r [u8]>, StoreError> {
        match self.row.get_ref(column).map_err(|error| self.database.failed("read", &error))? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Ok(None),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A failure in our words: what could not be done to which file, and what to do.
fn failed(path: &Path, doing: &str, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(format!(
            "the database {path} has damaged pages ({error}); what can be read of it can be exported, session by session"
        )),
        Some(ErrorCode::NotADatabase) => {
            StoreError::Unavailable(format!("{path} is no database; it was left as it is: name another file"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
            "another process has kept {path} locked for {} s; is it paused?",
            LOCK_PATIENCE.as_secs()
        )),
        _ => StoreError::Unavailable(format!("cannot {doing} {path}: {error}")),
    }
}
