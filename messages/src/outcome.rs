//! The outcome of a run of a turn.

mod ending;

pub use ending::{EndReason, never_ran};

use crate::chat::{CallStatus, Delegated, FinishReason, GuardReason, StopReason, Usage};
use crate::cost::Cost;
use crate::error::{AgentError, StoreError};
use crate::ids::{CallId, ModelName, RequestId, ResumeToken, SessionId, ToolName, TurnId};
use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// An outcome: the reply to the caller, and one line of `--output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// Which session.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// The caller's name for the request.
    pub request_id: Option<RequestId>,
    /// The caller's labels, as they were given.
    pub labels: std::collections::BTreeMap<String, String>,
    /// The model of the last reply, possibly a fallback; the requested one if there was none.
    pub model: Option<ModelName>,
    /// How it ended.
    pub finish_reason: FinishReason,
    /// Which guard tripped, if one did.
    pub guard_reason: Option<GuardReason>,
    /// The answer, possibly partial or empty.
    pub content: String,
    /// The reason of a suspension.
    pub suspend_reason: Option<SuspendReason>,
    /// The question of a suspended turn.
    pub question: Option<String>,
    /// Resumes a suspended turn.
    pub token: Option<ResumeToken>,
    /// Why the model stopped speaking, the last time.
    pub stop_reason: Option<StopReason>,
    /// Every call of the turn, in call order.
    pub tool_transcript: Arc<[TranscriptEntry]>,
    /// Tokens, summed over the steps.
    pub usage: Usage,
    /// What sub-agents used beside that, at all levels; none where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<Box<Delegated>>,
    /// What the model calls cost without that, as far as it is known, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// How many model calls were made.
    pub steps: u32,
    /// From the start of the turn to its outcome, in milliseconds.
    pub duration_ms: u64,
    /// Whether the outcome is durable.
    pub saved: bool,
    /// Why it is not, where the store has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<Box<StoreError>>,
    /// The calls that were denied.
    pub denied: Vec<DeniedCall>,
    /// The error.
    pub error: Option<AgentError>,
}

impl TurnOutcome {
    /// An outcome with only an end.
    pub fn bare(session: SessionId, turn: TurnId, finish_reason: FinishReason, content: impl Into<String>) -> Self {
        Self {
            session_id: session,
            turn_id: turn,
            request_id: None,
            labels: std::collections::BTreeMap::new(),
            model: None,
            finish_reason,
            guard_reason: None,
            content: content.into(),
            suspend_reason: None,
            question: None,
            token: None,
            stop_reason: None,
            tool_transcript: Arc::default(),
            usage: Usage::default(),
            delegated: None,
            cost: Cost::ZERO,
            steps: 0,
            duration_ms: 0,
            saved: false,
            unsaved: None,
            denied: Vec::new(),
            error: None,
        }
    }

    /// Whether a retry may succeed: the error may be temporary, and the turn does not continue by itself. A turn
    /// whose end is not durable is still open in its journal, where it may continue.
    pub fn is_retryable(&self) -> bool {
        let passes = |error: &AgentError| error.is_retryable() && (self.saved || matches!(error, AgentError::Store(_)));
        self.error.as_ref().is_some_and(passes)
    }

    /// An outcome of a turn that failed with this error.
    pub fn failed(session: SessionId, turn: TurnId, error: AgentError) -> Self {
        Self { error: Some(error), ..Self::bare(session, turn, FinishReason::Error, String::new()) }
    }
}

/// The reason of a suspension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    /// The user's answer to a question.
    AskUser,
    /// A person's decision about a call.
    ApprovalRequired,
    /// Something outside.
    ExternalWait,
}

/// One call in a turn's transcript.
#[doc(alias = "SessionTranscript")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    /// The call's id.
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// The arguments.
    pub arguments: Arc<Value>,
    /// How it ended.
    pub status: CallStatus,
    /// The output as the model saw it.
    pub result: String,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

/// One denied call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// The tool.
    pub name: ToolName,
    /// The arguments.
    pub arguments: Arc<Value>,
    /// Why not.
    pub reason: String,
    /// The permission mode of the turn; `None`: that of the runtime's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
}
