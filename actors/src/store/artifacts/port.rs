//! The port: what a store of artifacts must be able to do.

use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;
use std::ops::Range;
use std::sync::Arc;

/// One artifact of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredArtifact {
    /// Its name: the hash of its content.
    pub id: ArtifactId,
    /// Its size, in bytes.
    pub bytes: u64,
}

/// A place where the large parts of records are kept, named by their content. A [`SessionStore`](crate::store::SessionStore)
/// has one.
///
/// An artifact belongs to the sessions that were given it, by [`put`](Self::put) or [`share`](Self::share): for any other
/// session it does not exist, even under its name. It is gone with the last of its sessions.
///
/// An artifact is durable before the record that names it. When the record is durable, the store is told
/// ([`recorded`](Self::recorded)). What a process has put and no record names is garbage; [`unrecorded`](Self::unrecorded)
/// finds it once the process has ended.
///
/// Every method may be called from several tasks at once. A future must not block its thread: hashing and writing are for
/// a thread that may block.
pub trait ArtifactStorePort: Send + Sync + 'static {
    /// Keeps content for a session, durably, and answers its name. Putting the same content again keeps it once.
    ///
    /// # Errors
    /// `Unavailable` when nothing was kept.
    fn put<'a>(
        &'a self,
        session: &'a SessionId,
        content: Arc<Vec<u8>>,
    ) -> BoxFuture<'a, Result<ArtifactId, StoreError>>;

    /// Reads a range of the content, in bytes, as far as there is content; `None` when the session has no such artifact.
    ///
    /// # Errors
    /// `Unavailable`.
    fn get<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>>;

    /// The artifacts of a session, by name. Empty for a session that has none or does not exist.
    ///
    /// # Errors
    /// `Unavailable`.
    fn list<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<StoredArtifact>, StoreError>>;

    /// Gives artifacts of one session to another one as well, as [`put`](Self::put) would, without copying them where the
    /// store can. Those that the first session does not have are left out.
    ///
    /// # Errors
    /// `Unavailable`; some may have been given.
    fn share<'a>(
        &'a self,
        from: &'a SessionId,
        to: &'a SessionId,
        ids: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// A durable record of the session names these artifacts. Best effort: without it the artifacts are looked for in the
    /// journal, once the process that put them has ended.
    fn recorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, ()>;

    /// Artifacts that no record may name, at most `most` of them, by session: those that were put by processes that have
    /// ended and were not recorded, and those of sessions whose deletion was interrupted.
    ///
    /// # Errors
    /// `Unavailable`.
    #[expect(clippy::type_complexity, reason = "a list for each session")]
    fn unrecorded(&self, most: usize) -> BoxFuture<'_, Result<Vec<(SessionId, Vec<ArtifactId>)>, StoreError>>;

    /// Removes these artifacts of a session, but not one that a living process has put and not recorded. Other sessions
    /// keep theirs.
    ///
    /// # Errors
    /// `Unavailable`; some may have been removed.
    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes those of these artifacts that [`unrecorded`](Self::unrecorded) would still name: one that a record names since
    /// that was asked stays. By default as [`delete`](Self::delete).
    ///
    /// # Errors
    /// `Unavailable`; some may have been removed.
    fn delete_unrecorded<'a>(
        &'a self,
        session: &'a SessionId,
        ids: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.delete(session, ids)
    }

    /// Removes all artifacts of a session, which is deleted. Answers how many there were.
    ///
    /// # Errors
    /// `Unavailable`; some may have been removed.
    fn delete_all<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<usize, StoreError>>;
}

/// The part of a range that content of this size has, as indices.
pub fn clipped(range: &Range<u64>, bytes: usize) -> Range<usize> {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
    let (start, end) = (at(range.start), at(range.end));
    start..end.max(start)
}
