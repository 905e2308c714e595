//! The queue of deadlines: those of turns, grace periods and idle sessions.
//!
//! Owned by the sessions supervisor. One timer sleeps until the earliest entry, so an ended turn leaves no timer.

use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::submission::SessionsMessage;
use ractor::{ActorId, ActorRef};
use std::collections::BTreeMap;
use tokio::task::AbortHandle;
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    Turn(SessionId, TurnId),
    Kill(SessionId, ActorId),
    Approval(SessionId, ApprovalId),
    Idle(SessionId),
    /// The grace period of running turns before the end of the program.
    Drain,
}

pub(crate) type Key = (Instant, u64);

/// The queue, earliest first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    queue: BTreeMap<Key, Due>,
    entries: u64,
    timer: Option<(Instant, AbortHandle)>,
}

impl Deadlines {
    /// Adds a deadline; `myself` receives [`SessionsMessage::Due`].
    pub(crate) fn insert(&mut self, at: Instant, due: Due, myself: &ActorRef<SessionsMessage>) -> Key {
        self.entries += 1;
        let key = (at, self.entries);
        self.queue.insert(key, due);
        self.arm(myself);
        key
    }

    /// Removes an entry. The timer may still fire for it and then finds nothing due.
    pub(crate) fn remove(&mut self, key: Key) {
        self.queue.remove(&key);
    }

    /// Removes and returns what is due at `now`, and sets the timer for the next entry.
    pub(crate) fn take_due(&mut self, now: Instant, myself: &ActorRef<SessionsMessage>) -> Vec<Due> {
        let later = self.queue.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.queue, later);
        // The timer may still sleep: this message can come from an earlier one.
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
            // Fails only when the supervisor has ended; then there are no deadlines.
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
