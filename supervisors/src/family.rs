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

mod mailbox;
mod spec;
mod start;
mod stop;

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;

pub use mailbox::{FamilyNews, Next, SupervisorMessage};
pub use spec::{ChildSpec, ChildStart, Fate, Inside};
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
    /// Ends of actors nobody here knows yet: a child may die before its start is told.
    early: HashMap<ActorId, Death>,
}

#[derive(Debug)]
struct Child {
    spec: ChildSpec,
    log: RestartLog,
    phase: Phase,
    since: Instant,
    restarts: u32,
    last_error: Option<String>,
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
        let now = Instant::now();
        let child = |spec| Child {
            spec,
            log: RestartLog::default(),
            phase: Phase::Stopped,
            since: now,
            restarts: 0,
            last_error: None,
        };
        Self { me, born: now, children: specs.into_iter().map(child).collect(), early: HashMap::new() }
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
                let (actor, patience) = (actor.clone(), Duration::from_millis(child.spec.shutdown_ms));
                actor.stop(Some("restart".to_owned()));
                tokio::spawn(async move {
                    if actor.wait(Some(patience)).await.is_err() {
                        actor.kill();
                    }
                });
            }
            Phase::GaveUp | Phase::Stopped => self.restart_after(index, 0),
        }
        true
    }

    fn ended(&mut self, actor: ActorId, death: Death) -> Next {
        let is_it = |child: &Child| matches!(&child.phase, Phase::Running { actor: it, .. } if it.get_id() == actor);
        if let Some(index) = self.children.iter().position(is_it) {
            return self.died(index, death);
        }
        if self.children.iter().any(|child| matches!(child.phase, Phase::Restarting(_))) {
            self.early.insert(actor, death);
        }
        Next::GoOn
    }

    /// Every way to be down meets here: a death and a failed start.
    fn died(&mut self, index: usize, death: Death) -> Next {
        let now_ms = self.now_ms();
        let child = &mut self.children[index];
        (child.spec.on_down)();
        let Death { died, why } = death;
        let verdict = match &child.phase {
            Phase::Running { asked: true, .. } => Verdict::RestartAfter { delay_ms: 0 },
            Phase::Running { .. } | Phase::Restarting(_) | Phase::GaveUp | Phase::Stopped => {
                child.log.rule(now_ms, died, &child.spec.rule, fastrand::f64())
            }
        };
        child.last_error = Some(why.clone());
        let name = child.spec.name.as_str();
        match verdict {
            Verdict::RestartAfter { delay_ms } => {
                child.restarts = child.restarts.saturating_add(1);
                (child.spec.on_fate)(Fate::Restarting { why: &why });
                tracing::warn!(
                    child = name,
                    why,
                    delay_ms,
                    restarts = child.restarts,
                    "a child ended and is restarted"
                );
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
                tracing::error!(
                    child = name,
                    why,
                    restarts = child.restarts,
                    "a child died too often and is left down"
                );
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
                Phase::Restarting(_) => NodeStatus::Restarting,
                Phase::Running { .. } => NodeStatus::Running,
                Phase::GaveUp => NodeStatus::GaveUp,
                Phase::Stopped => NodeStatus::Stopped,
            },
            age_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            restarts: self.restarts,
            last_error: self.last_error.clone(),
            queued: self.spec.queued.as_ref().map(|queued| queued()),
            children: Vec::new(),
        }
    }
}
