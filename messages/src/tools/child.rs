//! What a call hands down to the session that works for it.

use crate::ids::ModelName;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The terms on which a child session works for a call: decided by the turn that makes the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChildTerms {
    /// The limits of the child's turn.
    pub limits: Limits,
    /// The tools the child is limited to, by name or pattern; `None` means all that policy allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Arc<[String]>>,
    /// The agents above and with the child.
    pub line: Arc<AgentLine>,
    /// Its model.
    pub model: ModelName,
    /// Whether a person is waiting.
    #[serde(default)]
    pub interactive: bool,
    /// What the child is told of the conversation before its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Arc<str>>,
}

/// The agents of a session that works for a call of an agent, and of those above it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLine {
    /// Their names, the outermost first, that of the session last.
    pub agents: Vec<String>,
    /// How many levels of agents may work below the session.
    #[serde(default)]
    pub levels: u32,
}
