//! Messages in memory, which end with their process.

use super::port::{Due, Inbox, MOST_WAITING};
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The messages of a store in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryInbox {
    of: Mutex<BTreeMap<SessionId, Vec<Kept>>>,
    changed: Notify,
}

#[derive(Debug)]
struct Kept {
    message: InboxMessage,
    refusal: Option<AgentError>,
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
        if of.iter().any(|kept| kept.message.request_id == message.request_id) {
            return Ok(false);
        }
        if of.len() >= MOST_WAITING {
            return Err(full());
        }
        of.push(Kept { message, refusal: None });
        Ok(true)
    }

    fn end(&self, session: &SessionId, request: &RequestId, refusal: Option<AgentError>) {
        let mut all = self.all();
        let Some(of) = all.get_mut(session) else { return };
        match refusal {
            Some(_) => {
                of.iter_mut()
                    .filter(|kept| kept.message.request_id == *request)
                    .for_each(|kept| kept.refusal.clone_from(&refusal));
            }
            None => of.retain(|kept| kept.message.request_id != *request),
        }
        if of.is_empty() {
            all.remove(session);
        }
    }
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

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxMessage>, StoreError>> {
        let all = self.all();
        let waiting = all.get(session).into_iter().flatten().filter(|kept| kept.refusal.is_none());
        ready(Ok(waiting.map(|kept| kept.message.clone()).collect())).boxed()
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
            Some(Some(error)) => InboxStanding::Refused(Box::new(error.clone())),
        };
        ready(Ok(standing)).boxed()
    }

    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        let all = self.all();
        let waiting = all.iter().filter(|(_, of)| of.iter().any(|kept| kept.refusal.is_none()));
        let due = waiting.take(most).map(|(session, _)| Due { session: session.clone(), epoch: None }).collect();
        ready(Ok(due)).boxed()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.changed.notified().boxed()
    }
}
