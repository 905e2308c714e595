//! The children of one supervisor, one for one, as data.
//!
//! A [`ChildSet`] owns its children's starts, deaths, restarts and stops. The supervisor that holds it passes on
//! every supervision event and every [`SupervisorMessage`], and does what the returned [`Next`] says. Children fail
//! and restart independently of each other. No handler waits here: a restart is a task that waits for its delay,
//! starts the child and reports to the supervisor.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec` | [`ChildSpec`]: a child as data |
//! | `mailbox` | [`SupervisorMessage`] and its handler |
//! | `start` | one start, bounded in time; restarts as tasks |
//! | `stop` | stopping all children, in reverse order and in time |
//! | `change` | adding, removing and replacing children while the others run |

mod change;
mod mailbox;
mod spec;
mod start;
mod stop;

#[cfg(test)]
#[path = "children_tests.rs"]
mod tests;

pub use mailbox::{Next, StartNews, SupervisorMessage};
pub use spec::{ChildEvent, ChildPlacement, ChildSpec, ChildStart, Subtree};
pub use start::StartError;

use crate::look::{NodeState, NodeStatus};
use crate::restart::{Died, RestartLog, Verdict};
use ractor::{ActorCell, ActorId, ActorRef, SupervisionEvent};
use start::Restart;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::time::Instant;

/// The children of one supervisor.
#[derive(Debug)]
pub struct ChildSet {
    me: ActorRef<SupervisorMessage>,
    created: Instant,
    children: Vec<Child>,
    next_key: u64,
    /// Ends of actors that no child claims yet: a child may die before its start is reported.
    unclaimed: HashMap<ActorId, Death>,
}

#[derive(Debug)]
struct Child {
    /// Distinguishes it from every other child this set ever had.
    key: u64,
    spec: ChildSpec,
    log: RestartLog,
    phase: Phase,
    since: Instant,
    restarts: u32,
    last_error: Option<String>,
    /// The reason of its last death, until the restart was reported.
    died_of: Option<String>,
}

#[derive(Debug)]
enum Phase {
    /// A task waits for the delay, or starts the child.
    Restarting(Restart),
    Running {
        actor: ActorCell,
        /// It was asked to stop in order to be started again.
        restart_requested: bool,
    },
    /// It is to be removed, once its last actor has ended.
    Removing {
        /// The actor that has to end first; `None` while a restart is being abandoned.
        actor: Option<ActorCell>,
        /// The child that takes its place.
        successor: Option<Box<ChildSpec>>,
    },
    GaveUp,
    Stopped,
}

#[derive(Debug)]
struct Death {
    died: Died,
    why: String,
}

impl ChildSet {
    /// Children in start order; none started.
    pub fn new(me: ActorRef<SupervisorMessage>, specs: Vec<ChildSpec>) -> Self {
        let mut children =
            Self { me, created: Instant::now(), children: Vec::new(), next_key: 0, unclaimed: HashMap::new() };
        for spec in specs {
            let child = children.child(spec);
            children.children.push(child);
        }
        children
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

    /// Handles a supervision event. Ends of actors that are no longer children are ignored.
    pub fn handle_event(&mut self, event: SupervisionEvent) -> Next {
        let (actor, death) = match event {
            SupervisionEvent::ActorTerminated(actor, state, reason) => {
                // Dropping the dead child's state may panic; that must not end the supervisor.
                let _its_own_fault = catch_unwind(AssertUnwindSafe(|| drop(state)));
                let why = reason.unwrap_or_else(|| "stopped".to_owned());
                // ractor's reasons for a killed actor and for an aborted task.
                let normally = !matches!(why.as_str(), "killed" | "actor_task_cancelled");
                (actor, Death { died: Died { normally }, why })
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                (actor, Death { died: Died { normally: false }, why: error.to_string() })
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Next::Continue,
        };
        self.ended(actor.get_id(), death)
    }

    /// Restarts the named child in whatever state it is, with an empty log: a running one is stopped first, a delay
    /// is cut short. Returns whether there is such a child.
    pub fn restart(&mut self, name: &str) -> bool {
        let Some(index) = self.children.iter().position(|child| child.spec.name == name) else { return false };
        let child = &mut self.children[index];
        child.log = RestartLog::default();
        match &mut child.phase {
            Phase::Restarting(restart) => restart.hurry(),
            Phase::Running { actor, restart_requested } => {
                *restart_requested = true;
                end(actor.clone(), "it was restarted manually", child.spec.shutdown_ms);
            }
            // The successor starts with an empty log anyway.
            Phase::Removing { successor, .. } => return successor.is_some(),
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
            Phase::Running { actor: it, .. } | Phase::Removing { actor: Some(it), .. } => it.get_id() == actor,
            Phase::Restarting(_) | Phase::Removing { actor: None, .. } | Phase::GaveUp | Phase::Stopped => false,
        };
        if let Some(index) = self.children.iter().position(is_it) {
            return self.died(index, death);
        }
        if self.is_starting() {
            self.unclaimed.insert(actor, death);
        }
        Next::Continue
    }

    /// Whether an actor may exist that no child claims yet.
    fn is_starting(&self) -> bool {
        let may_exist =
            |child: &Child| matches!(child.phase, Phase::Restarting(_) | Phase::Removing { actor: None, .. });
        self.children.iter().any(may_exist)
    }

    /// Handles a death or a failed start.
    fn died(&mut self, index: usize, death: Death) -> Next {
        let now_ms = self.now_ms();
        let child = &mut self.children[index];
        if matches!(child.phase, Phase::Removing { .. }) {
            self.left(index);
            return Next::Continue;
        }
        (child.spec.on_down)();
        let Death { died, why } = death;
        let verdict = match &child.phase {
            Phase::Running { restart_requested: true, .. } => Verdict::RestartAfter { delay_ms: 0 },
            Phase::Running { .. } | Phase::Restarting(_) | Phase::Removing { .. } | Phase::GaveUp | Phase::Stopped => {
                child.log.rule(now_ms, died, &child.spec.rule, fastrand::f64())
            }
        };
        child.last_error = Some(why.clone());
        let name = child.spec.name.as_str();
        match verdict {
            Verdict::RestartAfter { delay_ms } => {
                child.restarts = child.restarts.saturating_add(1);
                (child.spec.on_event)(ChildEvent::Restarting { why: &why });
                if !child.spec.logs_itself {
                    let restarts = child.restarts;
                    tracing::warn!(child = name, why, delay_ms, restarts, "a child ended and is restarted");
                }
                child.died_of = Some(why);
                self.restart_after(index, delay_ms);
                Next::Continue
            }
            Verdict::LeaveEnded => {
                tracing::debug!(child = name, why, "a child ended");
                (child.spec.on_event)(ChildEvent::Stopped);
                child.enter(Phase::Stopped);
                Next::Continue
            }
            Verdict::GiveUp => {
                let most = child.spec.rule.intensity;
                (child.spec.on_event)(ChildEvent::GaveUp { why: &why });
                if !child.spec.logs_itself {
                    let restarts = child.restarts;
                    tracing::error!(child = name, why, restarts, "a child died too often and is left down");
                }
                let reason = format!(
                    "{name} died more than {} times within {} s, the last time of: {why}",
                    most.max_restarts,
                    most.within_ms / 1_000
                );
                child.enter(Phase::GaveUp);
                if child.spec.critical { Next::Escalate { reason } } else { Next::Continue }
            }
        }
    }

    /// Snapshots of the direct children, without those below them.
    fn states(&self) -> Vec<NodeState> {
        self.children.iter().map(Child::state).collect()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
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
                Phase::Restarting(_) | Phase::Removing { successor: Some(_), .. } => NodeStatus::Restarting,
                Phase::Running { .. } => NodeStatus::Running,
                Phase::GaveUp => NodeStatus::GaveUp,
                Phase::Removing { successor: None, .. } | Phase::Stopped => NodeStatus::Stopped,
            },
            age_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            restarts: self.restarts,
            last_error: self.last_error.clone(),
            queued: self.spec.queued.as_ref().map(|queued| queued()),
            children: Vec::new(),
        }
    }
}

/// Stops an actor, and kills it if that takes longer than its deadline.
fn end(actor: ActorCell, reason: &str, within_ms: u64) {
    actor.stop(Some(reason.to_owned()));
    tokio::spawn(async move {
        if actor.wait(Some(Duration::from_millis(within_ms))).await.is_err() {
            actor.kill();
        }
    });
}
