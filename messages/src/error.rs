//! The error type of all callers.
//!
//! Messages are for users: short, with advice. Details go to telemetry; secrets are in neither. Of the response body with
//! which a provider refuses a call a message has at most the provider's own message and code (`; it said: …`), cut to a
//! bound, with configured keys and what looks like one hidden.

mod form;
mod store;

pub use store::StoreError;

use crate::chat::GuardReason;
use crate::context::ContextError;
use crate::ids::{SessionId, TenantId};
use crate::llm::LlmError;
use serde::{Deserialize, Serialize};

/// Why a request was refused or a turn failed.
///
/// As JSON it is an object of its `kind`, and of a `detail` that is its text, or the error of a model or a store. Data of a
/// variant that is known (`owner`, `retry_after_ms`, `which`, `after_ms`) are keys beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(from = "form::Form", into = "form::Form")]
#[non_exhaustive]
pub enum AgentError {
    /// The model failed permanently.
    #[error("{0}")]
    Llm(#[source] LlmError),
    /// The tools could not be started or listed.
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
    Store(#[source] StoreError),
    /// The store failed after it had accepted the input: its turn has not begun. The input is in the session's journal
    /// and runs with the next message to the session, or when the session is finished; sent again, it would run twice.
    #[error("{0}; the input is kept and runs with the session's next message or with --finish: do not send it again")]
    Kept(#[source] StoreError),
    /// A deadline passed. Made by [`timeout`](Self::timeout).
    #[error("{text}")]
    #[non_exhaustive]
    Timeout {
        /// The error as text.
        text: String,
        /// What took too long, for example `summary`; `None` in a journal that was written before it was kept.
        which: Option<String>,
        /// How long it was given, in milliseconds.
        after_ms: Option<u64>,
    },
    /// A guard tripped before anything could be done.
    #[error("the guard {0:?} tripped")]
    GuardExceeded(GuardReason),
    /// The session has work and its queue is full, or another process owns it. Made by [`busy`](Self::busy).
    #[error("{text}")]
    #[non_exhaustive]
    Busy {
        /// The error as text.
        text: String,
        /// The name of the process that owns the session, when that is why.
        owner: Option<String>,
    },
    /// The runtime has too much to do; try later. Made by [`overloaded`](Self::overloaded).
    #[error("{text}")]
    #[non_exhaustive]
    Overloaded {
        /// The error as text.
        text: String,
        /// When there may be a place, in milliseconds from now, if that can be estimated: as long as the turn took that
        /// ended last.
        retry_after_ms: Option<u64>,
    },
    /// The runtime was shut down, and takes no requests.
    #[error("{0}")]
    Stopped(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A fault of the runtime's own.
    #[error("{0}")]
    Internal(String),
}

impl AgentError {
    /// A deadline of so many milliseconds passed for `which`.
    pub fn timeout(text: impl Into<String>, which: impl Into<String>, after_ms: u64) -> Self {
        Self::Timeout { text: text.into(), which: Some(which.into()), after_ms: Some(after_ms) }
    }

    /// The session has work.
    pub fn busy(text: impl Into<String>) -> Self {
        Self::Busy { text: text.into(), owner: None }
    }

    /// There is too much to do, and it is not known for how long.
    pub fn overloaded(text: impl Into<String>) -> Self {
        Self::Overloaded { text: text.into(), retry_after_ms: None }
    }

    /// There is too much to do for about so many milliseconds.
    pub fn overloaded_for(text: impl Into<String>, retry_after_ms: Option<u64>) -> Self {
        Self::Overloaded { text: text.into(), retry_after_ms }
    }

    /// The name of the kind in outputs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Llm(_) => "llm",
            Self::Tool(_) => "tool",
            Self::Skill(_) => "skill",
            Self::Policy(_) => "policy",
            Self::Store(_) => "store",
            Self::Kept(_) => "kept",
            Self::Timeout { .. } => "timeout",
            Self::GuardExceeded(_) => "guard_exceeded",
            Self::Busy { .. } => "busy",
            Self::Overloaded { .. } => "overloaded",
            Self::Stopped(_) => "stopped",
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
            Self::Store(error) => {
                matches!(error, StoreError::Unavailable(_) | StoreError::Away(_) | StoreError::Unreachable { .. })
            }
            Self::Timeout { .. } | Self::Busy { .. } | Self::Overloaded { .. } => true,
            Self::Tool(_)
            | Self::Skill(_)
            | Self::Policy(_)
            | Self::Kept(_)
            | Self::GuardExceeded(_)
            | Self::Stopped(_)
            | Self::Invalid(_)
            | Self::Internal(_) => false,
        }
    }
}

/// The error of a request of a tenant, or of none, for a session of another one.
pub fn other_tenant(session: &SessionId, tenant: Option<&TenantId>) -> AgentError {
    AgentError::Invalid(match tenant {
        Some(_) => format!("the session {session} belongs to another tenant or to none; choose another session id"),
        None => format!("the session {session} belongs to a tenant; give the request a context with that tenant"),
    })
}

impl From<ContextError> for AgentError {
    fn from(error: ContextError) -> Self {
        Self::Invalid(error.to_string())
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
            StoreError::Busy { ref owner } => Self::Busy { text: error.to_string(), owner: Some(owner.clone()) },
            error => Self::Store(error),
        }
    }
}

#[cfg(test)]
#[path = "error/error_tests.rs"]
mod tests;
