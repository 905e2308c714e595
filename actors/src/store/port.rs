//! The port: what a session store must be able to do.

use super::{ArtifactStorePort, Inbox, NodeFigures, StoreLease, StoreOverview};
use bob_messages::ids::SessionId;
use bob_messages::reply::Answer;
use bob_messages::share::Share;
use bob_messages::store::{Append, Claim, Part, Pools, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::sync::Arc;

/// What became of one append of a batch.
#[derive(Debug)]
pub enum Stored {
    /// It is durable, or it failed.
    Now(Result<u64, StoreError>),
    /// Something that concerns its session alone holds it up, so that the batch did
    /// not wait for it. `None` as the answer means that it is not known.
    Later(Answer<Result<u64, StoreError>>),
}

/// A process that owns a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOwner {
    /// Its name, for people ([`StoreOptions::owner_name`](super::StoreOptions::owner_name)).
    pub name: String,
    /// The number of its row among the processes of the store, where those are on several machines.
    pub node: Option<u32>,
    /// The address from which it reached the store, where the store is on a network.
    pub address: Option<String>,
}

impl std::fmt::Display for SessionOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        match (self.node, &self.address) {
            (Some(node), Some(address)) => write!(f, ", node {node} at {address}"),
            (Some(node), None) => write!(f, ", node {node}"),
            (None, Some(address)) => write!(f, " at {address}"),
            (None, None) => Ok(()),
        }
    }
}

/// A place where journals are kept.
///
/// The rules, which [`Ledger`](super::Ledger) applies for a store that wants them ready made:
/// - The version of a session counts its records, the epoch its claims.
/// - An append under any epoch but the one of the last claim is
///   [`Fenced`](StoreError::Fenced) and stores nothing.
/// - Records that are stored already, by id and version, are not stored again: when all of an
///   append's are there, or the first ones and they end the journal, the append
///   succeeds. Otherwise `expected_version` must be the session's version, or the
///   answer is [`Conflict`](StoreError::Conflict).
/// - No rule compares times.
/// - Every call ends: a store that cannot answer gives an error within a bound of its own. The runtime sets none, and waits
///   for a batch before it sends the next one, so an [`append`](Self::append) that never answers stops every
///   session, while the runtime's health stays `Ready`.
///
/// A store is one owner of sessions: two runtimes over one object take sessions from each other, as one owner may claim its
/// own again. Give each runtime a store of its own, also in one process, by opening the folder or the database again.
///
/// Every method may be called from several tasks at once. A future that is dropped before it is ready may or may not
/// have had its effect, like an operation that answered [`InDoubt`](StoreError::InDoubt). A future must not block its
/// thread; one that is ready at its first poll costs its caller no task.
#[doc(alias = "TurnCheckpointStorePort")]
pub trait SessionStore: Send + Sync + 'static {
    /// Raises the session's epoch by one, durably, and reads its records. A session that does not exist begins with no
    /// records, and with an epoch above all that were given for it before it was deleted.
    ///
    /// # Errors
    /// `Busy` while another living process owns the session, `Corrupt` or `TooNew` when its journal cannot be
    /// continued, `Unavailable` when nothing was claimed, `InDoubt` when it may have been.
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>>;

    /// Claims a session and reads only the records from the last snapshot on. A store that does not
    /// know where the snapshot is returns all records, as this default does.
    ///
    /// # Errors
    /// As [`claim`](Self::claim). Damage before the snapshot is not looked for.
    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.claim(session)
    }

    /// Reads the records and changes nothing; empty for a session that does not exist.
    ///
    /// # Errors
    /// `Corrupt`, `TooNew` or `Unavailable`.
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>>;

    /// Reads a part of the records and changes nothing. A store that can read a part costs the reader no more than that; this
    /// default reads everything.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn load_part<'a>(
        &'a self,
        session: &'a SessionId,
        part: Part,
    ) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.load(session).map(move |records| Ok(part.of(&records?).to_vec())).boxed()
    }

    /// Stores a batch, in order, and answers each append when it is durable: with the session's version after the last
    /// of its records. One that fails does not touch another session's; the answers are as many as the appends.
    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>>;

    /// Stores a batch as [`append`](Self::append) does, but answers per session: one that is held up does
    /// not hold up the others. A store in which no session can be held up by itself
    /// answers all of them at once, as this default does.
    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        self.append(batch).map(|answers| answers.into_iter().map(Stored::Now).collect()).boxed()
    }

    /// How many batches may be on their way at a time, which have no session in common; at least 1, which is the
    /// default: what comes meanwhile goes together in the next one. More are for a store in which one batch waits for
    /// what another one does not need.
    fn batches_at_once(&self) -> usize {
        1
    }

    /// Stores one append and answers it, where that takes no waiting; gives it back
    /// otherwise, untouched. For stores in memory: a store that has to wait keeps this default.
    ///
    /// # Errors
    /// The append itself, to be stored by [`append`](Self::append).
    fn append_now(&self, append: Append) -> Result<Result<u64, StoreError>, Append> {
        Err(append)
    }

    /// The owner under this epoch will write no more, so that another process may
    /// claim the session. Best effort; an epoch that is over changes nothing.
    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()>;

    /// The living process that owns a session. `None` when there is none, and where the store does not know, as this default says.
    ///
    /// # Errors
    /// `Unavailable`.
    fn owner<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SessionOwner>, StoreError>> {
        let _every_one = session;
        ready(Ok(None)).boxed()
    }

    /// Takes a session from its owner, also a living one, and leaves it without one: raises its epoch, durably, so that what that
    /// owner writes is refused, and any process may claim it. Answers who owned it, which may be a process that
    /// has died or stands still; `None`, and nothing has changed, when none is known.
    ///
    /// # Errors
    /// `Unavailable` when it was not done, also where a store cannot do it, as this default says; `InDoubt` when it may have been.
    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SessionOwner>, StoreError>> {
        let _every_one = session;
        ready(Err(StoreError::Unavailable("sessions of this store are not taken from their owners".to_owned()))).boxed()
    }

    /// Where this process tells what it counts. A store that notes that its processes live notes these with it, for all of them to
    /// see ([`StoreNode::figures`](super::StoreNode::figures)); another one does not ask, as this default says.
    fn tell_figures(&self, figures: Arc<dyn Fn() -> NodeFigures + Send + Sync>) {
        drop(figures);
    }

    /// What the store knows of all its processes and messages. `None` where it does not know, as this default says. Reads no
    /// journal.
    ///
    /// # Errors
    /// `Unavailable`.
    fn overview(&self) -> BoxFuture<'_, Result<Option<StoreOverview>, StoreError>> {
        ready(Ok(None)).boxed()
    }

    /// One page of the sessions, the last written first. Reads no journals. A
    /// session that is written to between two pages may be missed or seen twice.
    ///
    /// # Errors
    /// `Unavailable`, also for a cursor that no page of this store ended with.
    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>>;

    /// Removes a session with everything that is kept of it, also what was set aside as damaged. Answers whether there
    /// was anything. An append of an owner from before is fenced from then on, also when the session was claimed anew.
    ///
    /// # Errors
    /// `Busy` while another living process owns the session; `Unavailable`.
    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// The store of the large parts of its records, which are deleted with their sessions. Where there is none, as this
    /// default says, large parts stay in their records.
    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        None
    }

    /// The messages to its sessions. Where there is none, as this default says, a session is only spoken to by the process
    /// that runs it.
    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        None
    }

    /// The pools of machines in which this process is. A store that binds sessions to pools answers those it was opened with. One
    /// that does not answers none, as this default does: each process may have each of its sessions, and a message that names a
    /// pool waits for a program that answers it.
    fn pools(&self) -> Pools {
        Pools::default()
    }

    /// Which of the processes this one is that run turns with this store, so that a limit of all of them can be divided. It changes
    /// as they come and go; one in all pools runs none, and in a store without pools each counts. `None`, as this default says,
    /// where processes do not share limits: each has all of them. Does not wait.
    fn share(&self) -> Option<Share> {
        None
    }

    /// Whether no other process can have the sessions of this store, as in memory. A reader of a session then does not look for
    /// what others write. `false`, as this default says, where that is not known.
    fn is_of_one_process(&self) -> bool {
        false
    }

    /// How long this process may assume that a session it claimed is its own; asked before a side effect starts. For ever,
    /// as this default says, where the operating system tells of an owner's end. Does not wait.
    fn lease(&self, session: &SessionId) -> StoreLease {
        let _every_one = session;
        StoreLease::ForEver
    }
}
