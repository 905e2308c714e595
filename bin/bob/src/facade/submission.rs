//! A submission's way to the sessions supervisor, also over a restart of it.
//!
//! The supervisor knows who is owed an answer, so its end drops every such answer. The
//! turns themselves are in their journals: the same input, or the same reply to a suspended
//! turn, handed in again under its own name, is taken up where it was and never a second time.

use super::runtime::Inner;
use bob_messages::brief::{Brief, OnRestart};
use bob_messages::error::AgentError;
use bob_messages::ids::{ResumeToken, SessionId, TurnId};
use bob_messages::input::{ResumeReply, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::outcome::TurnOutcome;
use bob_messages::reply::Reply;
use bob_messages::store::StoreError;
use bob_messages::submission::SessionsMessage;
use ractor::ActorRef;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a submission waits for the supervisor to be started again.
const RETURNS_WITHIN: Duration = Duration::from_secs(2);

/// How often one is handed in again: once for a supervisor that was not there, and once
/// for one that ended with it. An input that ends every supervisor must not end the house.
pub(super) const MOST_AGAIN: u32 = 2;

/// Where an outcome goes.
pub(super) type Owe = Reply<Result<Box<TurnOutcome>, AgentError>>;

/// What is handed in, under a name of its own: said again, it is the same.
#[derive(Clone)]
pub(super) enum Handed {
    /// A message.
    Input(Arc<TurnInput>),
    /// A reply to a suspended turn.
    Reply { submission: TurnId, token: ResumeToken, said: ResumeReply, limits: Limits },
}

/// An input or a reply on its way.
pub(super) struct Submission {
    /// Weak: what waits in the tree does not keep the tree alive.
    pub(super) runtime: Weak<Inner>,
    pub(super) session: SessionId,
    pub(super) handed: Handed,
    pub(super) brief: Arc<Brief>,
    /// How often it may still be handed in again.
    pub(super) left: u32,
    /// Whether it was handed in before: then it may be in the session, whatever is said of it now.
    pub(super) is_again: bool,
}

impl Submission {
    /// Hands it in. The reply is dropped without an answer when the runtime has ended, or
    /// its supervisor ended too often.
    pub(super) fn hand_in(self, reply: Owe) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let (session, handed, brief) = (self.session.clone(), self.handed.clone(), Arc::clone(&self.brief));
        let is_again = self.is_again;
        runtime.tree.rooms.sessions.tell_knowing(|told| {
            let reply = Reply::to(move |answer: Option<Result<Box<TurnOutcome>, AgentError>>| match answer {
                Some(answer) => reply.send(if is_again { answer.map_err(said_before) } else { answer }),
                None => self.hand_in_again(reply, told),
            });
            match handed {
                Handed::Input(input) => SessionsMessage::Submit { session, input, brief, reply },
                Handed::Reply { submission, token, said, limits } => {
                    SessionsMessage::Resume { session, submission, token, said, limits, brief, reply }
                }
            }
        });
    }

    fn hand_in_again(self, reply: Owe, told: Option<ActorRef<SessionsMessage>>) {
        let Some(left) = self.left.checked_sub(1) else { return };
        let Some(runtime) = self.runtime.upgrade() else { return };
        // A reply may be dropped while the program ends, outside any runtime of tasks.
        let Ok(tasks) = tokio::runtime::Handle::try_current() else { return };
        let (sessions, mut ended) = (runtime.tree.rooms.sessions.clone(), runtime.tree.ended());
        drop(runtime);
        tasks.spawn(async move {
            tokio::select! {
                biased;
                _ = ended.wait_for(Option::is_some) => {}
                there = sessions.successor(told, RETURNS_WITHIN) => if there.is_some() {
                    // It is the same turn, whatever is to become of those of an earlier process.
                    let brief = Arc::new(Brief { on_restart: OnRestart::Resume, ..(*self.brief).clone() });
                    Self { brief, left, is_again: true, ..self }.hand_in(reply);
                },
            }
        });
    }
}

/// A refusal of what a supervisor that has ended may have accepted: sent again as something new, it might run twice.
fn said_before(refusal: AgentError) -> AgentError {
    match refusal.is_retryable() {
        true => AgentError::Store(StoreError::InDoubt(format!(
            "the supervisor of the sessions was restarted while the input was on its way, and then: {refusal}"
        ))),
        false => refusal,
    }
}
