//! What waits for the store, and what may start.
//!
//! Each session has a lane: its operations in the order they came, one at a time,
//! except that the appends at a lane's head go together. Sessions whose head is an
//! append wait for the next batch; there are as many at a time as the store takes. Pure
//! bookkeeping.

use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Part, Record, StoreError};
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The most appends in one batch: enough for group commit to pay, little enough
/// that the first of them does not wait long.
pub(super) const MAX_BATCH: usize = 4096;

#[derive(Debug)]
pub(super) enum Work {
    Append(Append, Reply<Result<u64, StoreError>>),
    /// Whether all records are wanted.
    Claim(bool, Reply<Result<Claim, StoreError>>),
    /// A part of the records, or all.
    Load(Option<Part>, Reply<Result<Vec<Arc<Record>>, StoreError>>),
    Release(u64, Reply<()>),
    Delete(Reply<Result<bool, StoreError>>),
}

#[derive(Debug)]
pub(super) enum Start {
    /// With its number.
    Batch(u64, Vec<Append>, Vec<Reply<Result<u64, StoreError>>>),
    One(SessionId, Work),
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Only sessions of which something waits or runs.
    lanes: HashMap<SessionId, Lane, RandomState>,
    /// Sessions whose head is an append, in the order they became so.
    batchable: VecDeque<SessionId>,
    /// Sessions whose head is something else.
    startable: VecDeque<SessionId>,
    /// The batches in flight by their numbers, each with its sessions, and how many there may be.
    batches: HashMap<u64, Vec<SessionId>, RandomState>,
    most: usize,
    /// How many batches were started.
    started: u64,
    /// How much was accepted and has not ended.
    outstanding: usize,
}

/// A session's operations. While one runs, the lane is in neither queue.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Work>,
    running: usize,
}

impl Lanes {
    /// Lanes of a store that takes so many batches at a time.
    pub(super) fn of(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn push(&mut self, session: SessionId, work: Work) {
        self.outstanding += 1;
        let lane = self.lanes.entry(session.clone()).or_default();
        lane.waiting.push_back(work);
        if lane.waiting.len() == 1 && lane.running == 0 {
            self.queue(session);
        }
    }

    /// Notes a batch of one session that starts before it was ever queued, and answers its number.
    pub(super) fn batch_started(&mut self, session: SessionId) -> u64 {
        self.outstanding += 1;
        self.lanes.entry(session.clone()).or_default().running += 1;
        self.number(vec![session])
    }

    fn number(&mut self, sessions: Vec<SessionId>) -> u64 {
        self.started += 1;
        self.batches.insert(self.started, sessions);
        self.started
    }

    /// Takes out what may start next. What it returns is running from then on.
    pub(super) fn start(&mut self) -> Option<Start> {
        while let Some(session) = self.startable.pop_front() {
            let Some(lane) = self.lanes.get_mut(&session) else { continue };
            let Some(work) = lane.waiting.pop_front() else { continue };
            lane.running += 1;
            return Some(Start::One(session, work));
        }
        if self.batches.len() >= self.most.max(1) || self.batchable.is_empty() {
            return None;
        }
        let (mut appends, mut replies, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
        while appends.len() < MAX_BATCH {
            let Some(session) = self.batchable.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&session) else { continue };
            while appends.len() < MAX_BATCH {
                match lane.waiting.pop_front() {
                    Some(Work::Append(append, reply)) => {
                        lane.running += 1;
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
        Some(Start::Batch(self.number(sessions), appends, replies))
    }

    /// A batch has ended, but for these sessions: each of them goes on by itself
    /// until [`one_ended`](Self::one_ended), and the next batch may start.
    pub(super) fn batch_ended(&mut self, batch: u64, left: &[SessionId]) {
        for session in self.batches.remove(&batch).unwrap_or_default() {
            if !left.contains(&session) {
                self.one_ended(&session);
            }
        }
    }

    /// What ran in this lane has ended; its next operation gets its turn.
    pub(super) fn one_ended(&mut self, session: &SessionId) {
        let Some(lane) = self.lanes.get_mut(session) else { return };
        self.outstanding -= std::mem::take(&mut lane.running);
        if lane.waiting.is_empty() {
            self.lanes.remove(session);
        } else {
            self.queue(session.clone());
        }
    }

    fn queue(&mut self, session: SessionId) {
        match self.lanes.get(&session).and_then(|lane| lane.waiting.front()) {
            Some(Work::Append(..)) => self.batchable.push_back(session),
            Some(Work::Claim(..) | Work::Load(..) | Work::Release(..) | Work::Delete(_)) => {
                self.startable.push_back(session);
            }
            None => {}
        }
    }
}
