//! What a person is asked about a call, as data.

use crate::chat::ToolCall;
use crate::ids::{ApprovalId, SessionId, TurnId};
use crate::tools::Risk;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A call that needs a person, with all that is known of it. What is in `call` is
/// exactly what runs when the person allows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalQuestion {
    /// Whose call.
    pub session: SessionId,
    /// Of which turn.
    pub turn: TurnId,
    /// What a decision names.
    pub approval_id: ApprovalId,
    /// The call: tool and arguments, as they would run.
    pub call: Arc<ToolCall>,
    /// How risky it is.
    pub risk: Risk,
    /// Why a person is asked.
    pub reason: String,
    /// What people call the tool; the tool's own words, empty when it has none.
    pub title: String,
    /// What may be answered, by the names decisions have.
    pub choices: Vec<String>,
    /// Whether a decision for the session or for good is about exactly these arguments,
    /// and not about the tool.
    #[serde(default)]
    pub exact: bool,
    /// How the tool's definition differs from the one that was decided about before, as
    /// a text of lines that begin with `-`, `+` or a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// How long the question stands, in milliseconds; then it is denied.
    pub timeout_ms: u64,
}
