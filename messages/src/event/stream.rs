//! The stream of one turn: the events that concern the answer. the answer.

use super::{AgentEvent, CallState, Delta, Envelope, Progress};
use crate::chat::{ContentPart, ToolCall, ToolResult};
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, SessionId, TurnId};
use crate::options::ParentTurn;
use crate::outcome::TurnOutcome;
use crate::store::Reasoning;
use crate::tools::{Location, Risk, ToolKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An item of a turn's stream. [`StreamItem`] adds session and turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentStreamEvent {
    /// A message of the user: the turn's input, or a steering message.
    UserMessage {
        /// Which message: unique in the session.
        message_id: String,
        /// The content.
        parts: Vec<ContentPart>,
        /// Whether it is a steering message.
        steered: bool,
    },
    /// Text and reasoning of one reply, complete. Replaces earlier deltas.
    AssistantMessage {
        /// Which message; that of its pieces.
        message_id: String,
        /// The text: the answer, or text beside calls.
        text: String,
        /// Its thoughts, cut to a bound.
        reasoning: Option<Reasoning>,
    },
    /// A text delta of the answer.
    TextDelta {
        /// Of which message.
        message_id: String,
        /// The text.
        text: String,
    },
    /// Discards the text of this message so far.
    TextReset {
        /// Of which message.
        message_id: String,
    },
    /// Thoughts of the model.
    ReasoningDelta {
        /// Of which message.
        message_id: String,
        /// The thoughts.
        text: String,
    },
    /// A tool call changed its state. The last one, `finished`, has its output.
    #[doc(alias("ToolCallStarted", "ToolCallCompleted"))]
    ToolCall {
        /// The call: id, name, arguments. Without arguments when the stream has not seen the call before its result.
        call: Arc<ToolCall>,
        /// How far it is.
        state: CallState,
        /// The tool's title.
        title: String,
        /// The tool's kind.
        kind: ToolKind,
        /// Its progress, if reported.
        progress: Option<Progress>,
        /// Files that the tool accessed, when it has finished.
        locations: Vec<Location>,
        /// The complete output with its status, when it has finished.
        output: Option<Arc<ToolResult>>,
    },
    /// A call needs approval.
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: Arc<ToolCall>,
        /// How risky it is.
        risk: Risk,
        /// Why approval is needed.
        #[serde(default)]
        reason: String,
        /// The possible decisions.
        choices: Vec<String>,
        /// How the tool's definition differs from the one that was decided about before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<String>,
    },
    /// The turn ended; comes last and once.
    Finished {
        /// How, with usage and everything else.
        outcome: Box<TurnOutcome>,
    },
    /// An error during the turn; `Finished` has the outcome.
    Error {
        /// The error.
        error: AgentError,
    },
}

/// One item of a stream: the event and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StreamItem {
    /// Whose turn.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// Which step, where there is one.
    pub step: Option<u32>,
    /// Which message, where there is one.
    pub message_id: Option<String>,
    /// Which call, where there is one.
    pub call_id: Option<CallId>,
    /// The call of another session that this one works for, if it is a child.
    pub parent: Option<ParentTurn>,
    /// The item.
    pub event: AgentStreamEvent,
}

/// Converts a session's events to stream items. Remembers the calls of the running turn, so that a result can be
/// shown as the end of its call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamView {
    parent: Option<ParentTurn>,
    calls: BTreeMap<CallId, Known>,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    call: Arc<ToolCall>,
    title: String,
    kind: ToolKind,
}

impl StreamView {
    /// Converts the session's next event; `None` for events that only concern telemetry.
    pub fn item(&mut self, envelope: &Envelope) -> Option<StreamItem> {
        let event = self.event(&envelope.event)?;
        let message_id = match &envelope.event {
            AgentEvent::LlmStreamChunk { message_id, .. }
            | AgentEvent::MessageUser { message_id, .. }
            | AgentEvent::MessageAssistant { message_id, .. } => Some(message_id.clone()),
            _other_events_are_of_no_message => None,
        };
        Some(StreamItem {
            session_id: envelope.session_id.clone()?,
            turn_id: envelope.turn_id.clone()?,
            step: envelope.step,
            message_id,
            call_id: envelope.event.call().cloned(),
            parent: self.parent.clone(),
            event,
        })
    }

    fn event(&mut self, event: &AgentEvent) -> Option<AgentStreamEvent> {
        Some(match event {
            AgentEvent::TurnStarted { parent, .. } => {
                self.parent.clone_from(parent);
                self.calls.clear();
                return None;
            }
            AgentEvent::LlmStreamChunk { message_id, delta, .. } => {
                let message_id = message_id.clone();
                match delta {
                    Delta::Text(text) => AgentStreamEvent::TextDelta { message_id, text: text.clone() },
                    Delta::Reasoning(text) => AgentStreamEvent::ReasoningDelta { message_id, text: text.clone() },
                    Delta::Reset => AgentStreamEvent::TextReset { message_id },
                }
            }
            AgentEvent::MessageUser { message_id, parts, steered } => AgentStreamEvent::UserMessage {
                message_id: message_id.clone(),
                parts: parts.clone(),
                steered: *steered,
            },
            AgentEvent::MessageAssistant { message_id, text, reasoning, .. } => AgentStreamEvent::AssistantMessage {
                message_id: message_id.clone(),
                text: text.clone(),
                reasoning: reasoning.clone(),
            },
            AgentEvent::ToolCalled { call, title, kind, state, progress, .. } => {
                // Progress events lack the tool's title.
                let before = self.calls.get(&call.id).filter(|_| *state == CallState::Progress).cloned();
                let new = || Known { call: Arc::clone(call), title: title.clone(), kind: *kind };
                let known = before.unwrap_or_else(new);
                self.calls.insert(call.id.clone(), known.clone());
                shown(known, *state, progress.clone(), None)
            }
            AgentEvent::ToolCompleted { result, .. } => {
                let known = self.calls.remove(&result.call).unwrap_or_else(|| unknown(result));
                shown(known, CallState::Finished, None, Some(result))
            }
            AgentEvent::ApprovalRequested { approval_id, call, risk, reason, choices, changes } => {
                AgentStreamEvent::ApprovalRequested {
                    approval_id: approval_id.clone(),
                    call: Arc::clone(call),
                    risk: *risk,
                    reason: reason.clone(),
                    choices: choices.clone(),
                    changes: changes.clone(),
                }
            }
            AgentEvent::TurnFinished { outcome } => AgentStreamEvent::Finished { outcome: outcome.clone() },
            AgentEvent::LlmFailed { error, .. } => AgentStreamEvent::Error { error: error.clone() },
            _only_telemetry_wants_the_others => return None,
        })
    }
}

fn shown(
    known: Known,
    state: CallState,
    progress: Option<Progress>,
    result: Option<&Arc<ToolResult>>,
) -> AgentStreamEvent {
    let Known { call, title, kind } = known;
    let output = result.map(Arc::clone);
    AgentStreamEvent::ToolCall {
        call,
        state,
        title,
        kind,
        progress,
        locations: result.map_or_else(Vec::new, touched),
        output,
    }
}

/// Where a tool looked, and the files it changed.
fn touched(result: &Arc<ToolResult>) -> Vec<Location> {
    let changed = result.output.changes.iter().map(|change| Location { path: change.path.clone(), line: None });
    let mut all = result.output.locations.clone();
    for place in changed {
        if all.iter().all(|known| known.path != place.path) {
            all.push(place);
        }
    }
    all
}

/// A call the stream began behind.
fn unknown(result: &ToolResult) -> Known {
    let call = ToolCall {
        id: result.call.clone(),
        name: result.name.clone(),
        arguments: Arc::default(),
        argument_bytes: 0,
        signatures: Vec::new(),
    };
    Known { call: Arc::new(call), title: String::new(), kind: ToolKind::default() }
}
