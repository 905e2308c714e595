//! A submission's way to the sessions supervisor, also over a restart of it.
//!
//! The supervisor knows who is owed an answer, so its end drops every such answer. The
//! turns themselves are in their journals: the same input, or the same reply to a suspended
//! turn, handed in again under its own name, is taken up where it was and never a second time.

use bob_actors::address::{Address, Again, RETURNS_WITHIN};
use bob_messages::brief::{Brief, OnRestart};
use bob_messages::error::AgentError;
use bob_messages::ids::{ResumeToken, SessionId, TurnId};
use bob_messages::input::{ResumeReply, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::outcome::TurnOutcome;
use bob_messages::reply::Reply;
use bob_messages::store::StoreError;
use bob_messages::submission::SessionsMessage;
use std::sync::Arc;

/// How often one is handed in again: once for a supervisor that was not there, and once
/// for one that ended with it. An input that ends every supervisor must not end the runtime.
const AGAIN: Again = Again { times: 2, within: RETURNS_WITHIN };

/// Where an outcome goes.
pub(super) type Owe = Reply<Result<Box<TurnOutcome>, AgentError>>;

/// What is handed in, under a name of its own: said again, it is the same.
#[derive(Clone)]
pub(super) enum Handed {
    /// A message.
    Input(Arc<TurnInput>),
    /// A reply to a suspended turn; boxed, since it is kept until the turn has ended, as an input is.
    Reply(Box<Said>),
}

/// A reply to a suspended turn.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) submission: TurnId,
    pub(super) token: ResumeToken,
    pub(super) said: ResumeReply,
    pub(super) limits: Limits,
}

/// Hands it in. The reply is dropped without an answer when the runtime has ended, or its supervisor ended too often.
pub(super) fn hand_in(
    sessions: &Address<SessionsMessage>,
    session: SessionId,
    handed: Handed,
    brief: Arc<Brief>,
    reply: Owe,
) {
    // A turn goes on when nobody waits for it, and is handed in again then, too.
    let reply = reply.map(|answer| answer);
    sessions.ask(AGAIN, reply, move |reply, asked| {
        let (brief, reply) = match asked {
            0 => (brief, reply),
            // It is the same turn, whatever is to become of those of an earlier process; and it may be in the session,
            // whatever is said of it now.
            _ => (Arc::new(Brief { on_restart: OnRestart::Resume, ..(*brief).clone() }), reply.map(said_before)),
        };
        match handed {
            Handed::Input(input) => SessionsMessage::Submit { session, input, brief, reply },
            Handed::Reply(reply_said) => {
                let Said { submission, token, said, limits } = *reply_said;
                SessionsMessage::Resume { session, submission, token, said, limits, brief, reply }
            }
        }
    });
}

/// What becomes of a submission that a supervisor which has ended may have accepted: sent again as something new after
/// a refusal, it might run twice.
fn said_before(answer: Result<Box<TurnOutcome>, AgentError>) -> Result<Box<TurnOutcome>, AgentError> {
    answer.map_err(|refusal| match refusal.is_retryable() {
        true => AgentError::Store(StoreError::InDoubt(format!(
            "the supervisor of the sessions was restarted while the input was on its way, and then: {refusal}"
        ))),
        false => refusal,
    })
}
