//! Stores: where the journals of sessions are kept, and what is in a journal.
//!
//! A program implements [`SessionStore`] for a database of its own; [`Ledger`] has the rules of a journal ready made.

/// The port of artifacts: large parts of records, which a [`SessionStore`] keeps beside its journals. A store that has none
/// keeps them in their records. A program's own store may use one that is there, or bring its own:
///
/// ```
/// use bob::store::{ArtifactStorePort, MemoryArtifacts};
/// use bob::SessionId;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (artifacts, session) = (MemoryArtifacts::new(), SessionId::parse("reports")?);
/// let id = artifacts.put(&session, Arc::new(b"a large result".to_vec())).await?;
/// let part = artifacts.get(&session, &id, 2..7).await?;
/// assert_eq!(part.as_deref(), Some(&b"large"[..]));
///
/// // For any other session it does not exist.
/// let other = SessionId::parse("other")?;
/// assert_eq!(artifacts.get(&other, &id, 2..7).await?, None);
/// # Ok(())
/// # }
/// ```
pub use bob_actors::store::ArtifactStorePort;
#[cfg(feature = "postgres")]
pub use bob_actors::store::PostgresStore;
#[cfg(feature = "sqlite")]
pub use bob_actors::store::SqliteStore;
/// The port of stores, for [`RuntimeBuilder::store`](crate::RuntimeBuilder::store). A whole store is in
/// `examples/embedding`; this one adds a count to another.
///
/// ```
/// use bob::sessions::{SessionFilter, SessionPage};
/// use bob::store::{Append, Claim, MemoryStore, Record, SessionStore, StoreError};
/// use bob::{BoxFuture, SessionId};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// struct Counted {
///     store: Arc<MemoryStore>,
///     records: AtomicUsize,
/// }
///
/// impl SessionStore for Counted {
///     fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
///         self.store.claim(session)
///     }
///
///     fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
///         self.store.load(session)
///     }
///
///     fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
///         let records = batch.iter().map(|append| append.records.len()).sum();
///         self.records.fetch_add(records, Ordering::Relaxed);
///         self.store.append(batch)
///     }
///
///     fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
///         self.store.release(session, epoch)
///     }
///
///     fn list<'a>(
///         &'a self,
///         filter: &'a SessionFilter,
///         cursor: Option<&'a str>,
///     ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
///         self.store.list(filter, cursor)
///     }
///
///     fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
///         self.store.delete(session)
///     }
/// }
/// ```
pub use bob_actors::store::{EmptyPool, NodeFigures, SessionOwner, SessionStore, StoreNode, StoreOverview};
pub use bob_actors::store::{
    FileStore, FolderArtifacts, Ledger, Made, Marked, MemoryArtifacts, MemoryStore, Ruling, StoreOptions, Stored,
    StoredArtifact, below, make_folder, page_of,
};
pub use bob_messages::agent::{Delegation, DelegationError, Task};
pub use bob_messages::artifact::{Artifact, ArtifactId, ArtifactKind, LARGE_PART_BYTES};
pub use bob_messages::chat::Asking;
pub use bob_messages::ids::RecordId;
pub use bob_messages::input::TurnInput;
pub use bob_messages::limits::{Below, Spent};
pub use bob_messages::replay;
pub use bob_messages::reply::{Answer, Interest, Reply};
pub use bob_messages::session_state::{
    AtLimit, ExternalResult, GivenUp, OpenApproval, OpenBelow, OpenCall, OpenStep, OpenTurn, RunCaller, Session,
    Submissions, Tasks, pool_of,
};
pub use bob_messages::share::Share;
pub use bob_messages::skills::Reselecting;
pub use bob_messages::store::{
    Answered, Append, AskedBelow, Claim, Ended, FORMAT, Fact, Glance, Part, Pools, Record, Snapshot, StepCost,
    StoreError, Suspension,
};
