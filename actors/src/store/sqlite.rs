//! Journals in one SQLite database: the default store.
//!
//! The [`SqliteStore`] owns a few threads. The writer has the one connection that writes: whatever waits for it goes
//! into one transaction, each append in a savepoint of its own, and is answered after the commit, which is on the disk
//! (write-ahead log, full sync). The readers have connections that cannot write: one reads a session before the writer
//! claims it, the others load and list meanwhile. A damaged session is noted as such, left as it is and reported; it
//! blocks no other. Other processes may have the database open, too: each running one keeps a file locked in the folder
//! `<database>-owners`.
//!
//! - `database`: the file and its SQL, the only place that knows the SQL library
//! - `making`: how it comes to be; `file`: where the file is, its mode and kind; `steps`: how its tables are made
//! - `tables`: what stands in the tables
//! - `identity`: which database it is; `log`: that its log is its own
//! - `migrate`: a database of an older program is brought up to date
//! - `owner`: whose a session is
//! - `reader`, `writer`: the threads; `job`: what passes between them; `session_writer`: what the writer decides
//! - `encode`: records become lines, before the writer; `check`: what is not found is not there

mod check;
mod database;
mod encode;
mod failed;
mod file;
mod identity;
mod job;
mod log;
mod making;
mod migrate;
mod owner;
mod reader;
mod session_writer;
mod statement;
mod steps;
mod tables;
mod writer;

#[cfg(test)]
#[path = "sqlite/damage_tests.rs"]
mod damage_tests;
#[cfg(test)]
#[path = "sqlite/full_tests.rs"]
mod full_tests;
#[cfg(test)]
#[path = "sqlite/fuzz_tests.rs"]
mod fuzz_tests;
#[cfg(test)]
#[path = "sqlite/log_tests.rs"]
mod log_tests;
#[cfg(test)]
#[path = "sqlite/made_tests.rs"]
mod made_tests;
#[cfg(test)]
#[path = "sqlite/migration_tests.rs"]
mod migration_tests;
#[cfg(test)]
#[path = "sqlite/pages_tests.rs"]
mod pages_tests;
#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;

use super::artifacts::{self, ArtifactStorePort, FolderArtifacts};
use super::folder::Folder;
use super::future::StoreFuture;
use super::inbox::{self, FolderInbox};
use super::made::Made;
use super::owners::StoreOptions;
use super::span::Span;
use super::{Inbox, SessionOwner, SessionStore, StoreOverview, Stored};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Part, Pools, Record, SessionFilter, SessionPage, StoreError};
use check::Check;
use database::Database;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use identity::DatabaseIdentity;
use job::Job;
use owner::Owners;
use reader::{Ask, ClaimAsk, LOADERS, Reader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use steps::KNOWN;
use writer::Writer;

/// How long dropping the store waits for its threads: what is being written goes to
/// its end, and the log is folded into the database.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// A store of all sessions in one database.
#[derive(Debug)]
pub struct SqliteStore {
    /// They are there until the store is dropped.
    threads: Option<Threads>,
    /// Tells that the writer has ended.
    closed: Mutex<Receiver<()>>,
    check: Arc<Check>,
    artifacts: FolderArtifacts,
    inbox: FolderInbox,
    pools: Pools,
}

struct Threads {
    claims: Sender<ClaimAsk>,
    asks: Sender<Ask>,
    jobs: Sender<Job>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens a database; one that is not there is made by the first claim, so that a
    /// store that only reads writes nothing. Blocks for as long as that takes. Two
    /// stores may be open on one database, also in one process; they are two owners.
    ///
    /// # Errors
    /// `Busy` while a process of an older program has a database open that is to be brought up to date; `Unavailable`
    /// when the path leads to a folder, a link, a foreign file or one that cannot be opened; `TooNew` for a database of
    /// a newer program; `Corrupt`. None of them is written to.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        Self::open_telling(path, options, None)
    }

    /// Opens a database as [`open`](Self::open) does, and calls `made` with the name of one that it creates: once before the
    /// database has the name it was asked for, and again if another process created one meanwhile.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_telling(path: &Path, options: StoreOptions, made: Option<Made>) -> Result<Arc<Self>, StoreError> {
        let open = |_inode| match Database::open_telling(path, KNOWN, made.as_ref()) {
            // What is stored can be read, and the first claim says why nothing can be written.
            Err(StoreError::Unavailable(_)) if file::is_disk_full(path) || file::is_read_only(path) => Ok(None),
            opened => opened.map(Some),
        };
        let database = file::look(path)?.map(open).transpose()?.flatten();
        Self::start_telling(path, options, made, database)
    }

    /// By what a database is known: a text that no other one has, nor a copy that a program of this kind has made anew. It is
    /// not the database's secret. `None` where there is no database, and in one that an older program made until it is opened.
    /// Writes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn mark_of(path: &Path) -> Result<Option<String>, StoreError> {
        Database::mark_of(path)
    }

    #[cfg(test)]
    fn start(path: &Path, options: StoreOptions, database: Option<Database>) -> Result<Arc<Self>, StoreError> {
        Self::start_telling(path, options, None, database)
    }

    fn start_telling(
        path: &Path,
        options: StoreOptions,
        made: Option<Made>,
        database: Option<Database>,
    ) -> Result<Arc<Self>, StoreError> {
        let (jobs, waiting_jobs) = channel();
        let (claims, waiting_claims) = channel();
        let (asks, waiting_asks) = channel();
        let (closing, closed) = channel();
        let pools = options.pools.clone();
        let identity = Arc::new(DatabaseIdentity::new(path.to_owned(), made.clone()));
        let writer = Writer::new(path.to_owned(), options, made, database);
        let check = Check::new(path.to_owned());
        thread("bob-store-writer", move || {
            writer.run(&waiting_jobs);
            // Told by being dropped.
            drop(closing);
        })?;
        let (reader, passed_on) = (Reader::new(path.to_owned(), Arc::clone(&check)), jobs.clone());
        thread("bob-store-claims", move || reader.run_claims(&waiting_claims, &passed_on))?;
        let waiting_asks = Arc::new(Mutex::new(waiting_asks));
        for _ in 0..LOADERS {
            let reader = Reader::new(path.to_owned(), Arc::clone(&check));
            let waiting_asks = Arc::clone(&waiting_asks);
            let writer_goes_last = jobs.clone();
            thread("bob-store-reader", move || {
                reader.run(&waiting_asks);
                drop(writer_goes_last);
            })?;
        }
        let artifacts = FolderArtifacts::new(artifacts::beside(path));
        let threads = Some(Threads { claims, asks, jobs });
        let inbox = FolderInbox::new(inbox::beside(path), identity);
        Ok(Arc::new(Self { threads, closed: Mutex::new(closed), check, artifacts, inbox, pools }))
    }

    /// Asks a reader.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<Result<T, StoreError>>) -> Ask,
    ) -> StoreFuture<'static, T> {
        // A thread that panics drops the question, which answers it.
        self.put(question, |threads, question| drop(threads.asks.send(question)))
    }

    /// Asks the reader of claims, which passes them on to the writer.
    fn enter<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<Result<T, StoreError>>) -> ClaimAsk,
    ) -> StoreFuture<'static, T> {
        self.put(question, |threads, question| drop(threads.claims.send(question)))
    }

    fn put<T: Send + 'static, Q>(
        &self,
        question: impl FnOnce(Reply<Result<T, StoreError>>) -> Q,
        send: impl FnOnce(&Threads, Q),
    ) -> StoreFuture<'static, T> {
        let (reply, answer) = Reply::channel();
        if let Some(threads) = &self.threads {
            send(threads, question(reply));
        }
        answer.map(|answer| answer.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn tell<T: Send + 'static>(&self, job: impl FnOnce(Reply<T>) -> Job) -> BoxFuture<'static, Option<T>> {
        let (reply, answer) = Reply::channel();
        if let Some(threads) = &self.threads {
            drop(threads.jobs.send(job(reply)));
        }
        answer.boxed()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.threads = None;
        self.check.end();
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
    let folder = owners_folder(path);
    let opened = Folder::open(&folder).map_err(|error| file::unavailable("open", &folder, &error))?;
    Ok(Owners::new(Arc::new(opened), options))
}

fn owners_folder(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-owners");
    path.with_file_name(name)
}

async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(ended()))
}

fn ended() -> StoreError {
    StoreError::InDoubt("the store failed before it could tell whether it was done".to_owned())
}

impl SessionStore for SqliteStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.enter(|reply| ClaimAsk::Claim(session.clone(), true, reply))
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.enter(|reply| ClaimAsk::Claim(session.clone(), false, reply))
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.ask(|reply| Ask::Load(session.clone(), Span::Whole, reply))
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.ask(|reply| Ask::Load(session.clone(), Span::Part(part), reply))
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let answered = async |stored| match stored {
            Stored::Now(answer) => answer,
            Stored::Later(answer) => answer.await.unwrap_or_else(|| Err(ended())),
        };
        async move { join_all(self.append_apart(batch).await.into_iter().map(answered)).await }.boxed()
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        async move {
            // The first poll may be that of a handler, which must not encode records.
            tokio::task::yield_now().await;
            match &self.threads {
                Some(threads) => encode::store(threads.jobs.clone(), batch).await,
                None => batch.iter().map(|_| Stored::Now(Err(ended()))).collect(),
            }
        }
        .boxed()
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        self.tell(|reply| Job::Release(session.clone(), epoch, reply)).map(drop).boxed()
    }

    fn owner<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.ask(|reply| Ask::Owner(session.clone(), reply))
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        let taken = self.tell(|reply| Job::Take(session.clone(), reply));
        taken.map(|taken| taken.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn overview(&self) -> StoreFuture<'_, Option<StoreOverview>> {
        self.inbox.overview().map(|overview| overview.map(Some)).boxed()
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        self.ask(|reply| Ask::List(filter.clone(), cursor.map(str::to_owned), reply))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        async move {
            let (artifacts, named) = (self.artifacts.clone(), session.clone());
            apart(move || artifacts.deleting(&named)).await?;
            let deleted = self.tell(|reply| Job::Delete(session.clone(), reply)).await;
            let deleted = deleted.unwrap_or_else(|| Err(ended()));
            let (artifacts, inbox, named) = (self.artifacts.clone(), self.inbox.clone(), session.clone());
            apart(move || {
                if deleted.is_ok() {
                    inbox.forget(&named)?;
                }
                artifacts.settle_deletion(&named, deleted)
            })
            .await
        }
        .boxed()
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        Some(Arc::new(self.artifacts.clone()))
    }

    fn pools(&self) -> Pools {
        self.pools.clone()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(Arc::new(self.inbox.clone()))
    }
}
