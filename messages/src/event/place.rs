//! Where an event belongs, and how large it is.

use super::{AgentEvent, Delta};
use crate::chat::{ContentPart, FinishReason};
use crate::ids::CallId;

impl AgentEvent {
    /// The step it belongs to, where there is one.
    pub fn step(&self) -> Option<u32> {
        match self {
            Self::PromptBuilt { step, .. }
            | Self::HistoryCondensed { step, .. }
            | Self::LlmRequested { step, .. }
            | Self::LlmStreamChunk { step, .. }
            | Self::LlmCompleted { step, .. }
            | Self::LlmFailed { step, .. }
            | Self::LlmRetried { step, .. }
            | Self::ActionParsed { step, .. }
            | Self::ActionMalformed { step, .. }
            | Self::MessageAssistant { step, .. }
            | Self::ToolCalled { step, .. }
            | Self::ToolCompleted { step, .. } => Some(*step),
            Self::TurnStarted { .. }
            | Self::MessageUser { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalDecided { .. }
            | Self::GuardTripped { .. }
            | Self::TurnFinished { .. }
            | Self::McpProcessStarted { .. }
            | Self::McpProcessStopped { .. }
            | Self::ActorRestarted { .. }
            | Self::SkillsSelected { .. } => None,
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

    /// The bytes of the texts it carries, for whoever bounds what waits; cheap to ask and not exact. What every event
    /// has, and what is shared with the history anyway, is left out.
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
            Self::LlmStreamChunk { delta: Delta::Reset, .. }
            | Self::TurnStarted { .. }
            | Self::PromptBuilt { .. }
            | Self::LlmRequested { .. }
            | Self::LlmCompleted { .. }
            | Self::LlmFailed { .. }
            | Self::LlmRetried { .. }
            | Self::ActionParsed { .. }
            | Self::ActionMalformed { .. }
            | Self::ApprovalDecided { .. }
            | Self::GuardTripped { .. }
            | Self::McpProcessStarted { .. }
            | Self::McpProcessStopped { .. }
            | Self::HistoryCondensed { .. }
            | Self::SkillsSelected { .. }
            | Self::ActorRestarted { .. } => 0,
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
