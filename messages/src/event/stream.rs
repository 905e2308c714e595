//! What a reader of one turn's stream gets: the part of the events that concerns
//! the answer.

use super::{AgentEvent, CallState, Delta};
use crate::chat::{ToolCall, ToolResult};
use crate::error::AgentError;
use crate::ids::{ApprovalId, SessionId, TurnId};
use crate::sessions::TurnOutcome;
use crate::tools::{Risk, ToolKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a reader of one turn's stream gets. Every item names its session and turn
/// in [`StreamItem`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentStreamEvent {
    /// Words of the answer.
    TextDelta {
        /// Of which message.
        message_id: String,
        /// The words.
        text: String,
    },
    /// The words of this message so far are void.
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
    /// A tool call changed its state.
    ToolCall {
        /// The call: id, name, arguments.
        call: Arc<ToolCall>,
        /// How far it is.
        state: CallState,
        /// What people call the tool.
        title: String,
        /// What the tool does.
        kind: ToolKind,
    },
    /// A tool call has its result: status, locations, output.
    ToolResult {
        /// The result, whole.
        result: Arc<ToolResult>,
    },
    /// A person is asked.
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: Arc<ToolCall>,
        /// How risky it is.
        risk: Risk,
        /// What may be answered.
        choices: Vec<String>,
    },
    /// The turn ended; comes last and once.
    Finished {
        /// How, with usage and everything else.
        outcome: Box<TurnOutcome>,
    },
    /// Something failed on the way; the turn says more in `Finished`.
    Error {
        /// What.
        error: AgentError,
    },
}

/// One item of a stream: the event and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamItem {
    /// Whose turn.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// Which step, where there is one.
    pub step: Option<u32>,
    /// The session this one works for, if any.
    pub parent: Option<SessionId>,
    /// What happened.
    pub event: AgentStreamEvent,
}

impl AgentEvent {
    /// What a reader of the turn's stream gets of it; `None` for what only
    /// telemetry wants.
    pub fn stream_view(&self) -> Option<AgentStreamEvent> {
        Some(match self {
            Self::LlmStreamChunk { message_id, delta, .. } => {
                let message_id = message_id.clone();
                match delta {
                    Delta::Text(text) => AgentStreamEvent::TextDelta { message_id, text: text.clone() },
                    Delta::Reasoning(text) => AgentStreamEvent::ReasoningDelta { message_id, text: text.clone() },
                    Delta::Reset => AgentStreamEvent::TextReset { message_id },
                }
            }
            Self::ToolCalled { call, title, kind, state, .. } => {
                AgentStreamEvent::ToolCall { call: Arc::clone(call), state: *state, title: title.clone(), kind: *kind }
            }
            Self::ToolCompleted { result, .. } => AgentStreamEvent::ToolResult { result: Arc::clone(result) },
            Self::ApprovalRequested { approval_id, call, risk, choices, .. } => AgentStreamEvent::ApprovalRequested {
                approval_id: approval_id.clone(),
                call: Arc::clone(call),
                risk: *risk,
                choices: choices.clone(),
            },
            Self::TurnFinished { outcome } => AgentStreamEvent::Finished { outcome: outcome.clone() },
            Self::LlmFailed { error, .. } => AgentStreamEvent::Error { error: error.clone() },
            Self::TurnStarted { .. }
            | Self::PromptBuilt { .. }
            | Self::LlmRequested { .. }
            | Self::LlmCompleted { .. }
            | Self::LlmRetried { .. }
            | Self::ActionParsed { .. }
            | Self::ActionMalformed { .. }
            | Self::ApprovalDecided { .. }
            | Self::GuardTripped { .. }
            | Self::HistoryCondensed { .. }
            | Self::McpProcessStarted { .. }
            | Self::McpProcessStopped { .. }
            | Self::ActorRestarted { .. }
            | Self::SkillsSelected { .. } => return None,
        })
    }
}
