//! Where an event belongs, and how large it is.

use super::{AgentEvent, Delta};
use crate::chat::{ContentPart, FinishReason};
use crate::ids::CallId;
use serde::{Deserialize, Serialize};

/// An event on its way into its envelope, and the step that it belongs to, where there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEvent {
    /// The step, from 1.
    pub step: Option<u32>,
    /// The event.
    pub event: AgentEvent,
}

impl From<AgentEvent> for StepEvent {
    fn from(event: AgentEvent) -> Self {
        Self { step: None, event }
    }
}

impl AgentEvent {
    /// The event, as one of this step.
    pub fn in_step(self, step: u32) -> StepEvent {
        StepEvent { step: Some(step), event: self }
    }

    /// Whether it is told of a process that serves every session, and not of a turn. A kind that is added has its place
    /// here, and in the list of `bob::testing::events_of_every_kind`.
    pub fn is_of_tree(&self) -> bool {
        match self {
            Self::McpProcessStarted { .. } | Self::McpProcessStopped { .. } => true,
            Self::TurnStarted { .. }
            | Self::MessageUser { .. }
            | Self::MessageAssistant { .. }
            | Self::PromptBuilt { .. }
            | Self::LlmRequested { .. }
            | Self::LlmStreamChunk { .. }
            | Self::LlmCompleted { .. }
            | Self::LlmFailed { .. }
            | Self::LlmRetried { .. }
            | Self::ActionParsed { .. }
            | Self::ActionMalformed { .. }
            | Self::ToolCalled { .. }
            | Self::ToolCompleted { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalDecided { .. }
            | Self::LimitAsked { .. }
            | Self::GuardTripped { .. }
            | Self::HistoryCondensed { .. }
            | Self::SkillsSelected { .. }
            | Self::SkillsReselected { .. }
            | Self::ModelSelected { .. }
            | Self::TurnFinished { .. }
            | Self::ActorRestarted { .. } => false,
        }
    }

    /// The call it belongs to, where there is one.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::ToolCalled { call, .. } | Self::ApprovalRequested { call, .. } => Some(&call.id),
            Self::ToolCompleted { result, .. } => Some(&result.call),
            Self::ApprovalDecided { call_id, .. } => Some(call_id),
            _other_events_have_no_call => None,
        }
    }

    /// Approximate size of its texts in bytes, for limits of queues. Excludes fields of all events, and content
    /// shared with the history.
    pub fn bytes(&self) -> usize {
        match self {
            Self::LlmStreamChunk { delta: Delta::Text(text) | Delta::Reasoning(text), .. } => text.len(),
            Self::MessageUser { parts, .. } => parts.iter().map(ContentPart::bytes).sum(),
            Self::MessageAssistant { text, reasoning, .. } => {
                text.len() + reasoning.as_ref().map_or(0, |reasoning| reasoning.text.len())
            }
            Self::ToolCalled { call, .. } | Self::ApprovalRequested { call, .. } => call.argument_bytes,
            Self::ToolCompleted { result, .. } => result.output.bytes(),
            Self::TurnFinished { outcome } => {
                let calls = outcome.tool_transcript.iter().map(|entry| entry.result.len());
                outcome.content.len() + calls.sum::<usize>()
            }
            _others_carry_no_contents => 0,
        }
    }

    /// Whether it ends a turn's stream.
    pub fn is_terminal(&self) -> Option<FinishReason> {
        match self {
            Self::TurnFinished { outcome } => Some(outcome.finish_reason),
            _every_other_event => None,
        }
    }
}
