//! Submissions to the sessions supervisor that survive its restart.
//!
//! The supervisor holds the pending replies, so its end drops them. The turns are in their journals: an input, or a
//! reply to a suspended turn, that is submitted again with its id continues where it was and never runs twice.

use bob_actors::address::{Address, Again, RETURNS_WITHIN};
use bob_messages::error::AgentError;
use bob_messages::ids::{ResumeToken, SessionId, TenantId, TurnId};
use bob_messages::input::{ResumeReply, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::outcome::TurnOutcome;
use bob_messages::reply::Reply;
use bob_messages::store::StoreError;
use bob_messages::submission::SessionsMessage;
use bob_messages::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

/// How often one is handed in again: once for a supervisor that was not there, and once
/// for one that ended with it. An input that ends every supervisor must not end the runtime.
const AGAIN: Again = Again { times: 2, within: RETURNS_WITHIN };

pub(super) type Owe = Reply<Result<Box<TurnOutcome>, AgentError>>;

/// A submission with an id; repeating it is idempotent.
#[derive(Clone)]
pub(super) enum Handed {
    /// A message; whether the journal may have it already.
    Input(Arc<TurnInput>, bool),
    /// A reply to a suspended turn; boxed, since it is kept until the turn has ended, as an input is.
    Reply(Box<Said>),
}

impl Handed {
    pub(super) fn submission(&self) -> &TurnId {
        match self {
            Self::Input(input, _) => &input.turn,
            Self::Reply(said) => &said.submission,
        }
    }
}

#[derive(Clone)]
pub(super) struct Said {
    pub(super) submission: TurnId,
    pub(super) token: ResumeToken,
    pub(super) said: ResumeReply,
    pub(super) limits: Limits,
    pub(super) tenant: Option<TenantId>,
}

/// Hands it in. The reply is dropped without an answer when the runtime has ended, or its supervisor ended too often.
pub(super) fn hand_in(
    sessions: &Address<SessionsMessage>,
    session: SessionId,
    handed: Handed,
    turn_config: Arc<TurnConfig>,
    reply: Owe,
) {
    // A turn that nothing awaits continues, and is resubmitted as well.
    let reply = reply.map(|answer| answer);
    sessions.ask(AGAIN, reply, move |reply, asked| {
        let (turn_config, reply) = match asked {
            0 => (turn_config, reply),
            // Resubmissions always resume their own turn, whatever the setting for turns of an earlier process; and
            // the turn may be in the journal even if a retry is refused.
            _ => (
                Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config).clone() }),
                reply.map(said_before),
            ),
        };
        match handed {
            Handed::Input(input, is_repeated) => {
                let is_repeated = is_repeated || asked > 0;
                SessionsMessage::Submit { session, input, turn_config, is_repeated, reply }
            }
            Handed::Reply(reply_said) => {
                let Said { submission, token, said, limits, tenant } = *reply_said;
                let parent = None;
                SessionsMessage::Resume { session, submission, token, said, parent, limits, tenant, turn_config, reply }
            }
        }
    });
}

/// Error of a submission that an ended supervisor may have accepted. Submitting it as a new one after a refusal might
/// run it twice.
fn said_before(answer: Result<Box<TurnOutcome>, AgentError>) -> Result<Box<TurnOutcome>, AgentError> {
    answer.map_err(|refusal| match refusal.is_retryable() {
        true => AgentError::Store(StoreError::InDoubt(format!(
            "the supervisor of the sessions was restarted while the input was on its way, and then: {refusal}"
        ))),
        false => refusal,
    })
}
