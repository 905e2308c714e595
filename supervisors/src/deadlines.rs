//! The one queue of deadlines: every turn's, every grace period's, every idle session's.
//!
//! Owned by the sessions supervisor. One timer sleeps until the earliest entry, so
//! a turn that ends leaves no timer behind.

use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::submission::SessionsMessage;
use ractor::{ActorId, ActorRef};
use std::collections::BTreeMap;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// What comes due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    /// A turn has had its time.
    Turn(SessionId, TurnId),
    /// A stopped actor has had its grace.
    Kill(SessionId, ActorId),
    /// A person has had the time to decide.
    Approval(SessionId, ApprovalId),
    /// An actor may have been idle for long enough.
    Idle(SessionId),
    /// Running turns have had their time before the end of the program.
    Drain,
}

/// Names one entry.
pub(crate) type Key = (Instant, u64);

/// The queue, earliest first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    queue: BTreeMap<Key, Due>,
    entries: u64,
    timer: Option<(Instant, AbortHandle)>,
}

impl Deadlines {
    /// Enters a deadline; `myself` is told with [`SessionsMessage::Due`].
    pub(crate) fn insert(&mut self, at: Instant, due: Due, myself: &ActorRef<SessionsMessage>) -> Key {
        self.entries += 1;
        let key = (at, self.entries);
        self.queue.insert(key, due);
        self.arm(myself);
        key
    }

    /// Takes an entry back. The timer may fire for it and then finds nothing due.
    pub(crate) fn remove(&mut self, key: Key) {
        self.queue.remove(&key);
    }

    /// Takes out what is due at `now`, and sleeps until the next entry.
    pub(crate) fn take_due(&mut self, now: Instant, myself: &ActorRef<SessionsMessage>) -> Vec<Due> {
        let later = self.queue.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.queue, later);
        // It may sleep on: the word for this look can be one that came early.
        self.stop_timer();
        self.arm(myself);
        due.into_values().collect()
    }

    fn arm(&mut self, myself: &ActorRef<SessionsMessage>) {
        let Some((&(earliest, _), _)) = self.queue.first_key_value() else { return };
        if self.timer.as_ref().is_some_and(|(at, _)| *at <= earliest) {
            return;
        }
        let myself = myself.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(earliest).await;
            // The supervisor may have ended meanwhile; then nobody is owed anything.
            drop(myself.cast(SessionsMessage::Due));
        });
        self.stop_timer();
        self.timer = Some((earliest, task.abort_handle()));
    }

    fn stop_timer(&mut self) {
        if let Some((_, timer)) = self.timer.take() {
            timer.abort();
        }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.stop_timer();
    }
}

#[cfg(test)]
#[path = "deadlines_tests.rs"]
mod tests;
