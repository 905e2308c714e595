//! Journals in one SQLite database: the default store.
//!
//! The [`SqliteStore`] owns two threads. The writer has the one connection that
//! writes: whatever waits for it goes into one transaction, each append in a
//! savepoint of its own, and is answered after the commit, which is on the disk
//! (write-ahead log, full sync). The reader has a connection that cannot write; it
//! loads and lists while the writer commits, and reads a session before the writer
//! claims it. A damaged session is noted as such, left as it is and reported; it
//! blocks no other. Other processes may have the database open, too: whoever lives
//! keeps a file locked in the folder `<database>-owners`.
//!
//! - `database`: the file and its SQL, the only place that knows the SQL library
//! - `file`: where the file is, its mode and kind; `steps`: how its tables are made
//! - `tables`: what stands in the tables
//! - `reader`, `writer`: the threads; `desk`: what the writer decides

mod database;
mod desk;
mod file;
mod reader;
mod steps;
mod tables;
mod writer;

#[cfg(test)]
#[path = "sqlite/damage_tests.rs"]
mod damage_tests;
#[cfg(test)]
#[path = "sqlite/migration_tests.rs"]
mod migration_tests;
#[cfg(test)]
#[path = "sqlite/pages_tests.rs"]
mod pages_tests;
#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;

use super::SessionStore;
use super::folder::Folder;
use super::owners::{Owners, StoreOptions};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, StoreError};
use database::Database;
use futures_util::future::{BoxFuture, FutureExt};
use reader::{Ask, Reader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use writer::{Job, Writer};

/// How long dropping the store waits for its threads: what is being written goes to
/// its end, and the log is folded into the database.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// A store of all sessions in one database.
#[derive(Debug)]
pub struct SqliteStore {
    /// Both are there until the store is dropped.
    threads: Option<(Sender<Ask>, Sender<Job>)>,
    /// Tells that the writer has ended.
    closed: Mutex<Receiver<()>>,
}

impl SqliteStore {
    /// Opens a database; one that is not there is made by the first claim, so that a
    /// store that only reads writes nothing. Blocks for as long as that takes. Two
    /// stores may be open on one database, also in one process; they are two owners.
    ///
    /// # Errors
    /// `Unavailable` when the path leads to a folder, a link, a foreign file or one
    /// that cannot be opened; `TooNew` for a database of a newer program; `Corrupt`.
    /// None of them is written to.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let database = file::look(path)?.map(|_inode| Database::open(path)).transpose()?;
        Self::start(path, options, database)
    }

    fn start(path: &Path, options: StoreOptions, database: Option<Database>) -> Result<Arc<Self>, StoreError> {
        let (jobs, waiting_jobs) = channel();
        let (asks, waiting_asks) = channel();
        let (closing, closed) = channel();
        let writer = Writer::new(path.to_owned(), options, database);
        let reader = Reader::new(path.to_owned(), jobs.clone());
        thread("bob-store-writer", move || {
            writer.run(&waiting_jobs);
            // Told by being dropped.
            drop(closing);
        })?;
        thread("bob-store-reader", move || reader.run(&waiting_asks))?;
        Ok(Arc::new(Self { threads: Some((asks, jobs)), closed: Mutex::new(closed) }))
    }

    /// Asks the reader, or whoever it passes the question on to.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<Result<T, StoreError>>) -> Ask,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (reply, answer) = Reply::channel();
        if let Some((asks, _)) = &self.threads {
            // A thread that panics drops the question, which answers it.
            drop(asks.send(question(reply)));
        }
        answer.map(|answer| answer.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn tell<T: Send + 'static>(&self, job: impl FnOnce(Reply<T>) -> Job) -> BoxFuture<'static, Option<T>> {
        let (reply, answer) = Reply::channel();
        if let Some((_, jobs)) = &self.threads {
            drop(jobs.send(job(reply)));
        }
        answer.boxed()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.threads = None;
        let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Either it has ended, or it goes on without us.
        let _ = closed.recv_timeout(CLOSED_WITHIN);
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| StoreError::Unavailable(format!("cannot start a thread of the store: {error}")))
}

/// Where the owners of this database keep their files.
fn owners(path: &Path, options: StoreOptions) -> Result<Owners, StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-owners");
    let folder: PathBuf = path.with_file_name(name);
    let opened = Folder::open(&folder).map_err(|error| file::unavailable("open", &folder, &error))?;
    Ok(Owners::new(Arc::new(opened), options))
}

fn ended() -> StoreError {
    StoreError::InDoubt("the store failed before it could tell whether it was done".to_owned())
}

impl SessionStore for SqliteStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.ask(|reply| Ask::Claim(session.clone(), reply))
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.ask(|reply| Ask::Load(session.clone(), reply))
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let count = batch.len();
        let stored = self.tell(|reply| Job::Append(batch, reply));
        stored.map(move |stored| stored.unwrap_or_else(|| vec![Err(ended()); count])).boxed()
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        self.tell(|reply| Job::Release(session.clone(), epoch, reply)).map(drop).boxed()
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        self.ask(|reply| Ask::List(filter.clone(), cursor.map(str::to_owned), reply))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let deleted = self.tell(|reply| Job::Delete(session.clone(), reply));
        deleted.map(|deleted| deleted.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        // Through the reader, which passes claims on: what was asked before is before it.
        self.ask(Ask::Flush).map(drop).boxed()
    }
}
