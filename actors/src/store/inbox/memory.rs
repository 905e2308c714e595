//! Messages in memory, which end with their process.

use super::port::{Due, Inbox, MOST_WAITING, REFUSALS_KEPT_MS};
use crate::clock;
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxEntry, InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The messages of a store in memory.
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
    message: InboxMessage,
    refusal: Option<(AgentError, Millis)>,
}

impl MemoryInbox {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, Vec<Kept>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session was deleted.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.all().remove(session);
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
        of.push(Kept { number: 1 + self.count.fetch_add(1, Ordering::Relaxed), message, refusal: None });
        Ok(true)
    }

    fn end(&self, session: &SessionId, request: &RequestId, refusal: Option<AgentError>) {
        let mut all = self.all();
        let Some(of) = all.get_mut(session) else { return };
        match refusal {
            Some(error) => {
                of.iter_mut()
                    .filter(|kept| kept.message.request_id == *request)
                    .for_each(|kept| kept.refusal = Some((error.clone(), clock::now())));
            }
            None => of.retain(|kept| kept.message.request_id != *request),
        }
        if of.is_empty() {
            all.remove(session);
        }
    }
}

/// Those of `due` that are known, and the first of the others, at most so many.
pub(super) fn chosen(due: impl Iterator<Item = Due>, most: usize, known: &BTreeSet<SessionId>) -> Vec<Due> {
    let mut left = most;
    let chosen = |due: &Due| {
        let is_known = known.contains(&due.session);
        let is_chosen = is_known || left > 0;
        left -= usize::from(is_chosen && !is_known);
        is_chosen
    };
    due.filter(chosen).collect()
}

/// Why a message is not kept.
pub(crate) fn full() -> StoreError {
    StoreError::Unavailable(format!("{MOST_WAITING} messages wait for the session, which is the most"))
}

impl Inbox for MemoryInbox {
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
        let kept = self.keep(message);
        self.changed.notify_one();
        ready(kept).boxed()
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
        let all = self.all();
        let waiting = all.get(session).into_iter().flatten().filter(|kept| kept.refusal.is_none());
        ready(Ok(waiting.map(|kept| InboxEntry::from(kept.message.clone())).collect())).boxed()
    }

    fn settle<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
        refusal: Option<AgentError>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.end(session, request, refusal);
        self.changed.notify_one();
        ready(Ok(())).boxed()
    }

    fn standing<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
    ) -> BoxFuture<'a, Result<InboxStanding, StoreError>> {
        let all = self.all();
        let kept = all.get(session).into_iter().flatten().find(|kept| kept.message.request_id == *request);
        let standing = match kept.map(|kept| &kept.refusal) {
            None => InboxStanding::Gone,
            Some(None) => InboxStanding::Waiting,
            Some(Some((error, _))) => InboxStanding::Refused(Box::new(error.clone())),
        };
        ready(Ok(standing)).boxed()
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
        let mut all = self.all();
        let kept_from = clock::now() - REFUSALS_KEPT_MS;
        all.retain(|_, of| {
            of.retain(|kept| kept.refusal.as_ref().is_none_or(|(_, at)| *at >= kept_from));
            !of.is_empty()
        });
        let newest = |of: &Vec<Kept>| of.iter().filter(|kept| kept.refusal.is_none()).map(|kept| kept.number).max();
        let due = all
            .iter()
            .filter_map(|(session, of)| newest(of).map(|mark| Due { session: session.clone(), epoch: None, mark }));
        ready(Ok(chosen(due, most, known))).boxed()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.changed.notified().boxed()
    }
}
