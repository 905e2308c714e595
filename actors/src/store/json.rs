//! Journals in a folder: one file a session, JSON lines, readable by people.
//!
//! The [`FileStore`] owns the folder's journals and the lock file that tells other
//! processes that it lives. It answers an append when the lines are on the disk,
//! claims included. A damaged journal is set aside and reported, never written to;
//! one of a newer format is left alone. It keeps no records in memory, only the
//! ids of those of the sessions that are claimed. Nothing here runs on a thread of
//! the runtime: all work is handed to blocking threads.

mod appends;
mod claims;
mod folder;
mod handles;
mod journals;
mod line;
mod name;
mod owners;
mod position;
mod reads;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod owners_tests;
#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;

use super::SessionStore;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, StoreError};
use folder::Folder;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use journals::Journals;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::RwLock;

/// How many threads a batch is spread over: syncs of several files at once share
/// the disk's own commits.
const WRITERS: usize = 8;

/// How a folder of journals is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStoreOptions {
    /// Whether to claim sessions that another living process owns. That process is
    /// then fenced.
    pub take_over: bool,
    /// What another process tells its user when we own the session it wants.
    pub owner_name: String,
}

impl Default for FileStoreOptions {
    fn default() -> Self {
        Self { take_over: false, owner_name: format!("bob (process {})", std::process::id()) }
    }
}

/// A store of one journal file a session.
#[derive(Debug, Clone)]
pub struct FileStore {
    journals: Arc<Journals>,
    /// Held for reading by whatever runs; a flush waits until it can write.
    running: Arc<RwLock<()>>,
}

impl FileStore {
    /// Opens a folder and makes it when it is not there. Blocks for as long as that
    /// takes. Two stores may be open on one folder, also in one process; they are
    /// two owners.
    ///
    /// # Errors
    /// `Unavailable` when the folder cannot be made or opened.
    pub fn open(folder: &Path, options: FileStoreOptions) -> Result<Arc<Self>, StoreError> {
        let opened = Folder::open(folder)
            .map_err(|error| StoreError::Unavailable(format!("cannot open {}: {error}", folder.display())))?;
        let journals = Journals::new(opened, options.take_over, options.owner_name);
        Ok(Arc::new(Self { journals: Arc::new(journals), running: Arc::default() }))
    }

    /// Does something on a blocking thread; it goes on when nobody waits any more.
    /// `None` when it panicked or the runtime ends.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Journals) -> T + Send + 'static) -> Option<T> {
        let journals = Arc::clone(&self.journals);
        let running = Arc::clone(&self.running).read_owned().await;
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&journals);
            drop(running);
            result
        });
        task.await.ok()
    }

    async fn append_batch(&self, batch: Vec<Append>) -> Vec<Result<u64, StoreError>> {
        let mut answers: Vec<_> = batch.iter().map(|_| Err(ended())).collect();
        let mut sessions: HashMap<SessionId, (Vec<usize>, Vec<Append>)> = HashMap::new();
        for (index, append) in batch.into_iter().enumerate() {
            let (indices, appends) = sessions.entry(append.session.clone()).or_default();
            indices.push(index);
            appends.push(append);
        }
        let sessions: Vec<_> = sessions.into_iter().collect();
        let share = sessions.len().div_ceil(WRITERS).max(1);
        let mut sessions = sessions.into_iter();
        let mut shares = Vec::new();
        loop {
            let one: Vec<_> = sessions.by_ref().take(share).collect();
            if one.is_empty() {
                break;
            }
            shares.push(self.blocking(move |journals| {
                let write = |(session, (indices, appends)): (SessionId, (Vec<usize>, Vec<Append>))| {
                    let answers = journals.append(&session, &appends);
                    indices.into_iter().zip(answers).collect::<Vec<_>>()
                };
                one.into_iter().flat_map(write).collect::<Vec<_>>()
            }));
        }
        for (index, answer) in join_all(shares).await.into_iter().flatten().flatten() {
            if let Some(place) = answers.get_mut(index) {
                *place = answer;
            }
        }
        answers
    }
}

fn ended() -> StoreError {
    StoreError::InDoubt("the thread that did it ended before it could tell".to_owned())
}

impl SessionStore for FileStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        let session = session.clone();
        let claim = self.blocking(move |journals| journals.claim(&session));
        claim.map(|claim| claim.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        let session = session.clone();
        let load = self.blocking(move |journals| journals.load(&session));
        load.map(|load| load.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        self.append_batch(batch).boxed()
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let session = session.clone();
        self.blocking(move |journals| journals.release(&session, epoch)).map(|_| ()).boxed()
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        let (filter, cursor) = (filter.clone(), cursor.map(str::to_owned));
        let list = self.blocking(move |journals| journals.list(&filter, cursor.as_deref()));
        list.map(|list| list.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let session = session.clone();
        let delete = self.blocking(move |journals| journals.delete(&session));
        delete.map(|delete| delete.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.running.write().map(drop).boxed()
    }
}
