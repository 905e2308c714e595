use super::{ChildSet, ChildSpec, Subtree};
use crate::look::{NodeState, NodeStatus};
use bob_messages::chat::GuardReason;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Reply;
use futures_util::future::join_all;
use ractor::ActorCell;
use std::time::Duration;

/// How long the snapshot of a child's subtree may take.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// The mailbox of a supervisor with a [`ChildSet`].
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum SupervisorMessage {
    /// A snapshot of the tree down to the last actor; answered within about a second.
    Tree {
        /// Receives the children in start order.
        reply: Reply<Vec<NodeState>>,
    },
    /// Restart a child, in whatever state it is.
    Restart {
        /// The child's name; for a child of a child supervisor, both names with `/` between.
        name: String,
        /// Receives whether there is such a child.
        reply: Reply<bool>,
    },
    /// Stop the children in reverse order, then end.
    Stop {
        /// The time limit for all children together.
        within: Duration,
    },
    /// Replace the child with this name once it has ended, or remove it if there is no successor. A successor of an
    /// unknown name is added at the end.
    Replace { name: String, successor: Option<Box<ChildSpec>> },
    /// A report of the child set's own tasks.
    News(StartNews),
    /// A guard ended a turn of a session below: sent to the root, which logs each of them.
    Tripped { session: SessionId, turn: TurnId, guard: GuardReason },
}

bob_actors::kinds!(SupervisorMessage: Tree, Restart, Stop, Replace, News, Tripped);

/// What the tasks of a [`ChildSet`] report.
#[derive(Debug)]
pub enum StartNews {
    /// A start succeeded or failed.
    Started {
        /// The key of the child.
        child: u64,
        /// The child's actor, or why it could not be started.
        outcome: Result<ActorCell, String>,
    },
    /// The restart of a child that is being removed was abandoned.
    Abandoned {
        /// The key of the child.
        child: u64,
        /// The actor, if it was started all the same.
        actor: Option<ActorCell>,
    },
}

/// What a supervisor does after its [`ChildSet`] has handled a message or an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an escalation that is ignored leaves a critical child down"]
pub enum Next {
    /// Nothing.
    Continue,
    /// Stop the children within this time, then itself.
    Stop {
        /// The time limit for all children together.
        within: Duration,
    },
    /// Stop itself, because a critical child died too often.
    Escalate {
        /// Names the child and the reason of its death.
        reason: String,
    },
}

impl ChildSet {
    /// Handles a message without waiting.
    pub fn handle(&mut self, message: SupervisorMessage) -> Next {
        match message {
            SupervisorMessage::Tree { reply } => {
                self.look(reply);
                Next::Continue
            }
            SupervisorMessage::Restart { name, reply } => {
                self.restart_named(&name, reply);
                Next::Continue
            }
            SupervisorMessage::Stop { within } => Next::Stop { within },
            SupervisorMessage::Replace { name, successor } => {
                self.replace(&name, successor.map(|spec| *spec));
                Next::Continue
            }
            SupervisorMessage::News(StartNews::Started { child, outcome }) => self.started(child, outcome),
            SupervisorMessage::News(StartNews::Abandoned { child, actor }) => self.abandoned(child, actor),
            SupervisorMessage::Tripped { session, turn, guard } => {
                tracing::warn!(target: "bob::guard", %session, %turn, ?guard, "a guard ended the turn");
                Next::Continue
            }
        }
    }

    fn restart_named(&mut self, name: &str, reply: Reply<bool>) {
        let Some((name, below)) = name.split_once('/') else { return reply.send(self.restart(name)) };
        let child = self.children.iter().find(|child| child.spec.name == name);
        match child.and_then(|child| child.spec.inside.as_ref()) {
            Some(Subtree::Supervisor(address)) => {
                // Without an actor there, the dropped reply answers `false`.
                let _gone = address.send(SupervisorMessage::Restart { name: below.to_owned(), reply });
            }
            Some(Subtree::Ask(_)) | None => reply.send(false),
        }
    }

    fn look(&self, reply: Reply<Vec<NodeState>>) {
        let mut states = self.states();
        let insides: Vec<_> = self.children.iter().map(|child| child.spec.inside.clone()).collect();
        tokio::spawn(async move {
            join_all(states.iter_mut().zip(insides).map(async |(state, inside)| {
                if let (NodeStatus::Running, Some(inside)) = (state.state, inside) {
                    state.children =
                        tokio::time::timeout(LOOK_LIMIT, ask(inside)).await.ok().flatten().unwrap_or_default();
                }
            }))
            .await;
            reply.send(states);
        });
    }
}

async fn ask(inside: Subtree) -> Option<Vec<NodeState>> {
    match inside {
        Subtree::Supervisor(address) => {
            let (reply, answer) = Reply::channel();
            address.send(SupervisorMessage::Tree { reply }).ok()?;
            answer.await
        }
        Subtree::Ask(ask) => Some(ask().await),
    }
}
