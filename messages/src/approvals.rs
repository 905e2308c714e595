//! What a person is asked about a call, and what of the answer stands beyond it, as data.

mod decision;

pub use decision::{Decision, Heard};

use crate::chat::ToolCall;
use crate::ids::{ApprovalId, SessionId, ToolName, TurnId};
use crate::risk::Risk;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// How many decisions a session keeps beyond their calls; the oldest go first, and are
/// asked about again.
const MOST_STANDING: usize = 256;

/// What a person may answer, by the names decisions have.
pub const CHOICES: [&str; 6] = ["allow_once", "allow_session", "allow_always", "edit", "deny", "deny_always"];

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

/// A tool as a person was shown it who decides about a call of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedTool {
    /// What names its definition: another description, schema or annotation is another.
    pub definition: String,
    /// The definition in words, to show a later difference.
    pub text: String,
    /// Whether a decision beyond the call is about exactly its arguments.
    pub exact: bool,
    /// How the definition differs from the one that was decided about before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// A person's word that a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// To which question.
    pub by: ApprovalId,
    /// The tool as it was shown. Of another definition nobody has approved anything, nor
    /// of a tool that was not shown.
    pub tool: Option<Arc<AskedTool>>,
}

/// How far a decision reaches beyond its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To the calls of its session.
    Session,
    /// To the calls of its user's sessions.
    Always,
}

/// A decision that stands for later calls of a tool, as long as its definition stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The tool.
    pub tool: ToolName,
    /// Its definition.
    pub definition: String,
    /// That in words.
    pub text: String,
    /// Only calls with exactly these arguments; `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Whether they may run.
    pub allowed: bool,
    /// Why not, for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether it was said for all of the user's sessions, who may take it back, and not
    /// for one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_good: bool,
}

impl Decision {
    /// How far it reaches beyond its call, if it does.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::AllowSession => Some(Scope::Session),
            Self::AllowAlways | Self::DenyAlways { .. } => Some(Scope::Always),
            Self::AllowOnce | Self::Edit { .. } | Self::Deny { .. } => None,
        }
    }
}

impl Standing {
    /// What follows from a decision about this call of this tool.
    pub fn of(call: &ToolCall, tool: &AskedTool, scope: Scope, allowed: bool, reason: &str) -> Self {
        Self {
            tool: call.name.clone(),
            definition: tool.definition.clone(),
            text: tool.text.clone(),
            arguments: tool.exact.then(|| call.arguments.clone()),
            allowed,
            reason: reason.to_owned(),
            for_good: scope == Scope::Always,
        }
    }

    /// Whether it speaks of a call with these arguments, whatever the tool's definition.
    pub fn is_about(&self, arguments: &Value) -> bool {
        self.arguments.as_ref().is_none_or(|exactly| exactly == arguments)
    }

    /// Whether the other one says the same thing's latest: it takes this one's place.
    pub fn gives_way_to(&self, other: &Self) -> bool {
        self.tool == other.tool && (other.arguments.is_none() || self.arguments == other.arguments)
    }

    /// Adds it to others, in whose place it comes.
    pub fn join(self: Arc<Self>, others: &mut Vec<Arc<Self>>) {
        others.retain(|other| !other.gives_way_to(&self));
        if others.len() >= MOST_STANDING {
            others.remove(0);
        }
        others.push(self);
    }
}
