//! Several processes and one session, in one database: a process stands still at any message, another one takes the session,
//! and the first one goes on as if nothing had happened. Clocks jump, and the database goes away and comes back.
//!
//! Each process has its own machine and its own clock ([`process`]); what they share is a store by the rules of one, and
//! its clock, which says whose lease is over ([`database`]). What happens next is said by a list ([`tests`]) or by a seed
//! ([`chance`]).
//!
//! **Checks**, whoever stands still for how long: versions have no gaps; a record is stored under the newest epoch only, and
//! no epoch is given twice; each request has one input and one outcome; a side effect begins behind its durable intent, at
//! most once over all processes, and not past the lease of its process; who was told that a turn is saved finds it in
//! the journal; a process that was told that another one has the session asks no model and no tool. Where the clocks run
//! alike, no side effect begins in a process whose session another one has. In the end each request is answered.
//!
//! Six planted defects show that the checks find what they are for.

mod chance;
mod database;
mod process;
mod tests;

use super::world::{World, input};
use crate::input::{ApprovalsMode, TurnInput};
use crate::limits::Limits;
use crate::turn_config::{OnRestart, TurnConfig};
use database::Database;
use process::Process;
use std::sync::Arc;

/// For how long a session is its owner's own, in ticks of a clock; renewed after a third of it.
const LEASE: i64 = 30;

/// What is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// The condition of an append has no epoch.
    EpochIgnored,
    /// A claim gives the epoch of the owner before.
    EpochNotRaised,
    /// A side effect starts without a look at the lease.
    LeaseNotAsked,
    /// The lease is measured from when its renewal was answered.
    LeaseFromAnswer,
    /// An append whose answer was lost is taken for done.
    DoubtIsDone,
    /// An append that did not reach the database, which was away, is taken for done.
    AwayIsDone,
}

/// The processes, and what they share.
#[derive(Debug, Clone)]
struct Owners {
    database: Database,
    processes: Vec<Process>,
    requests: Vec<Arc<TurnInput>>,
    defect: Option<Defect>,
    /// Whether all clocks have run alike so far.
    alike: bool,
    broken: Option<String>,
}

impl Owners {
    fn new(processes: usize, requests: u32, defect: Option<Defect>) -> Self {
        let config = TurnConfig { on_restart: OnRestart::Resume, ..TurnConfig::new(super::world::model()) };
        let request = |number: u32| {
            let bare = input(number, &format!("message {number}"), Limits::default());
            Arc::new(TurnInput { approvals: ApprovalsMode::Wait, ..bare })
        };
        Self {
            database: Database::new(processes),
            processes: (0..processes).map(|_| Process::new(World::new(config.clone()))).collect(),
            requests: (1..=requests).map(request).collect(),
            defect,
            alike: true,
            broken: None,
        }
    }

    fn must(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.broken.get_or_insert_with(why);
        }
    }

    /// Time passes, everywhere alike.
    fn tick(&mut self, ticks: i64) {
        self.database.now += ticks;
        self.processes.iter_mut().for_each(|process| process.clock += ticks);
    }

    /// Whether all requests are answered and no process has anything to do.
    fn is_done(&self) -> bool {
        self.database.is_done(&self.requests) && self.processes.iter().all(|process| !process.is_busy())
    }

    /// No process stands still, no answer is lost, no clock jumps and the database is there: what is open ends, and everything is asked again.
    fn calm(&mut self) {
        self.database.is_away = false;
        for _ in 0..4_000 {
            if self.broken.is_some() || self.is_done() {
                break;
            }
            for at in 0..self.processes.len() {
                self.go_on(at);
            }
            self.tick(1);
        }
        let (done, left) = (self.is_done(), self.database.stored.last().cloned());
        self.must(done, || format!("something is open for ever behind {left:?}"));
        let wrong = self.database.wrong(&self.requests);
        self.must(wrong.is_none(), || wrong.unwrap_or_default());
    }

    /// One thing that this process has to do.
    fn go_on(&mut self, at: usize) {
        self.renew(at);
        if self.processes[at].is_busy() {
            self.arrive(at, false);
            self.step(at, 0);
        } else {
            self.claim(at);
        }
    }
}
