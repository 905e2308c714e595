//! Children under one supervisor: one for one, as data.
//!
//! A [`Family`] owns its children's starts, deaths, restarts and stops. The
//! supervisor that has it in its state hands over every supervision event and every
//! [`SupervisorMessage`], and does what the answer ([`Next`]) says. Children fail
//! and come back independently of each other. No handler waits here: a restart is a
//! task that waits for its delay, starts the child and tells the supervisor.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec` | [`ChildSpec`]: a child as data |
//! | `mailbox` | [`SupervisorMessage`] and what every supervisor does with one |
//! | `start` | one start, bounded in time; restarts as tasks |
//! | `stop` | the end of all, in reverse order and in time |
//! | `change` | children that come, go, or give way to another while the rest lives |

mod change;
mod mailbox;
mod spec;
mod start;
mod stop;

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;

pub use mailbox::{FamilyNews, Next, SupervisorMessage};
pub use spec::{Attendance, ChildSpec, ChildStart, Fate, Inside};
pub use start::StartError;

use crate::look::{NodeState, NodeStatus};
use crate::restart::{Died, RestartLog, Verdict};
use ractor::{ActorCell, ActorId, ActorRef, SupervisionEvent};
use start::Restart;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::time::Instant;

/// The children of one supervisor, in start order.
#[derive(Debug)]
pub struct Family {
    me: ActorRef<SupervisorMessage>,
    born: Instant,
    children: Vec<Child>,
    /// The key of the child that comes next.
    next_key: u64,
    /// Ends of actors nobody here knows yet: a child may die before its start is told.
    early: HashMap<ActorId, Death>,
}

#[derive(Debug)]
struct Child {
    /// Tells it from every other child this family ever had.
    key: u64,
    spec: ChildSpec,
    log: RestartLog,
    phase: Phase,
    since: Instant,
    restarts: u32,
    last_error: Option<String>,
    /// What it died of, until it runs again and that was told.
    died_of: Option<String>,
}

#[derive(Debug)]
enum Phase {
    /// A task waits for the delay, or starts it.
    Restarting(Restart),
    Running {
        actor: ActorCell,
        /// It was asked to stop in order to be started again.
        asked: bool,
    },
    /// It is not wanted any more; when its last actor has ended, it is gone.
    Leaving {
        /// Who has to end first; `None` while a restart is being abandoned.
        actor: Option<ActorCell>,
        /// Who comes in its place.
        by: Option<Box<ChildSpec>>,
    },
    GaveUp,
    Stopped,
}

#[derive(Debug)]
struct Death {
    died: Died,
    why: String,
}

impl Family {
    /// A family of which nobody runs yet, under this supervisor.
    pub fn new(me: ActorRef<SupervisorMessage>, specs: Vec<ChildSpec>) -> Self {
        let mut family = Self { me, born: Instant::now(), children: Vec::new(), next_key: 0, early: HashMap::new() };
        for spec in specs {
            let child = family.child(spec);
            family.children.push(child);
        }
        family
    }

    fn child(&mut self, spec: ChildSpec) -> Child {
        self.next_key += 1;
        Child {
            key: self.next_key,
            spec,
            log: RestartLog::default(),
            phase: Phase::Stopped,
            since: Instant::now(),
            restarts: 0,
            last_error: None,
            died_of: None,
        }
    }

    /// What a supervision event means for the family. Ends of actors that are no
    /// longer children are ignored.
    pub fn event(&mut self, event: SupervisionEvent) -> Next {
        let (actor, death) = match event {
            SupervisionEvent::ActorTerminated(actor, state, reason) => {
                // The dead child's state is dropped here, and a panic in that is not ours.
                let _its_own_fault = catch_unwind(AssertUnwindSafe(|| drop(state)));
                let why = reason.unwrap_or_else(|| "stopped".to_owned());
                // These are ractor's words for a killed actor and for an aborted task.
                let normally = !matches!(why.as_str(), "killed" | "actor_task_cancelled");
                (actor, Death { died: Died { normally }, why })
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                (actor, Death { died: Died { normally: false }, why: error.to_string() })
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Next::GoOn,
        };
        self.ended(actor.get_id(), death)
    }

    /// Starts the named child again, whatever it does now, with a clean log: one that
    /// runs is stopped first, one that waits for its delay waits no longer. Says
    /// whether there is such a child.
    pub fn restart(&mut self, name: &str) -> bool {
        let Some(index) = self.children.iter().position(|child| child.spec.name == name) else { return false };
        let child = &mut self.children[index];
        child.log = RestartLog::default();
        match &mut child.phase {
            Phase::Restarting(restart) => restart.hurry(),
            Phase::Running { actor, asked } => {
                *asked = true;
                end(actor.clone(), "it was restarted by hand", child.spec.shutdown_ms);
            }
            // Who comes in its place starts with a clean log anyway.
            Phase::Leaving { by, .. } => return by.is_some(),
            Phase::GaveUp | Phase::Stopped => {
                child.restarts = child.restarts.saturating_add(1);
                child.died_of.clone_from(&child.last_error);
                self.restart_after(index, 0);
            }
        }
        true
    }

    fn ended(&mut self, actor: ActorId, death: Death) -> Next {
        let is_it = |child: &Child| match &child.phase {
            Phase::Running { actor: it, .. } | Phase::Leaving { actor: Some(it), .. } => it.get_id() == actor,
            Phase::Restarting(_) | Phase::Leaving { actor: None, .. } | Phase::GaveUp | Phase::Stopped => false,
        };
        if let Some(index) = self.children.iter().position(is_it) {
            return self.died(index, death);
        }
        if self.is_starting() {
            self.early.insert(actor, death);
        }
        Next::GoOn
    }

    /// Whether an actor may exist that nobody here knows yet.
    fn is_starting(&self) -> bool {
        let may_exist =
            |child: &Child| matches!(child.phase, Phase::Restarting(_) | Phase::Leaving { actor: None, .. });
        self.children.iter().any(may_exist)
    }

    /// Every way to be down meets here: a death and a failed start.
    fn died(&mut self, index: usize, death: Death) -> Next {
        let now_ms = self.now_ms();
        let child = &mut self.children[index];
        if matches!(child.phase, Phase::Leaving { .. }) {
            self.left(index);
            return Next::GoOn;
        }
        (child.spec.on_down)();
        let Death { died, why } = death;
        let verdict = match &child.phase {
            Phase::Running { asked: true, .. } => Verdict::RestartAfter { delay_ms: 0 },
            Phase::Running { .. } | Phase::Restarting(_) | Phase::Leaving { .. } | Phase::GaveUp | Phase::Stopped => {
                child.log.rule(now_ms, died, &child.spec.rule, fastrand::f64())
            }
        };
        child.last_error = Some(why.clone());
        let name = child.spec.name.as_str();
        match verdict {
            Verdict::RestartAfter { delay_ms } => {
                child.restarts = child.restarts.saturating_add(1);
                (child.spec.on_fate)(Fate::Restarting { why: &why });
                if !child.spec.tells {
                    let restarts = child.restarts;
                    tracing::warn!(child = name, why, delay_ms, restarts, "a child ended and is restarted");
                }
                child.died_of = Some(why);
                self.restart_after(index, delay_ms);
                Next::GoOn
            }
            Verdict::LeaveEnded => {
                tracing::debug!(child = name, why, "a child ended");
                (child.spec.on_fate)(Fate::Stopped);
                child.enter(Phase::Stopped);
                Next::GoOn
            }
            Verdict::GiveUp => {
                let most = child.spec.rule.intensity;
                (child.spec.on_fate)(Fate::GaveUp { why: &why });
                if !child.spec.tells {
                    let restarts = child.restarts;
                    tracing::error!(child = name, why, restarts, "a child died too often and is left down");
                }
                let reason = format!(
                    "{name} died more than {} times within {} s, the last time of: {why}",
                    most.max_restarts,
                    most.within_ms / 1_000
                );
                child.enter(Phase::GaveUp);
                if child.spec.critical { Next::Escalate { reason } } else { Next::GoOn }
            }
        }
    }

    /// The family's own children as they can be shown, without those below them.
    fn states(&self) -> Vec<NodeState> {
        self.children.iter().map(Child::state).collect()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Child {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = Instant::now();
    }

    fn state(&self) -> NodeState {
        NodeState {
            name: self.spec.name.clone(),
            state: match self.phase {
                Phase::Restarting(_) | Phase::Leaving { by: Some(_), .. } => NodeStatus::Restarting,
                Phase::Running { .. } => NodeStatus::Running,
                Phase::GaveUp => NodeStatus::GaveUp,
                Phase::Leaving { by: None, .. } | Phase::Stopped => NodeStatus::Stopped,
            },
            age_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            restarts: self.restarts,
            last_error: self.last_error.clone(),
            queued: self.spec.queued.as_ref().map(|queued| queued()),
            children: Vec::new(),
        }
    }
}

/// Has an actor stop, and kills it when that takes longer than its deadline.
fn end(actor: ActorCell, reason: &str, within_ms: u64) {
    actor.stop(Some(reason.to_owned()));
    tokio::spawn(async move {
        if actor.wait(Some(Duration::from_millis(within_ms))).await.is_err() {
            actor.kill();
        }
    });
}
