//! Traps: faults injected into an actor at a chosen point of its execution.
//!
//! Owns the armed traps of one runtime and their counts. The traps are the [`Hook`] that the runtime is built with;
//! when none is armed, passing a point costs one relaxed load.

use bob_actors::watchdog::{ActorPath, Hook, Kill};
use bob_messages::ids::SessionId;
use ractor::ActorProcessingErr;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The traps of one runtime. Clones are the same traps.
#[derive(Debug, Clone, Default)]
pub struct Traps(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How many traps can still trigger.
    armed: AtomicUsize,
    triggered: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// All traps ever armed; an id is an index.
    traps: Vec<Armed>,
    /// Those that can still trigger, by target, so that many cost a point no more than few.
    standing: HashMap<Target, Vec<usize>>,
}

#[derive(Debug)]
struct Armed {
    trap: Trap,
    left: u32,
    triggered: u32,
}

/// One trap: its target, point and fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// The actor.
    pub target: Target,
    /// The point.
    pub edge: Edge,
    /// The fault.
    pub fault: Fault,
    /// How many passages it skips first.
    pub skip: u32,
    /// How often it triggers; 0 means never.
    pub times: u32,
}

/// The target of a trap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Any session's actor, whichever arrives first.
    AnyTurn,
    /// The actor of this session.
    Turn(SessionId),
    /// Another actor by its path in the tree: `root`, `store`, `llm`, `tools` (the supervisor), `tools/local`,
    /// `tools/<server>`, `sessions` (the supervisor), `model server <provider>`.
    Room(String),
}

/// A point in an actor's execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Before the next message of any kind is handled.
    Next,
    /// Before a message of this kind is handled. The kind is the name of the message's variant: for a turn `Start`,
    /// `BuildPrompt`, `LlmInfer`, `ParseAction`, `CallTool`, `Done`, `Loaded`, `Saved`, `Checked`, `ToolReturned` and
    /// so on. Every actor also has `Starting`, `Stopping` and `SupervisionEvent`.
    Before(&'static str),
    /// After a message of this kind was handled and all its effects were performed.
    After(&'static str),
    /// Of a turn: when a message of this kind was applied and this many of its effects
    /// were performed, of those that it has.
    Effect {
        /// The kind of the message.
        of: &'static str,
        /// How many effects were performed.
        performed: usize,
    },
}

/// The fault that a trap injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The handler panics.
    Panic,
    /// The handler fails.
    Fail,
    /// The actor is killed. While it starts, stops or handles a supervision event, this is equivalent to `Fail`.
    Kill,
    /// The handler blocks its thread for this many milliseconds, then continues.
    Block {
        /// How long.
        ms: u64,
    },
}

impl Trap {
    /// A trap that triggers once, at the first passage.
    pub fn new(target: Target, edge: Edge, fault: Fault) -> Self {
        Self { target, edge, fault, skip: 0, times: 1 }
    }

    /// Skips this many passages first.
    #[must_use]
    pub fn after(self, passages: u32) -> Self {
        Self { skip: passages, ..self }
    }

    /// Springs this many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }
}

/// A trap that was armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrapId(usize);

impl Traps {
    /// These traps, as a runtime is built with them.
    pub fn hook(&self) -> Arc<dyn Hook> {
        Arc::new(self.clone())
    }

    /// Arms a trap. If several are armed at a point for one target, the first armed triggers.
    pub fn arm(&self, trap: Trap) -> TrapId {
        let mut table = self.table();
        let number = table.traps.len();
        if trap.times > 0 {
            self.0.armed.fetch_add(1, Ordering::Relaxed);
            table.standing.entry(trap.target.clone()).or_default().push(number);
        }
        table.traps.push(Armed { left: trap.times, triggered: 0, trap });
        TrapId(number)
    }

    /// Disarms a trap; its count remains.
    pub fn disarm(&self, id: TrapId) {
        let mut table = self.table();
        let Some(armed) = table.traps.get_mut(id.0) else { return };
        if std::mem::take(&mut armed.left) > 0 {
            let target = armed.trap.target.clone();
            table.fell(&target, id.0);
            self.0.armed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How often this trap has triggered.
    pub fn triggered(&self, id: TrapId) -> u32 {
        self.table().traps.get(id.0).map_or(0, |armed| armed.triggered)
    }

    /// How often all traps together have triggered.
    pub fn triggered_in_all(&self) -> usize {
        self.0.triggered.load(Ordering::Relaxed)
    }

    /// Returns how many traps can still trigger.
    pub fn armed(&self) -> usize {
        self.0.armed.load(Ordering::Relaxed)
    }

    /// An actor passes an edge. It may panic here, or be held up.
    fn pass(&self, place: &ActorPath, edge: Edge) -> Result<(), ActorProcessingErr> {
        if self.0.armed.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.step_on(place, edge)
    }

    #[cold]
    fn step_on(&self, place: &ActorPath, edge: Edge) -> Result<(), ActorProcessingErr> {
        let Some(fault) = self.spring(place, edge) else { return Ok(()) };
        match fault {
            // Skips the panic hook, which would print a message about an intended panic.
            Fault::Panic => {
                std::panic::resume_unwind(Box::new(format!("a drill: {place} stepped on a trap at {edge:?}")))
            }
            Fault::Fail => Err(format!("a drill: {place} stepped on a trap at {edge:?}").into()),
            Fault::Kill => Err(Box::new(Kill)),
            Fault::Block { ms } => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(())
            }
        }
    }

    /// Returns the fault for this passage. The lock is released on return.
    fn spring(&self, place: &ActorPath, edge: Edge) -> Option<Fault> {
        let mut table = self.table();
        let targets = match place {
            ActorPath::Session(session) => vec![Target::Turn(session.clone()), Target::AnyTurn],
            ActorPath::Room(path) => vec![Target::Room(path.to_string())],
        };
        for target in targets {
            let standing = table.standing.get(&target).cloned().unwrap_or_default();
            for number in standing {
                let Some(armed) = table.traps.get_mut(number).filter(|armed| armed.trap.edge.is(edge)) else {
                    continue;
                };
                if let Some(skip) = armed.trap.skip.checked_sub(1) {
                    armed.trap.skip = skip;
                    continue;
                }
                armed.left -= 1;
                armed.triggered += 1;
                let fault = armed.trap.fault;
                if armed.left == 0 {
                    table.fell(&target, number);
                    self.0.armed.fetch_sub(1, Ordering::Relaxed);
                }
                self.0.triggered.fetch_add(1, Ordering::Relaxed);
                return Some(fault);
            }
        }
        None
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn fell(&mut self, target: &Target, number: usize) {
        if let Some(standing) = self.standing.get_mut(target) {
            standing.retain(|&standing| standing != number);
            if standing.is_empty() {
                self.standing.remove(target);
            }
        }
    }
}

impl Edge {
    fn is(self, passed: Self) -> bool {
        let of_the_mailbox = |kind| !matches!(kind, "Starting" | "Stopping" | "SupervisionEvent");
        match (self, passed) {
            (Self::Next, Self::Before(kind)) => of_the_mailbox(kind),
            (edge, passed) => edge == passed,
        }
    }
}

impl Hook for Traps {
    fn before(&self, place: &ActorPath, kind: &'static str) -> Result<(), ActorProcessingErr> {
        self.pass(place, Edge::Before(kind))
    }

    fn after(&self, place: &ActorPath, kind: &'static str) -> Result<(), ActorProcessingErr> {
        self.pass(place, Edge::After(kind))
    }

    fn effect(&self, place: &ActorPath, of: &'static str, performed: usize) -> Result<(), ActorProcessingErr> {
        self.pass(place, Edge::Effect { of, performed })
    }
}

#[cfg(test)]
#[path = "traps_tests.rs"]
mod tests;
