//! An error as JSON: the form that journals and events have had from the first, with the data of a variant beside it.

use super::{AgentError, StoreError};
use crate::chat::GuardReason;
use crate::llm::LlmError;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(super) struct Form {
    #[serde(flatten)]
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    which: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
enum Kind {
    Llm(LlmError),
    Tool(String),
    Skill(String),
    Policy(String),
    Store(StoreError),
    Kept(StoreError),
    Timeout(String),
    GuardExceeded(GuardReason),
    Busy(String),
    Overloaded(String),
    Stopped(String),
    Invalid(String),
    Internal(String),
}

impl From<AgentError> for Form {
    fn from(error: AgentError) -> Self {
        let bare = |kind| Self { kind, owner: None, retry_after_ms: None, which: None, after_ms: None };
        match error {
            AgentError::Llm(error) => bare(Kind::Llm(error)),
            AgentError::Tool(text) => bare(Kind::Tool(text)),
            AgentError::Skill(text) => bare(Kind::Skill(text)),
            AgentError::Policy(text) => bare(Kind::Policy(text)),
            AgentError::Store(error) => bare(Kind::Store(error)),
            AgentError::Kept(error) => bare(Kind::Kept(error)),
            AgentError::Timeout { text, which, after_ms } => Self { which, after_ms, ..bare(Kind::Timeout(text)) },
            AgentError::GuardExceeded(guard) => bare(Kind::GuardExceeded(guard)),
            AgentError::Busy { text, owner } => Self { owner, ..bare(Kind::Busy(text)) },
            AgentError::Overloaded { text, retry_after_ms } => Self { retry_after_ms, ..bare(Kind::Overloaded(text)) },
            AgentError::Stopped(text) => bare(Kind::Stopped(text)),
            AgentError::Invalid(text) => bare(Kind::Invalid(text)),
            AgentError::Internal(text) => bare(Kind::Internal(text)),
        }
    }
}

impl From<Form> for AgentError {
    fn from(form: Form) -> Self {
        let Form { kind, owner, retry_after_ms, which, after_ms } = form;
        match kind {
            Kind::Llm(error) => Self::Llm(error),
            Kind::Tool(text) => Self::Tool(text),
            Kind::Skill(text) => Self::Skill(text),
            Kind::Policy(text) => Self::Policy(text),
            Kind::Store(error) => Self::Store(error),
            Kind::Kept(error) => Self::Kept(error),
            Kind::Timeout(text) => Self::Timeout { text, which, after_ms },
            Kind::GuardExceeded(guard) => Self::GuardExceeded(guard),
            Kind::Busy(text) => Self::Busy { text, owner },
            Kind::Overloaded(text) => Self::Overloaded { text, retry_after_ms },
            Kind::Stopped(text) => Self::Stopped(text),
            Kind::Invalid(text) => Self::Invalid(text),
            Kind::Internal(text) => Self::Internal(text),
        }
    }
}
