//! A tree of machines: a session and those that work for its calls, three levels below it, each with a journal of its own.
//!
//! A seed decides what is delivered next: an answer of the store, a verdict, a result ([`rooms`]), a message to an actor, a
//! report to the supervisor ([`lanes`]). What one sender tells one receiver keeps its order; all else is delivered in any
//! order, so a caller may learn late of the end, the crash or the suspension of its children. Actors die between two messages
//! and in the middle of one, the whole program ends and the next one finishes what it finds or reports it ([`endings`]),
//! answers of the store are lost, turns run out of time, sessions are cancelled at the root and below it, calls of agents are
//! refused for a while, and a person decides, much later and in another process, about a call of a leaf ([`person`]).
//!
//! The machines are the real ones, as are the terms of a call, the session it names, and what its answer means
//! ([`crate::agent`]). The supervisor of the sessions here is a small one by the rules of the real one ([`supervisor`]): one
//! caller for each submission, the children of a turn, and who is cancelled with whom.
//!
//! **Checks**, from the sentences of the design and from the journals alone. While it runs ([`watch`]): a side effect begins
//! once, and only if a person allowed it who was shown the agents that ask; what a call hands down is a share of what is left,
//! and together with what is promised to others no more than there is; agents are not above themselves, and not deeper than
//! each of those above allows; no model is asked and no tool runs below a turn that has ended. In the end ([`sums`], from a [`ledger`] of each journal):
//! nothing is open and no caller waits; a session works for one call and begins one turn; each call has one result; a turn
//! stays within its limits with all that worked for it; each bill is what the journals below it add up to; the result of a
//! task that outlived its turn was read or has begun a turn, once.
//!
//! `BOB_SEED=12 cargo test -p bob-messages tree::` repeats a seed, `BOB_SEEDS=100000` runs more of them.

mod actor;
mod endings;
mod hands_down;
mod lanes;
mod ledger;
mod person;
mod plan;
mod rooms;
mod sums;
mod supervisor;
mod tests;
mod watch;

use crate::agent::ChildTurn;
use crate::error::AgentError;
use crate::ids::{SessionId, Ticket, TurnId};
use crate::outcome::{EndReason, TurnOutcome};
use crate::store::Record;
use crate::turn::tests::simulation::Dice;
use crate::turn::{Turn, TurnMessage};
use crate::turn_config::TurnConfig;
use lanes::Lanes;
use person::Person;
use plan::Plan;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use supervisor::Caller;
use watch::Watch;

/// What is wrong on purpose, in the drivers around the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// A call that is made again after a crash names another session.
    BeginsAnother,
    /// A tool that changes something says that it may be repeated.
    RepeatsEffects,
    /// A child may call whom it likes, and as deep.
    ForgetsLine,
    /// A child has the limits of its caller.
    HandsDownAll,
    /// The usage of a child is not reported.
    ForgetsBill,
    /// The usage of a child is reported twice.
    CountsTwice,
    /// Children of a turn that ends are not cancelled.
    CancelsNotBelow,
    /// The end of a child is told to the actor that asked, although that is gone and another one asks.
    TellsTheDead,
    /// A decision is handed to the child beside the one that asked.
    ConfusesChildren,
    /// A child that is suspended is taken for one that failed.
    ForgetsToken,
    /// The result of a task that outlives its turn is told when nothing of it is kept.
    LosesResult,
    /// The turn that a result begins is begun again.
    BringsTwice,
    /// What is suspended below a call that has ended stays so.
    LeavesSuspended,
}

/// Journals by the rules of a store.
#[derive(Debug, Default)]
struct Journal {
    epoch: u64,
    records: Vec<Arc<Record>>,
}

/// The actor of a session.
#[derive(Debug)]
struct Actor {
    session: SessionId,
    turn: Turn,
    /// The questions whose answers are wanted.
    wanted: BTreeSet<Ticket>,
    /// Why it is being stopped, and which turn ends with that.
    ending: Option<(EndReason, Option<TurnId>)>,
    /// What it has read and written.
    written: Vec<Arc<Record>>,
}

/// A session as its supervisor knows it.
#[derive(Debug)]
struct Entry {
    actor: Option<u64>,
    turn_config: Arc<TurnConfig>,
    pending: VecDeque<Pending>,
    stopping: Option<Leaving>,
    crashes: u32,
    /// Why its turn is to be closed, until it is.
    closing: Option<EndReason>,
    /// The turn of it whose call has ended, until it is closed.
    given_up: Option<TurnId>,
    recovered: Option<TurnId>,
    children: Vec<ChildTurn>,
    is_followed: bool,
}

/// Callers that wait for an outcome.
#[derive(Debug, Clone)]
struct Pending {
    submission: TurnId,
    request: TurnMessage,
    callers: Vec<Caller>,
    is_repeated: bool,
    cancelled: bool,
}

/// An actor that is being stopped.
#[derive(Debug)]
struct Leaving {
    reason: EndReason,
    submission: Option<TurnId>,
    ended: bool,
    reported_all: bool,
}

type Answer = Result<Box<TurnOutcome>, AgentError>;

/// All of it.
struct Tree {
    dice: Dice,
    plan: Plan,
    now: i64,
    journals: BTreeMap<SessionId, Journal>,
    table: BTreeMap<SessionId, Entry>,
    actors: BTreeMap<u64, Actor>,
    born: u64,
    /// The session of each actor, also of those that ended.
    homes: BTreeMap<u64, SessionId>,
    lanes: Lanes,
    person: Person,
    watch: Watch,
    defect: Option<Defect>,
    /// Nothing goes wrong any more.
    is_calm: bool,
    broken: Option<String>,
    /// How often there was what.
    seen: BTreeMap<&'static str, usize>,
    log: Option<Vec<String>>,
}

impl Tree {
    fn new(seed: u64, defect: Option<Defect>, traced: bool) -> Self {
        let plan = Plan::new(seed);
        Self {
            dice: Dice::new(seed, 2),
            person: Person::new(&plan),
            plan,
            now: 0,
            journals: BTreeMap::new(),
            table: BTreeMap::new(),
            actors: BTreeMap::new(),
            born: 0,
            homes: BTreeMap::new(),
            lanes: Lanes::default(),
            watch: Watch::default(),
            defect,
            is_calm: false,
            broken: None,
            seen: BTreeMap::new(),
            log: traced.then(Vec::new),
        }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn must(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.broken.get_or_insert_with(why);
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    /// A fault that a run of this plan has, once in so many times.
    fn fault(&mut self, is_planned: bool, often: usize) -> bool {
        is_planned && !self.is_calm && self.dice.rarely(often)
    }

    /// Whether there is nothing to deliver.
    fn is_quiet(&self) -> bool {
        self.lanes.is_empty()
    }
}
