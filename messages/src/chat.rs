//! The content of a conversation: messages, their parts, calls, results, usage.

mod asking;
mod complaint;
mod content;
mod delegated;
mod encoding;
mod output;
mod server_wait;

pub use asking::Asking;
pub(crate) use complaint::{complain, complaint};
pub use content::ContentPart;
pub use delegated::Delegated;
pub use encoding::TextEncoding;
pub use output::{FileChange, Location, MODEL_RESULT_BYTES, ToolOutput};
pub use server_wait::ServerWait;

use crate::ids::{CallId, ToolName};
use enum_map::Enum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// One message of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A message of the user.
    User {
        /// Its parts, in order.
        parts: Vec<ContentPart>,
    },
    /// A reply of the model.
    Assistant {
        /// Its text; may be empty beside calls.
        text: String,
        /// Its calls, each with exactly one result in the messages that follow.
        calls: Vec<Arc<ToolCall>>,
    },
    /// The result of one call.
    Tool {
        /// The complete result; the model receives a rendering of it.
        result: Arc<ToolResult>,
    },
}

impl Message {
    /// A user message of one text part.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { parts: vec![ContentPart::text(text)] }
    }

    /// The parts of a user's message or of a result; an answer has none.
    pub fn parts(&self) -> &[ContentPart] {
        match self {
            Self::User { parts } => parts,
            Self::Tool { result } => &result.output.parts,
            Self::Assistant { .. } => &[],
        }
    }

    /// An assistant message without calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// Approximate size of the message in a prompt, bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { parts } => parts.iter().map(ContentPart::weight).sum(),
            Self::Assistant { text, calls } => {
                text.len() + calls.iter().map(|call| call.name.as_str().len() + call.argument_bytes).sum::<usize>()
            }
            Self::Tool { result } => result.output.model_bytes(),
        }
    }
}

/// One tool call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the session, independent of the provider's id.
    pub id: CallId,
    /// The tool, as named by the model; it may not exist.
    pub name: ToolName,
    /// A JSON object.
    pub arguments: Arc<Value>,
    /// The arguments' length as JSON, in bytes, for size estimates.
    pub argument_bytes: usize,
    /// Opaque provider data that must be sent back with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool answered.
    Ok,
    /// The tool, or the way to it, failed; the model may react.
    Error,
    /// Denied by policy or a person.
    Denied,
    /// It may or may not have run.
    Unknown,
    /// It was not run, or its answer was no longer wanted.
    Cancelled,
}

/// The one result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: CallId,
    /// The tool that was called.
    pub name: ToolName,
    /// How it ended.
    pub status: CallStatus,
    /// The complete output.
    pub output: ToolOutput,
    /// How long it ran; 0 when it did not.
    pub duration_ms: u64,
}

impl ToolResult {
    /// A result that was made here, not by the tool.
    pub fn note(call: &ToolCall, status: CallStatus, text: impl Into<String>) -> Self {
        Self { call: call.id.clone(), name: call.name.clone(), status, output: ToolOutput::error(text), duration_ms: 0 }
    }
}

/// Tokens, summed over the steps of a turn.
#[doc(alias = "TokenUsage")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompts.
    #[doc(alias = "prompt_tokens")]
    pub input_tokens: u64,
    /// Tokens of the answers.
    #[doc(alias = "completion_tokens")]
    pub output_tokens: u64,
    /// The sum, or the provider's own total.
    pub total_tokens: u64,
    /// Of the input, read from the provider's cache; null when not reported.
    pub cached_input_tokens: Option<u64>,
    /// Of the input, written to the provider's cache; null when not reported.
    pub cache_write_tokens: Option<u64>,
    /// Of the output, spent on reasoning; null when not reported.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Adds another step's usage; a value reported once stays reported.
    pub fn add(&mut self, other: &Self) {
        fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            }
        }
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cached_input_tokens = sum(self.cached_input_tokens, other.cached_input_tokens);
        self.cache_write_tokens = sum(self.cache_write_tokens, other.cache_write_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, other.reasoning_tokens);
    }
}

/// Why a model stopped speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model ended its reply.
    Stop,
    /// It wants tools to be called.
    ToolCalls,
    /// The answer was cut at the token limit.
    MaxTokens,
    /// The model declined.
    Refusal,
    /// The provider's filter ended the answer.
    ContentFilter,
    /// Something else.
    Other,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model gave its answer.
    Final,
    /// A bound was reached.
    GuardExceeded,
    /// Cancelled.
    Cancelled,
    /// It waits for a person or an outside event.
    Suspended,
    /// It failed.
    Error,
}

/// Which bound was reached.
#[doc(alias = "LoopGuard")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardReason {
    /// `max_steps` model calls were made.
    MaxSteps,
    /// The model requested one call more than `max_tool_calls`.
    MaxToolCalls,
    /// `max_consecutive_errors` tool errors in a row.
    MaxConsecutiveErrors,
    /// One call was repeated more than `max_identical_calls` times in a row.
    MaxIdenticalCalls,
    /// `max_total_tokens` were used.
    MaxTotalTokens,
    /// `max_cost` was spent.
    MaxCost,
    /// `turn_timeout_ms` passed.
    TurnTimeout,
    /// `progress_timeout_ms` passed without progress.
    NoProgress,
}
