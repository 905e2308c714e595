//! Message events of a session, created in one way for live turns and from the journal.

use super::{AgentEvent, StepEvent};
use crate::chat::ContentPart;
use crate::ids::{RequestId, TurnId};
use crate::session_state::OpenTurn;
use crate::store::{Answered, Ended, StepCost};

/// The id of a model's answer in its turn: that of its pieces, and of the whole.
pub fn answer_id(turn: &TurnId, step: u32) -> String {
    format!("{turn}-{step}")
}

/// The user's input of this run; `None` if a decision resumed it.
pub(crate) fn began(open: &OpenTurn) -> Option<AgentEvent> {
    let parts = match open.submission == open.input.turn {
        true => open.input.parts.clone(),
        false if open.reply.is_empty() => return None,
        false => vec![ContentPart::text(&open.reply)],
    };
    Some(AgentEvent::MessageUser { message_id: format!("{}-user", open.submission), parts, steered: false })
}

/// A steering message, with its request id; journals of older versions have none.
pub(crate) fn steered(turn: &TurnId, request: Option<&RequestId>, version: u64, parts: &[ContentPart]) -> AgentEvent {
    let message_id = match request {
        Some(request) => format!("{turn}-user-{request}"),
        None => format!("{turn}-user-{version}"),
    };
    AgentEvent::MessageUser { message_id, parts: parts.to_vec(), steered: true }
}

/// The model's reply was received, with its usage.
pub(crate) fn completed(step: u32, cost: &StepCost) -> StepEvent {
    let completed = AgentEvent::LlmCompleted {
        model: cost.model.clone(),
        latency_ms: cost.latency_ms,
        usage: cost.usage,
        stop_reason: cost.stop_reason,
        response_id: cost.response_id.clone(),
        cost: cost.cost,
    };
    completed.in_step(step)
}

pub(crate) fn answered(turn: &TurnId, step: u32, answered: &Answered) -> Option<StepEvent> {
    let Answered { text, reasoning, .. } = answered;
    (!text.is_empty() || reasoning.is_some()).then(|| {
        let (message_id, text, reasoning) = (answer_id(turn, step), text.clone(), reasoning.clone());
        AgentEvent::MessageAssistant { message_id, text, reasoning }.in_step(step)
    })
}

/// What was seen of an answer that the end of the run interrupted, as a message.
pub(crate) fn interrupted(turn: &TurnId, step: u32, ended: &Ended) -> Option<StepEvent> {
    ended.partial.then(|| {
        let (message_id, text) = (answer_id(turn, step), ended.content.clone());
        AgentEvent::MessageAssistant { message_id, text, reasoning: None }.in_step(step)
    })
}
