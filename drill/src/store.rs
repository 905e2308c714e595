//! A session store with fault injection, for tests and for the soak.
//!
//! A [`FaultStore`] wraps another store. Faults are planned (the n-th operation of a kind is refused, loses its
//! reply, waits, is never answered, or panics) or chosen by a function; other functions may alter appends or hold
//! single sessions. A store with planned faults records its operations in order.

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

use bob_actors::store::{
    ArtifactStorePort, Inbox, NodeFigures, SessionOwner, SessionStore, StoreFuture, StoreLease, StoreOverview, Stored,
};
use bob_messages::ids::SessionId;
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::{Append, Claim, Part, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::{BoxFuture, FutureExt};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The operations of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`SessionStore::claim`]
    Claim,
    /// [`SessionStore::load`]
    Load,
    /// [`SessionStore::append`]: a whole batch is one operation.
    Append,
    /// [`SessionStore::release`]
    Release,
    /// [`SessionStore::list`]
    List,
    /// [`SessionStore::delete`]
    Delete,
}

/// A fault of one operation.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is not done; the answer is this error, to every append of a batch. A
    /// release has no error and just is not done.
    Refuse(StoreError),
    /// It is done, and the answer is this error nevertheless.
    LoseAnswer(StoreError),
    /// It is done after this time.
    Delay(Duration),
    /// It is done when the test adds a permit, of which it takes one; or when the test closes the semaphore.
    Hold(Arc<Semaphore>),
    /// It is done, and its answer never comes.
    Drop,
    /// It is not done; the future panics at its first poll.
    Panic,
    /// Not performed; the future panics after it was pending once.
    PanicLater,
}

type Judge = Box<dyn Fn(Operation, &[SessionId]) -> Option<Fault> + Send + Sync>;

/// Replaces an append; `None` stores nothing but reports success.
type Alter = Box<dyn Fn(Append) -> Option<Append> + Send + Sync>;

/// Delays a claim of this session, or an append to it, and nothing else.
type Held = Box<dyn Fn(&SessionId, Option<&Append>) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

/// A store with faults before another one.
pub struct FaultStore {
    inner: Arc<dyn SessionStore>,
    mode: Mode,
}

/// Where the faults come from.
enum Mode {
    Planned(Mutex<Plan>),
    Judged(Judge),
    Altering(Alter),
    Holding(Held),
}

#[derive(Debug, Default)]
struct Plan {
    /// The operation (`None` for any), its count from 1, and the fault.
    faults: Vec<(Option<Operation>, usize, Fault)>,
    asked: Vec<(Operation, Vec<SessionId>)>,
}

impl FaultStore {
    /// Wraps a store and, until configured otherwise, only records operations.
    pub fn new(inner: Arc<dyn SessionStore>) -> Arc<Self> {
        Arc::new(Self { inner, mode: Mode::Planned(Mutex::default()) })
    }

    /// Every operation meets the fault that `judge` gives for it.
    pub fn judged(
        inner: Arc<dyn SessionStore>,
        judge: impl Fn(Operation, &[SessionId]) -> Option<Fault> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, mode: Mode::Judged(Box::new(judge)) })
    }

    /// Stores the result of `alter` for each append; reports success if that is `None`.
    pub fn altering(
        inner: Arc<dyn SessionStore>,
        alter: impl Fn(Append) -> Option<Append> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, mode: Mode::Altering(Box::new(alter)) })
    }

    /// Holds the claims (without an append) and the appends for which `held` gives a future, each until that is ready.
    pub fn holding(
        inner: Arc<dyn SessionStore>,
        held: impl Fn(&SessionId, Option<&Append>) -> Option<BoxFuture<'static, ()>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, mode: Mode::Holding(Box::new(held)) })
    }

    /// The n-th operation of this kind, counted from 1 since the store was made,
    /// meets this fault. `None` counts operations of every kind.
    pub fn plan(&self, operation: Option<Operation>, nth: usize, fault: Fault) {
        if let Some(mut plan) = self.plan_mut() {
            plan.faults.push((operation, nth, fault));
        }
    }

    /// Returns the operations so far in order, with their sessions: one for each append of a batch, none for a listing.
    pub fn asked(&self) -> Vec<(Operation, Vec<SessionId>)> {
        self.plan_mut().map(|plan| plan.asked.clone()).unwrap_or_default()
    }

    fn plan_mut(&self) -> Option<MutexGuard<'_, Plan>> {
        match &self.mode {
            Mode::Planned(plan) => Some(plan.lock().unwrap_or_else(PoisonError::into_inner)),
            Mode::Judged(_) | Mode::Altering(_) | Mode::Holding(_) => None,
        }
    }

    /// Notes an operation and gives the fault it is to meet.
    fn note(&self, operation: Operation, sessions: Vec<SessionId>) -> Option<Fault> {
        if let Mode::Judged(judge) = &self.mode {
            return judge(operation, &sessions);
        }
        let mut plan = self.plan_mut()?;
        plan.asked.push((operation, sessions));
        let of_all = plan.asked.len();
        let of_kind = plan.asked.iter().filter(|(other, _)| *other == operation).count();
        let met = plan.faults.iter().position(|(kind, nth, _)| match kind {
            Some(kind) => *kind == operation && *nth == of_kind,
            None => *nth == of_all,
        });
        met.map(|index| plan.faults.swap_remove(index).2)
    }

    fn meet<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        sessions: Vec<SessionId>,
        work: impl Future<Output = T> + Send + 'a,
        fail: impl FnOnce(StoreError) -> T + Send + 'a,
    ) -> BoxFuture<'a, T> {
        match self.note(operation, sessions) {
            None => work.boxed(),
            Some(Fault::Refuse(error)) => async move { fail(error) }.boxed(),
            Some(Fault::LoseAnswer(error)) => work.map(|_lost| fail(error)).boxed(),
            Some(Fault::Delay(time)) => async move {
                tokio::time::sleep(time).await;
                work.await
            }
            .boxed(),
            Some(Fault::Hold(permits)) => async move {
                if let Ok(permit) = permits.acquire().await {
                    permit.forget();
                }
                work.await
            }
            .boxed(),
            Some(Fault::Drop) => async move {
                work.await;
                std::future::pending().await
            }
            .boxed(),
            // The test asked for this panic.
            Some(Fault::Panic) => async move { panic!("{operation:?} panics as planned") }.boxed(),
            Some(Fault::PanicLater) => async move {
                tokio::task::yield_now().await;
                panic!("{operation:?} panics as planned")
            }
            .boxed(),
        }
    }

    /// A claim after its delay.
    async fn waited<'a>(
        &'a self,
        session: &'a SessionId,
        claim: impl FnOnce(&'a dyn SessionStore) -> StoreFuture<'a, Claim> + Send + 'a,
    ) -> Result<Claim, StoreError> {
        if let Mode::Holding(held) = &self.mode
            && let Some(wait) = held(session, None)
        {
            wait.await;
        }
        claim(&*self.inner).await
    }

    async fn store(&self, batch: Vec<Append>) -> Vec<Result<u64, StoreError>> {
        let Mode::Altering(alter) = &self.mode else { return self.inner.append(batch).await };
        let (mut said, mut kept) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for append in batch {
            let version = append.expected_version + append.records.len() as u64;
            let altered = alter(append);
            said.push(altered.is_none().then_some(version));
            kept.extend(altered);
        }
        let mut answers = self.inner.append(kept).await.into_iter();
        let lost = || Err(StoreError::Unavailable("there is no answer".to_owned()));
        said.into_iter().map(|said| said.map_or_else(|| answers.next().unwrap_or_else(lost), Ok)).collect()
    }

    async fn store_apart(&self, held: &Held, batch: Vec<Append>) -> Vec<Stored> {
        let (mut answers, mut together) = (Vec::with_capacity(batch.len()), Vec::new());
        for append in batch {
            match held(&append.session, Some(&append)) {
                Some(wait) => answers.push(Some(Stored::Later(later(Arc::clone(&self.inner), append, wait)))),
                None => {
                    answers.push(None);
                    together.push(append);
                }
            }
        }
        let stored = if together.is_empty() { Vec::new() } else { self.inner.append_apart(together).await };
        let mut stored = stored.into_iter();
        answers.into_iter().filter_map(|held| held.or_else(|| stored.next())).collect()
    }
}

/// Reply to an append that is stored on release.
fn later(
    inner: Arc<dyn SessionStore>,
    append: Append,
    wait: BoxFuture<'static, ()>,
) -> Answer<Result<u64, StoreError>> {
    let (reply, answer) = Reply::channel();
    tokio::spawn(async move {
        wait.await;
        if let Some(stored) = inner.append(vec![append]).await.pop() {
            reply.send(stored);
        }
    });
    answer
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultStore").field("plan", &self.plan_mut()).finish_non_exhaustive()
    }
}

impl SessionStore for FaultStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.meet(Operation::Claim, vec![session.clone()], self.waited(session, move |inner| inner.claim(session)), Err)
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.meet(
            Operation::Claim,
            vec![session.clone()],
            self.waited(session, move |inner| inner.claim_latest(session)),
            Err,
        )
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.meet(Operation::Load, vec![session.clone()], async move { self.inner.load_part(session, part).await }, Err)
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.meet(Operation::Load, vec![session.clone()], async move { self.inner.load(session).await }, Err)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let sessions: Vec<_> = batch.iter().map(|append| append.session.clone()).collect();
        let count = sessions.len();
        let work = async move { self.store(batch).await };
        self.meet(Operation::Append, sessions, work, move |error| vec![Err(error); count])
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        match &self.mode {
            Mode::Holding(held) => self.store_apart(held, batch).boxed(),
            Mode::Planned(_) | Mode::Judged(_) | Mode::Altering(_) => {
                self.append(batch).map(|answers| answers.into_iter().map(Stored::Now).collect()).boxed()
            }
        }
    }

    fn append_now(&self, append: Append) -> Result<Result<u64, StoreError>, Append> {
        match &self.mode {
            Mode::Holding(held) if held(&append.session, Some(&append)).is_none() => self.inner.append_now(append),
            Mode::Planned(_) | Mode::Judged(_) | Mode::Altering(_) | Mode::Holding(_) => Err(append),
        }
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let work = async move { self.inner.release(session, epoch).await };
        self.meet(Operation::Release, vec![session.clone()], work, drop)
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        self.meet(Operation::List, Vec::new(), async move { self.inner.list(filter, cursor).await }, Err)
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        self.meet(Operation::Delete, vec![session.clone()], async move { self.inner.delete(session).await }, Err)
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        self.inner.artifacts()
    }

    fn owner<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.inner.owner(session)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.inner.take(session)
    }

    fn tell_figures(&self, figures: Arc<dyn Fn() -> NodeFigures + Send + Sync>) {
        self.inner.tell_figures(figures);
    }

    fn overview(&self) -> StoreFuture<'_, Option<StoreOverview>> {
        self.inner.overview()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        self.inner.inbox()
    }

    fn is_of_one_process(&self) -> bool {
        self.inner.is_of_one_process()
    }

    fn lease(&self, session: &SessionId) -> StoreLease {
        self.inner.lease(session)
    }
}
