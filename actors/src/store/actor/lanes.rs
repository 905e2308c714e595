//! What waits for the store, and what may start.
//!
//! Each session has a lane: its operations in the order they came, one at a time,
//! except that the appends at a lane's head go together. Sessions whose head is an
//! append wait for the next batch; there is one batch at a time. Pure bookkeeping.

use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Record, StoreError};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The most appends in one batch: enough for group commit to pay, little enough
/// that the first of them does not wait long.
pub(super) const MAX_BATCH: usize = 4096;

/// One operation on one session, with where its answer goes.
#[derive(Debug)]
pub(super) enum Work {
    Append(Append, Reply<Result<u64, StoreError>>),
    Claim(Reply<Result<Claim, StoreError>>),
    Load(Reply<Result<Vec<Arc<Record>>, StoreError>>),
    Release(u64),
    Delete(Reply<Result<bool, StoreError>>),
}

/// What may start now.
#[derive(Debug)]
pub(super) enum Start {
    Batch(Vec<Append>, Vec<Reply<Result<u64, StoreError>>>),
    One(SessionId, Work),
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Only sessions of which something waits or runs.
    lanes: HashMap<SessionId, Lane>,
    /// Sessions whose head is an append, in the order they became so.
    batchable: VecDeque<SessionId>,
    /// Sessions whose head is something else.
    startable: VecDeque<SessionId>,
    /// The sessions of the batch in flight.
    in_batch: Option<Vec<SessionId>>,
    /// The numbers of what was accepted and has not ended.
    outstanding: BTreeSet<u64>,
    last: u64,
}

/// A session's operations by number. While one runs, the lane is in neither queue.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<(u64, Work)>,
    running: Vec<u64>,
}

impl Lanes {
    /// Whether nothing waits and nothing runs.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The number of the last operation accepted.
    pub(super) fn last_accepted(&self) -> u64 {
        self.last
    }

    pub(super) fn all_ended_until(&self, number: u64) -> bool {
        self.outstanding.first().is_none_or(|&first| first > number)
    }

    pub(super) fn push(&mut self, session: SessionId, work: Work) {
        let number = self.number();
        let lane = self.lanes.entry(session.clone()).or_default();
        lane.waiting.push_back((number, work));
        if lane.waiting.len() == 1 && lane.running.is_empty() {
            self.queue(session);
        }
    }

    /// Notes a batch of one session that was started before it was ever queued.
    pub(super) fn batch_started(&mut self, session: SessionId) {
        let number = self.number();
        self.lanes.entry(session.clone()).or_default().running.push(number);
        self.in_batch = Some(vec![session]);
    }

    /// Takes out what may start next. What it returns is running from then on.
    pub(super) fn start(&mut self) -> Option<Start> {
        while let Some(session) = self.startable.pop_front() {
            let Some(lane) = self.lanes.get_mut(&session) else { continue };
            let Some((number, work)) = lane.waiting.pop_front() else { continue };
            lane.running.push(number);
            return Some(Start::One(session, work));
        }
        if self.in_batch.is_some() || self.batchable.is_empty() {
            return None;
        }
        let (mut appends, mut replies, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
        while appends.len() < MAX_BATCH {
            let Some(session) = self.batchable.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&session) else { continue };
            while appends.len() < MAX_BATCH {
                match lane.waiting.pop_front() {
                    Some((number, Work::Append(append, reply))) => {
                        lane.running.push(number);
                        appends.push(append);
                        replies.push(reply);
                    }
                    Some(other) => {
                        lane.waiting.push_front(other);
                        break;
                    }
                    None => break,
                }
            }
            sessions.push(session);
        }
        self.in_batch = Some(sessions);
        Some(Start::Batch(appends, replies))
    }

    /// The batch has ended, but for these sessions: each of them goes on by itself
    /// until [`one_ended`](Self::one_ended), and the next batch may start.
    pub(super) fn batch_ended(&mut self, left: &[SessionId]) {
        for session in self.in_batch.take().unwrap_or_default() {
            if !left.contains(&session) {
                self.one_ended(&session);
            }
        }
    }

    /// What ran in this lane has ended; its next operation gets its turn.
    pub(super) fn one_ended(&mut self, session: &SessionId) {
        let Some(lane) = self.lanes.get_mut(session) else { return };
        for number in lane.running.drain(..) {
            self.outstanding.remove(&number);
        }
        if lane.waiting.is_empty() {
            self.lanes.remove(session);
        } else {
            self.queue(session.clone());
        }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.outstanding.insert(self.last);
        self.last
    }

    fn queue(&mut self, session: SessionId) {
        match self.lanes.get(&session).and_then(|lane| lane.waiting.front()) {
            Some((_, Work::Append(..))) => self.batchable.push_back(session),
            Some((_, Work::Claim(_) | Work::Load(_) | Work::Release(_) | Work::Delete(_))) => {
                self.startable.push_back(session);
            }
            None => {}
        }
    }
}
