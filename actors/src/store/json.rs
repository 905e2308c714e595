//! Journals in a folder: one file a session, JSON lines, readable by people.
//!
//! A folder belongs to one process at a time: the [`FileStore`] locks it at its first claim and keeps it until it is
//! dropped or its process ends. Meanwhile others may read. It answers an append when the lines are on the disk, claims
//! included. A damaged journal is set aside and reported, never written to; one of a newer program is left alone; one
//! of an older format is rewritten by its next claim. It keeps no records in memory, only the ids of those of the
//! sessions that are claimed. Nothing here runs on a thread of the runtime: all work is handed to blocking threads.

mod appends;
mod bring_up;
mod claims;
mod disk;
mod glances;
mod group;
mod hold;
mod journals;
mod latest;
mod lock;
pub(super) mod own;
mod position;
mod reads;

#[cfg(test)]
pub(in crate::store) mod bring_up_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
pub(in crate::store) mod fuzz_tests;
#[cfg(test)]
mod hold_tests;
#[cfg(test)]
mod many_tests;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
#[cfg(test)]
mod unsynced_tests;
#[cfg(test)]
#[path = "json/watch_tests.rs"]
mod watch;

use super::artifacts::{ArtifactStorePort, FolderArtifacts};
use super::folder::Folder;
use super::future::StoreFuture;
use super::identity::{FolderIdentity, Identified};
use super::inbox::FolderInbox;
use super::owners::StoreOptions;
use super::{Inbox, Marked, SessionOwner, SessionStore, StoreOverview, name};
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Claim, Formats, Part, Pools, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::{BoxFuture, FutureExt, join_all, ready};
use group::Group;
use journals::Journals;
use std::path::Path;
use std::sync::Arc;

/// How many threads a batch is spread over: syncs of several files at once share the disk's own commits.
const WRITERS: usize = 8;

/// The folder of artifacts in that of the journals.
const ARTIFACTS: &str = "artifacts";

/// The folder of messages in that of the journals.
const INBOX: &str = "inbox";

/// A store of one journal file a session.
#[derive(Debug, Clone)]
pub struct FileStore {
    journals: Arc<Journals>,
    artifacts: FolderArtifacts,
    inbox: FolderInbox,
}

impl FileStore {
    /// Opens a folder and makes it when it is not there. Blocks for as long as that takes. The folder is locked by the
    /// first claim or deletion, not before: a store that only reads writes nothing. While another store has it, also
    /// one of the same process, claims and deletions are `Busy`; nothing is taken over.
    ///
    /// # Errors
    /// `Unavailable` when the folder cannot be made or opened.
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        Self::open_telling(folder, options, None)
    }

    /// As [`open`](Self::open); `marked` is called whenever the folder gets its identity, before it has it, and when another
    /// process was first. The caller keeps the mark outside of the folder. After a crash it may be that of an identity which
    /// was never made: where there is none, the next one takes its place.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_telling(folder: &Path, options: StoreOptions, marked: Option<Marked>) -> Result<Arc<Self>, StoreError> {
        let opened = super::make_folder(folder)
            .and_then(|()| Folder::open(folder))
            .map_err(|error| StoreError::Unavailable(format!("cannot open {}: {error}", folder.display())))?;
        let journals = Journals::new(opened, options, Formats::KNOWN, marked);
        let artifacts = FolderArtifacts::new(folder.join(ARTIFACTS));
        let identity = Arc::clone(&journals.own.identity) as Arc<dyn Identified>;
        let inbox = FolderInbox::new(folder.join(INBOX), identity);
        Ok(Arc::new(Self { journals: Arc::new(journals), artifacts, inbox }))
    }

    /// By what a folder of journals is known: a text that no other one has. It is not the folder's secret. `None` where there is no
    /// folder, and in one of an older program until something is claimed in it. Writes nothing.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn mark_of(folder: &Path) -> Result<Option<String>, StoreError> {
        let identity = FolderIdentity::new(folder.to_owned(), None).identity(false)?;
        Ok(identity.map(|identity| identity.mark()))
    }

    /// Gives the folder an identity, by which it is known, if it has none; otherwise the first claim or message does. In a folder
    /// without journals only those count from now on that are begun by programs which can read it; otherwise from the first
    /// claim or deletion on.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn identify(&self) -> Result<(), StoreError> {
        self.journals.own.identify()
    }

    /// Does something on a blocking thread; it continues when the future is dropped.
    /// `None` when it panicked or the runtime ends.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Journals) -> T + Send + 'static) -> Option<T> {
        let journals = Arc::clone(&self.journals);
        tokio::task::spawn_blocking(move || work(&journals)).await.ok()
    }

    /// Does something with one session on a blocking thread.
    fn ask<'a, T: Send + 'static>(
        &'a self,
        session: &SessionId,
        work: impl FnOnce(&Journals, &SessionId) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let session = session.clone();
        let answer = self.blocking(move |journals| work(journals, &session));
        answer.map(|answer| answer.unwrap_or_else(|| Err(ended()))).boxed()
    }

    async fn append_batch(&self, batch: Vec<Append>) -> Vec<Result<u64, StoreError>> {
        let mut answers: Vec<_> = batch.iter().map(|_| Err(ended())).collect();
        let groups = Group::of(batch);
        let share = groups.len().div_ceil(WRITERS).max(1);
        let mut groups = groups.into_iter();
        let mut shares = Vec::new();
        loop {
            let one: Vec<_> = groups.by_ref().take(share).collect();
            if one.is_empty() {
                break;
            }
            shares.push(
                self.blocking(move |journals| {
                    one.into_iter().flat_map(|group| group.store(journals)).collect::<Vec<_>>()
                }),
            );
        }
        for (place, answer) in join_all(shares).await.into_iter().flatten().flatten() {
            if let Some(waiting) = answers.get_mut(place) {
                *waiting = answer;
            }
        }
        answers
    }
}

fn ended() -> StoreError {
    StoreError::InDoubt("the thread that did it ended before it could tell".to_owned())
}

impl SessionStore for FileStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.ask(session, Journals::claim)
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.ask(session, Journals::claim_latest)
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.ask(session, move |journals, session| journals.load_part(session, part))
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.ask(session, Journals::load)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        self.append_batch(batch).boxed()
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let session = session.clone();
        self.blocking(move |journals| journals.release(&session, epoch)).map(|_| ()).boxed()
    }

    fn owner<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.ask(session, Journals::owner)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        let _every_one = session;
        let why =
            "a store of kind json belongs to one process as a whole, and no session is taken from it; end that process";
        ready(Err(StoreError::Unavailable(why.to_owned()))).boxed()
    }

    fn overview(&self) -> StoreFuture<'_, Option<StoreOverview>> {
        self.inbox.overview().map(|overview| overview.map(Some)).boxed()
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        let (filter, cursor) = (filter.clone(), cursor.map(str::to_owned));
        let list = self.blocking(move |journals| journals.list(&filter, cursor.as_deref()));
        list.map(|list| list.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        let (artifacts, inbox) = (self.artifacts.clone(), self.inbox.clone());
        self.ask(session, move |journals, session| {
            artifacts.deleting(session)?;
            let deleted = journals.delete(session);
            if deleted.is_ok() {
                inbox.forget(session)?;
            }
            artifacts.settle_deletion(session, deleted)
        })
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        Some(Arc::new(self.artifacts.clone()))
    }

    fn pools(&self) -> Pools {
        self.journals.pools()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(Arc::new(self.inbox.clone()))
    }
}
