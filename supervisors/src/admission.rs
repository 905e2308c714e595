//! Admission: how many turns run at once, and who waits for that.
//!
//! Counts places and keeps the queue of sessions; it knows no debt, no actor and no
//! clock. A session stands in the queue at most once, whatever it has to do, and goes
//! to its end again after each turn: so sessions take turns, and one with much to do
//! delays nobody by more than a turn. Owned by the sessions supervisor.

use bob_messages::ids::SessionId;
use std::collections::VecDeque;

/// How many submissions of all sessions together wait at the door unless said otherwise.
pub const MOST_WAITING: usize = 1_000;

/// How many turns run at once unless said otherwise.
pub const MOST_RUNNING: usize = 1_024;

/// Who may run a turn, and who waits.
#[derive(Debug)]
pub(crate) struct Admission {
    most_running: usize,
    most_waiting: usize,
    running: usize,
    waiting: usize,
    /// Sessions without a place that have something to do, longest first.
    queue: VecDeque<SessionId>,
}

impl Admission {
    /// At least one turn runs: a house without places would never answer.
    pub(crate) fn new(most_running: usize, most_waiting: usize) -> Self {
        Self { most_running: most_running.max(1), most_waiting, running: 0, waiting: 0, queue: VecDeque::new() }
    }

    /// Whether a session comes in without waiting. One that has a place needs no other,
    /// but goes before nobody who waits.
    pub(crate) fn is_open(&self, has_place: bool) -> bool {
        self.queue.is_empty() && (has_place || self.running < self.most_running)
    }

    /// Whether nobody more may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= self.most_waiting
    }

    /// A submission waits.
    pub(crate) fn came(&mut self) {
        self.waiting += 1;
    }

    /// So many submissions wait no longer: they were let in or turned away.
    pub(crate) fn went(&mut self, submissions: usize) {
        self.waiting = self.waiting.saturating_sub(submissions);
    }

    /// A session goes to the end of the queue. It is not in it.
    pub(crate) fn queue(&mut self, session: SessionId) {
        self.queue.push_back(session);
    }

    /// A session has nothing more to do here. The queue is short, and this is rare.
    pub(crate) fn leave_queue(&mut self, session: &SessionId) {
        self.queue.retain(|waiting| waiting != session);
    }

    /// The session that waits longest, if there is a place for it; it takes it.
    pub(crate) fn next(&mut self) -> Option<SessionId> {
        if self.running >= self.most_running {
            return None;
        }
        let next = self.queue.pop_front()?;
        self.place_taken();
        if self.queue.is_empty() {
            // A queue that was long once does not keep its room.
            self.queue.shrink_to_fit();
        }
        Some(next)
    }

    /// A session has a place now. A turn of an earlier process that goes on by itself
    /// takes one, too, also when there is none.
    pub(crate) fn place_taken(&mut self) {
        self.running += 1;
    }

    /// A session gave its place back.
    pub(crate) fn place_freed(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Turns that run.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Submissions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
