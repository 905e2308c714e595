//! An inbox.

use bob::inbox::{Due, Inbox, InboxEntry, InboxKey, InboxMessage, InboxStanding};
use bob::store::{StoreError, StoreOverview};
use bob::{AgentError, BoxFuture, SessionId};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The most messages that wait for a session.
const MOST: usize = 1_000;

/// Keeps messages for as long as the program runs, in the order in which they came.
#[derive(Default)]
pub struct Tray {
    kept: Mutex<Kept>,
    came: Notify,
}

#[derive(Default)]
struct Kept {
    count: u64,
    messages: Vec<(u64, InboxMessage, Option<AgentError>)>,
}

impl Kept {
    fn waiting(&self) -> impl Iterator<Item = &(u64, InboxMessage, Option<AgentError>)> {
        self.messages.iter().filter(|(_, _, refusal)| refusal.is_none())
    }

    fn put(&mut self, message: InboxMessage) -> Result<bool, StoreError> {
        let key = message.key();
        if self.waiting().any(|(_, kept, _)| kept.key() == key) {
            return Ok(false);
        }
        if self.waiting().filter(|(_, kept, _)| kept.session == key.session).count() >= MOST {
            return Err(StoreError::Unavailable(format!("{MOST} messages wait for the session, which is the most")));
        }
        self.messages.retain(|(_, kept, _)| kept.key() != key);
        self.count += 1;
        self.messages.push((self.count, message, None));
        Ok(true)
    }

    fn due(&self, most: usize, known: &BTreeSet<SessionId>) -> Vec<Due> {
        let mut due: Vec<Due> = Vec::new();
        let mut left = most;
        for (number, message, _) in self.waiting() {
            if let Some(found) = due.iter_mut().find(|due| due.session == message.session) {
                found.mark = *number;
            } else if known.contains(&message.session) || left > 0 {
                left -= usize::from(!known.contains(&message.session));
                due.push(Due { session: message.session.clone(), epoch: None, mark: *number });
            }
        }
        due
    }
}

impl Tray {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("not poisoned")
    }

    /// The session was deleted.
    pub fn forget(&self, session: &SessionId) {
        self.kept().messages.retain(|(_, message, _)| message.session != *session);
    }

    pub fn overview(&self) -> StoreOverview {
        let kept = self.kept();
        let sessions: BTreeSet<_> = kept.waiting().map(|(_, message, _)| &message.session).collect();
        let waiting = kept.waiting().count();
        StoreOverview {
            waiting: waiting as u64,
            waiting_sessions: sessions.len() as u64,
            oldest_ms: (waiting > 0).then_some(0),
            refused: (kept.messages.len() - waiting) as u64,
            ..StoreOverview::default()
        }
    }
}

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Inbox for Tray {
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
        let put = self.kept().put(message);
        self.came.notify_one();
        now(put)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
        let kept = self.kept();
        let own = kept.waiting().filter(|(_, message, _)| message.session == *session);
        now(Ok(own.map(|(_, message, _)| InboxEntry::from(message.clone())).collect()))
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut kept = self.kept();
        let Some(at) = kept.messages.iter().position(|(_, message, _)| message.key() == key) else {
            return now(Ok(false));
        };
        match refusal {
            Some(error) => kept.messages[at].2 = Some(error),
            None => drop(kept.messages.remove(at)),
        }
        now(Ok(true))
    }

    fn standing(&self, key: InboxKey) -> BoxFuture<'_, Result<InboxStanding, StoreError>> {
        let kept = self.kept();
        let found = kept.messages.iter().find(|(_, message, _)| message.key() == key);
        now(Ok(match found.map(|(_, _, refusal)| refusal.clone()) {
            None => InboxStanding::Gone,
            Some(None) => InboxStanding::Waiting,
            Some(Some(error)) => InboxStanding::Refused(Box::new(error)),
        }))
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
        now(Ok(self.kept().due(most, known)))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.came.notified())
    }
}
