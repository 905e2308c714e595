//! The error type of all callers.
//!
//! Messages are for users: short, with advice. Details go to telemetry; response bodies of providers and secrets are
//! in neither.

mod store;

pub use store::StoreError;

use crate::chat::GuardReason;
use crate::llm::LlmError;
use serde::{Deserialize, Serialize};

/// Why a request was refused or a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
pub enum AgentError {
    /// The model failed permanently.
    #[error("{0}")]
    Llm(LlmError),
    /// The tool plane failed.
    #[error("{0}")]
    Tool(String),
    /// A skill could not be used.
    #[error("{0}")]
    Skill(String),
    /// Policy forbids it.
    #[error("{0}")]
    Policy(String),
    /// The store failed.
    #[error("{0}")]
    Store(StoreError),
    /// The store failed after it had accepted the input: its turn has not begun. The input is in
    /// the session's journal and runs with the next message to the session, or when the session
    /// is finished; sent again, it would run twice.
    #[error("{0}; the input is kept and runs with the session's next message or with --finish: do not send it again")]
    Kept(StoreError),
    /// A deadline passed.
    #[error("{0}")]
    Timeout(String),
    /// A guard tripped before anything could be done.
    #[error("the guard {0:?} tripped")]
    GuardExceeded(GuardReason),
    /// The session has work and its queue is full, or another process owns it.
    #[error("{0}")]
    Busy(String),
    /// The runtime has too much to do; try later.
    #[error("{0}")]
    Overloaded(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A fault of the runtime's own.
    #[error("{0}")]
    Internal(String),
}

impl AgentError {
    /// The name of the kind in outputs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Llm(_) => "llm",
            Self::Tool(_) => "tool",
            Self::Skill(_) => "skill",
            Self::Policy(_) => "policy",
            Self::Store(_) => "store",
            Self::Kept(_) => "kept",
            Self::Timeout(_) => "timeout",
            Self::GuardExceeded(_) => "guard_exceeded",
            Self::Busy(_) => "busy",
            Self::Overloaded(_) => "overloaded",
            Self::Invalid(_) => "invalid",
            Self::Internal(_) => "internal",
        }
    }

    /// Whether a retry may succeed: nothing of the first request is still running. A retry with the request's own
    /// `request_id` never runs anything twice.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Llm(error) => error.is_retryable(),
            // In doubt, the store may have it.
            Self::Store(error) => matches!(error, StoreError::Unavailable(_)),
            Self::Timeout(_) | Self::Busy(_) | Self::Overloaded(_) => true,
            Self::Tool(_)
            | Self::Skill(_)
            | Self::Policy(_)
            | Self::Kept(_)
            | Self::GuardExceeded(_)
            | Self::Invalid(_)
            | Self::Internal(_) => false,
        }
    }
}

impl From<LlmError> for AgentError {
    fn from(error: LlmError) -> Self {
        Self::Llm(error)
    }
}

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy { .. } => Self::Busy(error.to_string()),
            error => Self::Store(error),
        }
    }
}
