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
mod disk;
mod glances;
mod group;
mod handles;
mod journals;
mod name;
mod position;
mod reads;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod many_tests;
#[cfg(test)]
mod owners_tests;
#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
#[cfg(test)]
mod watch;

use super::folder::Folder;
use super::owners::StoreOptions;
use super::{SessionStore, Stored};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use group::Group;
use journals::{Journals, LOCK_PATIENCE};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::RwLock;

/// How many threads a batch is spread over: syncs of several files at once share
/// the disk's own commits.
const WRITERS: usize = 8;

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
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let opened = Folder::open(folder)
            .map_err(|error| StoreError::Unavailable(format!("cannot open {}: {error}", folder.display())))?;
        let journals = Journals::new(opened, options);
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

    async fn append_batch(&self, batch: Vec<Append>) -> Vec<Stored> {
        let mut answers: Vec<_> = batch.iter().map(|_| Stored::Now(Err(ended()))).collect();
        let groups = Group::of(batch);
        let share = groups.len().div_ceil(WRITERS).max(1);
        let mut groups = groups.into_iter();
        let mut shares = Vec::new();
        loop {
            let one: Vec<_> = groups.by_ref().take(share).collect();
            if one.is_empty() {
                break;
            }
            shares.push(self.blocking(move |journals| {
                one.into_iter().map(|group| group.store(journals, Duration::ZERO)).collect::<Vec<_>>()
            }));
        }
        for tried in join_all(shares).await.into_iter().flatten().flatten() {
            let stored = match tried {
                Ok(stored) => stored.into_iter().map(|(place, answer)| (place, Stored::Now(answer))).collect(),
                Err(held) => self.append_later(held).await,
            };
            for (place, answer) in stored {
                if let Some(waiting) = answers.get_mut(place) {
                    *waiting = answer;
                }
            }
        }
        answers
    }

    /// Waits for a journal that another process keeps locked, on a thread of its own.
    async fn append_later(&self, held: Group) -> Vec<(usize, Stored)> {
        let (replies, answers): (Vec<_>, Vec<_>) = held.places.iter().map(|_| Reply::channel()).unzip();
        let answers = held.places.iter().copied().zip(answers.into_iter().map(Stored::Later)).collect();
        let (journals, running) = (Arc::clone(&self.journals), Arc::clone(&self.running).read_owned().await);
        tokio::task::spawn_blocking(move || {
            let stored = held.store(&journals, LOCK_PATIENCE).unwrap_or_else(|held| {
                let locked = journals.locked(&held.session);
                held.places.into_iter().map(|place| (place, Err(locked.clone()))).collect()
            });
            for (reply, (_place, answer)) in replies.into_iter().zip(stored) {
                reply.send(answer);
            }
            drop(running);
        });
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
        let answered = async |stored| match stored {
            Stored::Now(answer) => answer,
            Stored::Later(answer) => answer.await.unwrap_or_else(|| Err(ended())),
        };
        async move { join_all(self.append_batch(batch).await.into_iter().map(answered)).await }.boxed()
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
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
