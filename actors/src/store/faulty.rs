//! A store that fails on order: for tests of whoever uses a store.
//!
//! A [`FaultStore`] stands before another store and does to its n-th operation
//! what it was told to: refuse it, do it and lose the answer, let it wait, never
//! answer, panic. It notes what was asked of it, in order. A test aid.

#[cfg(test)]
#[path = "faulty_tests.rs"]
mod tests;

use super::SessionStore;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::{BoxFuture, FutureExt};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// What can be asked of a store.
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
    /// [`SessionStore::flush`]
    Flush,
}

/// What is done to an operation.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is not done; the answer is this error, to every append of a batch. A
    /// release or a flush has no error and just is not done.
    Refuse(StoreError),
    /// It is done, and the answer is this error nevertheless.
    LoseAnswer(StoreError),
    /// It is done after this time.
    Delay(Duration),
    /// It is done when the test adds a permit, of which it takes one; or when the
    /// test closes the semaphore.
    Hold(Arc<Semaphore>),
    /// It is done, and its answer never comes.
    Drop,
    /// It is not done; the future panics at its first poll.
    Panic,
    /// It is not done; the future panics after it was pending once.
    PanicLater,
}

/// A store with faults before another one.
pub struct FaultStore {
    inner: Arc<dyn SessionStore>,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    /// Which operation, or any; the how manieth of those, from 1; and what happens.
    faults: Vec<(Option<Operation>, usize, Fault)>,
    asked: Vec<(Operation, Vec<SessionId>)>,
}

impl FaultStore {
    /// Stands before a store and, until told otherwise, only notes what is asked.
    pub fn new(inner: Arc<dyn SessionStore>) -> Arc<Self> {
        Arc::new(Self { inner, plan: Mutex::default() })
    }

    /// The n-th operation of this kind, counted from 1 since the store was made,
    /// meets this fault. `None` counts operations of every kind.
    pub fn plan(&self, operation: Option<Operation>, nth: usize, fault: Fault) {
        self.plan_mut().faults.push((operation, nth, fault));
    }

    /// What was asked so far, in order, with the sessions concerned: of an append
    /// one for each of its batch, of a listing and a flush none.
    pub fn asked(&self) -> Vec<(Operation, Vec<SessionId>)> {
        self.plan_mut().asked.clone()
    }

    fn plan_mut(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an operation and gives the fault it is to meet.
    fn note(&self, operation: Operation, sessions: Vec<SessionId>) -> Option<Fault> {
        let mut plan = self.plan_mut();
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
            // The panic is what the test asked for.
            Some(Fault::Panic) => async move { panic!("{operation:?} panics as planned") }.boxed(),
            Some(Fault::PanicLater) => async move {
                tokio::task::yield_now().await;
                panic!("{operation:?} panics as planned")
            }
            .boxed(),
        }
    }
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultStore").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl SessionStore for FaultStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.meet(Operation::Claim, vec![session.clone()], async move { self.inner.claim(session).await }, Err)
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.meet(Operation::Load, vec![session.clone()], async move { self.inner.load(session).await }, Err)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let sessions: Vec<_> = batch.iter().map(|append| append.session.clone()).collect();
        let count = sessions.len();
        let work = async move { self.inner.append(batch).await };
        self.meet(Operation::Append, sessions, work, move |error| vec![Err(error); count])
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let work = async move { self.inner.release(session, epoch).await };
        self.meet(Operation::Release, vec![session.clone()], work, drop)
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        self.meet(Operation::List, Vec::new(), async move { self.inner.list(filter, cursor).await }, Err)
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.meet(Operation::Delete, vec![session.clone()], async move { self.inner.delete(session).await }, Err)
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.meet(Operation::Flush, Vec::new(), async move { self.inner.flush().await }, drop)
    }
}
