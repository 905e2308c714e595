//! A session that works for a call, while it is suspended.

use super::delegated::Delegated;
use super::output::ToolOutput;
use crate::ids::{ResumeToken, SessionId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A session that works for a call and is suspended until a person decides about a call of it, or of one below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// The session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// Resumes that turn, for the caller only.
    pub token: ResumeToken,
    /// What it used until it was suspended, with what was used below it. Its outcome will have all of it.
    pub used: Delegated,
}

impl Asking {
    /// The output of a call that has no result yet: this session asks this question.
    pub(crate) fn output(&self, question: &str) -> ToolOutput {
        ToolOutput { structured: Some(json!({"asks": self})), ..ToolOutput::waits_for(question) }
    }

    /// The session that is suspended, if the output of a call says so.
    pub(crate) fn of(output: &ToolOutput) -> Option<Self> {
        output.waits_for.as_ref()?;
        Self::deserialize(output.structured.as_ref()?.get("asks")?).ok()
    }
}
