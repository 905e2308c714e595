//! Messages in memory, which end with their process.

use super::port::{Due, Inbox, MOST_WAITING, REFUSALS_KEPT_MS};
use crate::clock;
use crate::store::{StoreFuture, StoreOverview};
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use bob_messages::inbox::{InboxEntry, InboxKey, InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct MemoryInbox {
    of: Mutex<BTreeMap<SessionId, Vec<Kept>>>,
    /// How many messages were put.
    count: AtomicU64,
    changed: Notify,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    at: Millis,
    message: InboxMessage,
    refusal: Option<(AgentError, Millis)>,
}

impl MemoryInbox {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, Vec<Kept>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, session: &SessionId) {
        self.all().remove(session);
    }

    pub(crate) fn overview(&self) -> StoreOverview {
        let all = self.all();
        let waits = |of: &&Vec<Kept>| of.iter().any(|kept| kept.refusal.is_none());
        let (refused, waiting): (Vec<_>, Vec<_>) = all.values().flatten().partition(|kept| kept.refusal.is_some());
        let oldest = waiting.iter().map(|kept| kept.at).min();
        StoreOverview {
            waiting: waiting.len() as u64,
            waiting_sessions: all.values().filter(waits).count() as u64,
            oldest_ms: oldest.map(|oldest| u64::try_from(clock::now() - oldest).unwrap_or_default()),
            refused: refused.len() as u64,
            ..StoreOverview::default()
        }
    }

    fn keep(&self, message: InboxMessage) -> Result<bool, StoreError> {
        let mut all = self.all();
        let of = all.entry(message.session.clone()).or_default();
        let is_it = |kept: &Kept| kept.message.request_id == message.request_id;
        if of.iter().any(|kept| is_it(kept) && kept.refusal.is_none()) {
            return Ok(false);
        }
        if of.iter().filter(|kept| kept.refusal.is_none()).count() >= MOST_WAITING {
            return Err(full());
        }
        of.retain(|kept| !is_it(kept));
        of.push(Kept {
            number: 1 + self.count.fetch_add(1, Ordering::Relaxed),
            at: clock::now(),
            message,
            refusal: None,
        });
        Ok(true)
    }

    fn end(&self, key: &InboxKey, refusal: Option<AgentError>) -> bool {
        let mut all = self.all();
        let Some(of) = all.get_mut(&key.session) else { return false };
        let Some(at) = of.iter().position(|kept| kept.message.request_id == key.request) else { return false };
        match refusal {
            Some(error) => of[at].refusal = Some((error, clock::now())),
            None => drop(of.remove(at)),
        }
        if of.is_empty() {
            all.remove(&key.session);
        }
        true
    }
}

/// Those of `due` that are known, and of the others at most so many: those whose oldest message waits longest.
pub(super) fn chosen<T: Ord>(mut due: Vec<(T, Due)>, most: usize, known: &BTreeSet<SessionId>) -> Vec<Due> {
    due.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut left = most;
    let chosen = |due: &Due| {
        let is_known = known.contains(&due.session);
        let is_chosen = is_known || left > 0;
        left -= usize::from(is_chosen && !is_known);
        is_chosen
    };
    due.into_iter().map(|(_, due)| due).filter(chosen).collect()
}

pub(crate) fn full() -> StoreError {
    StoreError::Unavailable(format!("{MOST_WAITING} messages wait for the session, which is the most"))
}

impl Inbox for MemoryInbox {
    fn put(&self, message: InboxMessage) -> StoreFuture<'_, bool> {
        let kept = self.keep(message);
        self.changed.notify_one();
        ready(kept).boxed()
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InboxEntry>> {
        let all = self.all();
        let waiting = all.get(session).into_iter().flatten().filter(|kept| kept.refusal.is_none());
        ready(Ok(waiting.map(|kept| InboxEntry::from(kept.message.clone())).collect())).boxed()
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> StoreFuture<'_, bool> {
        let is_settled = self.end(&key, refusal);
        self.changed.notify_one();
        ready(Ok(is_settled)).boxed()
    }

    fn standing(&self, key: InboxKey) -> StoreFuture<'_, InboxStanding> {
        let all = self.all();
        let kept = all.get(&key.session).into_iter().flatten().find(|kept| kept.message.request_id == key.request);
        let standing = match kept.map(|kept| &kept.refusal) {
            None => InboxStanding::Gone,
            Some(None) => InboxStanding::Waiting,
            Some(Some((error, _))) => InboxStanding::Refused(Box::new(error.clone())),
        };
        ready(Ok(standing)).boxed()
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> StoreFuture<'a, Vec<Due>> {
        let mut all = self.all();
        let kept_from = clock::now() - REFUSALS_KEPT_MS;
        all.retain(|_, of| {
            of.retain(|kept| kept.refusal.as_ref().is_none_or(|(_, at)| *at >= kept_from));
            !of.is_empty()
        });
        let due = all.iter().filter_map(|(session, of)| {
            let numbers = || of.iter().filter(|kept| kept.refusal.is_none()).map(|kept| kept.number);
            Some((numbers().min()?, Due { session: session.clone(), epoch: None, mark: numbers().max()? }))
        });
        ready(Ok(chosen(due.collect(), most, known))).boxed()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.changed.notified().boxed()
    }
}
