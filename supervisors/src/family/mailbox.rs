//! What is said to a supervisor, and what each of them does with it.

use super::{ChildSpec, Family, Inside};
use crate::look::{NodeState, NodeStatus};
use bob_messages::chat::GuardReason;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Reply;
use futures_util::future::join_all;
use ractor::ActorCell;
use std::time::Duration;

/// How long those below a child are asked about.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// The mailbox of a supervisor whose children are known when it starts.
#[derive(Debug)]
pub enum SupervisorMessage {
    /// Who is alive, down to the last actor? Answered within about a second.
    Tree {
        /// Where the children go, in start order.
        reply: Reply<Vec<NodeState>>,
    },
    /// Start a child again, whatever it does now.
    Restart {
        /// Its name; below a child that is a supervisor, both names with `/` between.
        name: String,
        /// Whether there is such a child.
        reply: Reply<bool>,
    },
    /// Stop the children in reverse order, then end.
    Stop {
        /// How long that may take altogether.
        within: Duration,
    },
    /// Put a child in the place of the one with this name, which ends first; without
    /// a successor that one leaves. One that nobody knows comes last.
    Replace {
        /// The name of the child that leaves.
        name: String,
        /// Who comes.
        by: Option<Box<ChildSpec>>,
    },
    /// The family's own tasks tell.
    News(FamilyNews),
    /// A guard ended a turn of a session below: said to the root, whose log has every one of them.
    Tripped {
        /// Whose turn.
        session: SessionId,
        /// Which turn.
        turn: TurnId,
        /// Which of its bounds.
        guard: GuardReason,
    },
}

bob_actors::kinds!(SupervisorMessage: Tree, Restart, Stop, Replace, News, Tripped);

/// What a family's own tasks tell it.
#[derive(Debug)]
pub enum FamilyNews {
    /// A start came to its end.
    Started {
        /// Which child, by its key.
        child: u64,
        /// The child, or why there is none.
        outcome: Result<ActorCell, String>,
    },
    /// A restart of a child that leaves was abandoned.
    Abandoned {
        /// Which child, by its key.
        child: u64,
        /// The actor, if it was started all the same.
        actor: Option<ActorCell>,
    },
}

/// What a supervisor does after its family has dealt with something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an escalation that is ignored leaves a critical child down"]
pub enum Next {
    /// Nothing.
    GoOn,
    /// It stops, and its children within this time.
    Stop {
        /// How long that may take.
        within: Duration,
    },
    /// A critical child died too often: the supervisor stops too.
    Escalate {
        /// Which, and of what.
        reason: String,
    },
}

impl Family {
    /// Deals with a message. Never waits.
    pub fn attend(&mut self, message: SupervisorMessage) -> Next {
        match message {
            SupervisorMessage::Tree { reply } => {
                self.look(reply);
                Next::GoOn
            }
            SupervisorMessage::Restart { name, reply } => {
                self.restart_named(&name, reply);
                Next::GoOn
            }
            SupervisorMessage::Stop { within } => Next::Stop { within },
            SupervisorMessage::Replace { name, by } => {
                self.replace(&name, by.map(|spec| *spec));
                Next::GoOn
            }
            SupervisorMessage::News(FamilyNews::Started { child, outcome }) => self.started(child, outcome),
            SupervisorMessage::News(FamilyNews::Abandoned { child, actor }) => self.abandoned(child, actor),
            SupervisorMessage::Tripped { session, turn, guard } => {
                tracing::warn!(target: "bob::guard", %session, %turn, ?guard, "a guard ended the turn");
                Next::GoOn
            }
        }
    }

    fn restart_named(&mut self, name: &str, reply: Reply<bool>) {
        let Some((name, below)) = name.split_once('/') else { return reply.send(self.restart(name)) };
        let child = self.children.iter().find(|child| child.spec.name == name);
        match child.and_then(|child| child.spec.inside.as_ref()) {
            Some(Inside::Family(address)) => {
                // When nobody is there, the dropped reply says so.
                let _gone = address.send(SupervisorMessage::Restart { name: below.to_owned(), reply });
            }
            Some(Inside::Ask(_)) | None => reply.send(false),
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

async fn ask(inside: Inside) -> Option<Vec<NodeState>> {
    match inside {
        Inside::Family(address) => {
            let (reply, answer) = Reply::channel();
            address.send(SupervisorMessage::Tree { reply }).ok()?;
            answer.await
        }
        Inside::Ask(ask) => Some(ask().await),
    }
}
