//! Traps: a test or a soak hurts an actor of a runtime at a chosen edge.
//!
//! Owns what is armed in one runtime and what was sprung. The traps are the [`Hook`] that the runtime is built with;
//! when nothing is armed a passage is one relaxed load.

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
    /// How many traps may still spring.
    armed: AtomicUsize,
    sprung: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// All there ever were; a trap's number is its place here.
    traps: Vec<Armed>,
    /// Those that may still spring, by whom they are for, so that many cost a passage no more than few.
    standing: HashMap<Victim, Vec<usize>>,
}

#[derive(Debug)]
struct Armed {
    trap: Trap,
    /// How often it may still spring.
    left: u32,
    sprung: u32,
}

/// One trap: whom it is for, where it stands, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// Whom it waits for.
    pub victim: Victim,
    /// Where it stands.
    pub edge: Edge,
    /// What it does.
    pub harm: Harm,
    /// How many passages it lets by first.
    pub lets_by: u32,
    /// How often it springs; 0 springs never.
    pub times: u32,
}

/// Whom a trap waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Victim {
    /// Whichever session's actor comes first.
    AnyTurn,
    /// The actor of this session.
    Turn(SessionId),
    /// Another actor by its path in the tree: `root`, `store`, `llm`, `tools` (the
    /// supervisor), `tools/local`, `tools/<server>`, `sessions` (the supervisor),
    /// `model server <provider>`.
    Room(String),
}

/// Where a trap stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The next message, whatever it is, before it is handled.
    Next,
    /// Before a message of this kind is handled. The kind is the name of the message's
    /// variant: for a turn `Start`, `BuildPrompt`, `LlmInfer`, `ParseAction`, `CallTool`, `Done`,
    /// `Loaded`, `Saved`, `Checked`, `ToolReturned` and so on. Besides, every actor has
    /// `Starting`, `Stopping` and `SupervisionEvent`.
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

/// What a trap does to the actor that steps on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The handler panics.
    Panic,
    /// The handler fails.
    Fail,
    /// The actor is killed where it stands. While it starts or stops, or has to do with
    /// its children, this is the same as `Fail`.
    Kill,
    /// The handler blocks its thread for this long, in milliseconds, then goes on.
    Block {
        /// How long.
        ms: u64,
    },
}

impl Trap {
    /// A trap that springs once, at the first passage.
    pub fn new(victim: Victim, edge: Edge, harm: Harm) -> Self {
        Self { victim, edge, harm, lets_by: 0, times: 1 }
    }

    /// Lets this many passages by before it springs.
    #[must_use]
    pub fn after(self, passages: u32) -> Self {
        Self { lets_by: passages, ..self }
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

    /// Arms a trap. At an edge where several stand for the same victim, the one that was
    /// armed first springs.
    pub fn arm(&self, trap: Trap) -> TrapId {
        let mut table = self.table();
        let number = table.traps.len();
        if trap.times > 0 {
            self.0.armed.fetch_add(1, Ordering::Relaxed);
            table.standing.entry(trap.victim.clone()).or_default().push(number);
        }
        table.traps.push(Armed { left: trap.times, sprung: 0, trap });
        TrapId(number)
    }

    /// Takes a trap away; what it has done stays counted.
    pub fn disarm(&self, id: TrapId) {
        let mut table = self.table();
        let Some(armed) = table.traps.get_mut(id.0) else { return };
        if std::mem::take(&mut armed.left) > 0 {
            let victim = armed.trap.victim.clone();
            table.fell(&victim, id.0);
            self.0.armed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How often this trap has sprung.
    pub fn sprung(&self, id: TrapId) -> u32 {
        self.table().traps.get(id.0).map_or(0, |armed| armed.sprung)
    }

    /// How often all traps together have sprung.
    pub fn sprung_in_all(&self) -> usize {
        self.0.sprung.load(Ordering::Relaxed)
    }

    /// How many traps may still spring.
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
        let Some(harm) = self.spring(place, edge) else { return Ok(()) };
        match harm {
            // Without the hook, which would tell people of what was done on purpose.
            Harm::Panic => {
                std::panic::resume_unwind(Box::new(format!("a drill: {place} stepped on a trap at {edge:?}")))
            }
            Harm::Fail => Err(format!("a drill: {place} stepped on a trap at {edge:?}").into()),
            Harm::Kill => Err(Box::new(Kill)),
            Harm::Block { ms } => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(())
            }
        }
    }

    /// What happens at this passage. The lock is free again by then.
    fn spring(&self, place: &ActorPath, edge: Edge) -> Option<Harm> {
        let mut table = self.table();
        let victims = match place {
            ActorPath::Session(session) => vec![Victim::Turn(session.clone()), Victim::AnyTurn],
            ActorPath::Room(path) => vec![Victim::Room(path.to_string())],
        };
        for victim in victims {
            let standing = table.standing.get(&victim).cloned().unwrap_or_default();
            for number in standing {
                let Some(armed) = table.traps.get_mut(number).filter(|armed| armed.trap.edge.is(edge)) else {
                    continue;
                };
                if let Some(lets_by) = armed.trap.lets_by.checked_sub(1) {
                    armed.trap.lets_by = lets_by;
                    continue;
                }
                armed.left -= 1;
                armed.sprung += 1;
                let harm = armed.trap.harm;
                if armed.left == 0 {
                    table.fell(&victim, number);
                    self.0.armed.fetch_sub(1, Ordering::Relaxed);
                }
                self.0.sprung.fetch_add(1, Ordering::Relaxed);
                return Some(harm);
            }
        }
        None
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// This one springs no more.
    fn fell(&mut self, victim: &Victim, number: usize) {
        if let Some(standing) = self.standing.get_mut(victim) {
            standing.retain(|&standing| standing != number);
            if standing.is_empty() {
                self.standing.remove(victim);
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
