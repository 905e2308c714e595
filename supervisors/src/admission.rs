//! Admission: how many turns run at once, and which sessions wait for a slot.
//!
//! Counts slots and keeps the queue of sessions; it knows no replies, no actors and no clock. A session is in the
//! queue at most once, and goes to its end after each turn: so sessions take turns, and one with many submissions
//! delays the others by no more than a turn. Owned by the sessions supervisor.

use bob_messages::ids::SessionId;
use std::collections::VecDeque;

/// The default limit of queued submissions of all sessions together.
pub const MOST_WAITING: usize = 1_000;

/// The default limit of running turns.
pub const MOST_RUNNING: usize = 1_024;

/// Slots for running turns and the queue for them.
#[derive(Debug)]
pub(crate) struct Admission {
    most_running: usize,
    most_waiting: usize,
    running: usize,
    waiting: usize,
    /// Sessions without a slot that have something to do, the longest wait first.
    queue: VecDeque<SessionId>,
}

impl Admission {
    /// At least one turn may run; otherwise no submission would ever be answered.
    pub(crate) fn new(most_running: usize, most_waiting: usize) -> Self {
        Self { most_running: most_running.max(1), most_waiting, running: 0, waiting: 0, queue: VecDeque::new() }
    }

    /// Whether a session is admitted without waiting. One with a slot needs no other, but does not overtake the
    /// queue.
    pub(crate) fn is_open(&self, has_slot: bool) -> bool {
        self.queue.is_empty() && (has_slot || self.running < self.most_running)
    }

    /// Whether no further submission may be queued.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= self.most_waiting
    }

    /// Counts a submission that is queued.
    pub(crate) fn enqueued(&mut self) {
        self.waiting += 1;
    }

    /// Counts submissions that were admitted or refused.
    pub(crate) fn dequeued(&mut self, submissions: usize) {
        self.waiting = self.waiting.saturating_sub(submissions);
    }

    /// Appends a session that is not in the queue.
    pub(crate) fn queue(&mut self, session: SessionId) {
        self.queue.push_back(session);
    }

    /// Removes a session. The queue is short, and this is rare.
    pub(crate) fn leave_queue(&mut self, session: &SessionId) {
        self.queue.retain(|waiting| waiting != session);
    }

    /// Takes a slot for the session that waits longest, if there is one.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        if self.running >= self.most_running {
            return None;
        }
        let next = self.queue.pop_front()?;
        self.slot_taken();
        if self.queue.is_empty() {
            // Give memory back after a burst.
            self.queue.shrink_to_fit();
        }
        Some(next)
    }

    /// Counts a slot that was taken. A turn of an earlier process that continues by itself takes one even beyond the
    /// limit.
    pub(crate) fn slot_taken(&mut self) {
        self.running += 1;
    }

    /// Counts a slot that was freed.
    pub(crate) fn slot_freed(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
