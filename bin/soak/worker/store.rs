//! The store's port with faults before it: it refuses, loses its answer, and takes its time. Which operations are met
//! follows from the seed and from how many there were before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bob::{Record, SessionFilter, SessionId, SessionPage, SessionStore};
use bob_actors::store::Stored;
use bob_messages::store::{Append, Claim, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::telling::Telling;
use crate::soak::chaos::Kind;
use crate::soak::plan::Plan;
use crate::soak::schedule::meets;

/// How long a slow operation takes more.
const SLOW: Duration = Duration::from_millis(500);

/// Faults before a store.
pub(crate) struct FaultyStore {
    inner: Arc<dyn SessionStore>,
    plan: Arc<Plan>,
    telling: Telling,
    /// How many operations there were.
    count: AtomicU64,
    /// Which life of the worker this is: its operations are others than those before.
    life: u64,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn SessionStore>, plan: Arc<Plan>, telling: Telling, life: u32) -> Self {
        Self { inner, plan, telling, count: AtomicU64::new(0), life: life.into() }
    }

    /// What this operation meets, told for the sessions it concerns.
    fn fault(&self, sessions: impl FnOnce() -> Vec<String>) -> Option<Kind> {
        let place = [self.life, self.count.fetch_add(1, Ordering::Relaxed)];
        let kinds = [Kind::StoreFail, Kind::StoreLost, Kind::StoreSlow];
        let kind = kinds.into_iter().find(|kind| meets(self.plan.seed, &self.plan.chaos, *kind, &place))?;
        self.telling.fault(kind, "store", sessions());
        Some(kind)
    }
}

fn refused() -> StoreError {
    StoreError::Unavailable("the soak's store refuses, as planned".to_owned())
}

fn in_doubt() -> StoreError {
    StoreError::InDoubt("the soak's store lost its answer, as planned".to_owned())
}

impl SessionStore for FaultyStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        let fault = self.fault(|| vec![session.to_string()]);
        async move {
            match fault {
                Some(Kind::StoreFail) => Err(refused()),
                Some(Kind::StoreLost) => self.inner.claim(session).await.and_then(|_lost| Err(in_doubt())),
                Some(_slow) => {
                    tokio::time::sleep(SLOW).await;
                    self.inner.claim(session).await
                }
                None => self.inner.claim(session).await,
            }
        }
        .boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.inner.load(session)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let fault = self.fault(|| batch.iter().map(|append| append.session.to_string()).collect());
        let count = batch.len();
        async move {
            match fault {
                Some(Kind::StoreFail) => vec![Err(refused()); count],
                Some(Kind::StoreLost) => {
                    self.inner.append(batch).await;
                    vec![Err(in_doubt()); count]
                }
                Some(_slow) => {
                    tokio::time::sleep(SLOW).await;
                    self.inner.append(batch).await
                }
                None => self.inner.append(batch).await,
            }
        }
        .boxed()
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        if self.plan.chaos.is_off() {
            return self.inner.append_apart(batch);
        }
        self.append(batch).map(|answers| answers.into_iter().map(Stored::Now).collect()).boxed()
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        self.inner.release(session, epoch)
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        self.inner.list(filter, cursor)
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.inner.delete(session)
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.inner.flush()
    }
}
