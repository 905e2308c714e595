//! What the processes share: the journal of one session, whose it is, and when its owners were heard of.

use super::LEASE;
use crate::ids::TurnId;
use crate::input::TurnInput;
use crate::session_state::Session;
use crate::store::{Fact, Record};
use crate::turn::tests::world::session_id;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) now: i64,
    pub(super) stored: Vec<Arc<Record>>,
    pub(super) epoch: u64,
    /// The epochs that were given.
    pub(super) given: BTreeSet<u64>,
    /// The process that has the session.
    pub(super) owner: Option<usize>,
    /// When each process was heard of last.
    pub(super) renewed: Vec<i64>,
    /// Which side effects began, by what was asked, and where.
    pub(super) began: BTreeMap<String, usize>,
    /// How many records were judged when they were stored.
    pub(super) judged: usize,
    /// Nothing reaches it.
    pub(super) is_away: bool,
    /// How many appends did not reach it.
    pub(super) missed: usize,
}

impl Database {
    pub(super) fn new(processes: usize) -> Self {
        Self {
            now: 0,
            stored: Vec::new(),
            epoch: 0,
            given: BTreeSet::new(),
            owner: None,
            renewed: vec![0; processes],
            began: BTreeMap::new(),
            judged: 0,
            is_away: false,
            missed: 0,
        }
    }

    /// Whether a process may have the session: it is free, or its owner was not heard of for the time of a lease.
    pub(super) fn is_free(&self) -> bool {
        self.owner.is_none_or(|owner| self.now - self.renewed[owner] > LEASE)
    }

    /// What is open in the journal, in its order.
    pub(super) fn open(&self) -> Vec<Arc<TurnInput>> {
        let session = Session::fold(session_id(), &self.stored);
        let running = session.running().map(|open| Arc::clone(&open.input));
        running.into_iter().chain(session.waiting.iter().cloned()).collect()
    }

    fn of_turn(&self, turn: &TurnId, is: impl Fn(&Fact) -> bool) -> usize {
        self.stored.iter().filter(|record| record.turn.as_ref() == Some(turn) && is(&record.fact)).count()
    }

    pub(super) fn inputs(&self, turn: &TurnId) -> usize {
        let of = |fact: &Fact| matches!(fact, Fact::Input(input) if input.turn == *turn);
        self.stored.iter().filter(|record| of(&record.fact)).count()
    }

    pub(super) fn outcomes(&self, turn: &TurnId) -> usize {
        self.of_turn(turn, |fact| matches!(fact, Fact::Outcome(_)))
    }

    pub(super) fn is_done(&self, requests: &[Arc<TurnInput>]) -> bool {
        requests.iter().all(|request| self.outcomes(&request.turn) > 0)
    }

    /// What does not hold of the journal.
    pub(super) fn wrong(&self, requests: &[Arc<TurnInput>]) -> Option<String> {
        let mut ids = BTreeSet::new();
        for (at, record) in self.stored.iter().enumerate() {
            if record.version != at as u64 + 1 {
                return Some(format!("version {} is at {at}", record.version));
            }
            if !ids.insert(record.id.to_string()) {
                return Some(format!("{} is stored twice", record.id));
            }
        }
        let mut epochs = self.stored.iter().map(|record| record.epoch);
        if !epochs.by_ref().is_sorted() {
            return Some("an epoch falls".to_owned());
        }
        let twice = |request: &&Arc<TurnInput>| self.inputs(&request.turn) > 1 || self.outcomes(&request.turn) > 1;
        requests.iter().find(twice).map(|request| format!("{} is there twice", request.turn))
    }
}
