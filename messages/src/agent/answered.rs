//! What a call of a sub-agent comes back with, and which sub-agents end with a turn: the decisions of the drivers about
//! children, which need no answer of an actor.

use super::{NAMESPACE, outcome_of};
use crate::chat::{CallStatus, ToolCall, ToolOutput};
use crate::error::{AgentError, StoreError};
use crate::ids::{SessionId, TurnId};
use crate::options::{OnParentEnd, ParentTurn};
use crate::outcome::{EndReason, TurnOutcome};
use crate::tools::ToolReturn;

/// The name of the agent that a call is of.
pub fn agent_of(call: &ToolCall) -> &str {
    call.name.as_str().strip_prefix(NAMESPACE).unwrap_or_default()
}

fn ended(call: &ToolCall, outcome: &TurnOutcome) -> ToolReturn {
    ToolReturn::of(outcome_of(agent_of(call), outcome))
}

/// Whether a session that has this answer may have begun its turn all the same, or begins it later: its journal could not be
/// read, or not written, or has the input, or the process leaves it to the next one. Then the outcome of its call is unknown.
pub fn may_have_begun(error: &AgentError) -> bool {
    matches!(error, AgentError::Store(StoreError::InDoubt(_)) | AgentError::Kept(_) | AgentError::Stopped(_))
}

/// The result of a call in the background, whose session has this answer. `again`: it may have been asked before; then a
/// refusal that is temporary leaves the outcome unknown, since the session may have begun its turn.
pub fn worked(call: &ToolCall, answer: &Result<Box<TurnOutcome>, AgentError>, again: bool) -> ToolReturn {
    match answer {
        Ok(outcome) => ended(call, outcome),
        Err(error) if again && error.is_retryable() || may_have_begun(error) => {
            ToolReturn::note(CallStatus::Unknown, format!("outcome unknown: {error}"))
        }
        Err(error) => {
            ToolReturn::note(CallStatus::Error, format!("the agent {} was not started: {error}", agent_of(call)))
        }
    }
}

/// The result of a call to whose suspended session a decision was handed down, which has this answer; `asks` is the output
/// while the decision is not taken. `None`: the session does not know the question, so it was closed meanwhile, and its
/// outcome is to be read.
pub fn resumed(call: &ToolCall, answer: &Result<Box<TurnOutcome>, AgentError>, asks: ToolOutput) -> Option<ToolReturn> {
    match answer {
        Ok(outcome) => Some(ended(call, outcome)),
        Err(AgentError::Invalid(_)) => None,
        // It was not taken, and may be: the person is asked again.
        Err(error) if error.is_retryable() => Some(ToolReturn::of(asks)),
        Err(error) => Some(ToolReturn::note(CallStatus::Unknown, format!("outcome unknown: {error}"))),
    }
}

/// The result of a call of which only the journal of its session was read; `outcome` is that of its turn, if it has ended.
pub fn read(call: &ToolCall, outcome: Option<&TurnOutcome>) -> ToolReturn {
    let not_ended = || ToolReturn::note(CallStatus::Unknown, "outcome unknown: the agent has not ended");
    outcome.map_or_else(not_ended, |outcome| ended(call, outcome))
}

/// A turn of a sub-agent that works for a turn of another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTurn {
    /// The session of the sub-agent.
    pub session: SessionId,
    /// The submission of its turn.
    pub turn: TurnId,
    /// The turn that it works for.
    pub of: TurnId,
    /// Whether it continues when that turn ends by itself or by its time, or is suspended.
    pub outlives: bool,
}

impl ChildTurn {
    /// The turn of this submission, which works for this call.
    pub fn of(session: SessionId, turn: TurnId, parent: &ParentTurn) -> Self {
        let outlives = parent.on_parent_end == Some(OnParentEnd::Continue);
        Self { session, turn, of: parent.turn.clone(), outlives }
    }

    /// Whether it is cancelled when the turn it works for is stopped. Whether one that outlives its turn is cancelled follows
    /// from the outcome, which names the turn: a submission may resume one that has another name.
    pub fn ends_with_stop(&self, reason: EndReason) -> bool {
        match reason {
            // What works for it is handed over as well.
            EndReason::HandedOver => false,
            _of_the_turn => !self.outlives,
        }
    }

    /// Whether it is cancelled when a turn of its caller has ended; `cancelled` is that turn if it was cancelled, and no child
    /// outlives that one.
    pub fn ends_with_turn(&self, cancelled: Option<&TurnId>) -> bool {
        !self.outlives || cancelled == Some(&self.of)
    }
}
