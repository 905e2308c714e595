//! Approval of calls, and decisions with a lasting effect, as data.

mod decision;

pub use decision::{Decision, Heard};

use crate::chat::{GuardReason, ToolCall};
use crate::context::{Identity, RequestContext};
use crate::ids::{ApprovalId, SessionId, ToolName, TurnId};
use crate::risk::Risk;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Maximum of lasting decisions in a session; the oldest are dropped, and asked for again.
const MOST_STANDING: usize = 256;

/// The possible decisions by name.
pub const CHOICES: [&str; 6] = ["allow_once", "allow_session", "allow_always", "edit", "deny", "deny_always"];

/// The possible decisions where those that apply beyond their session are not offered.
const CHOICES_WITHOUT_ALWAYS: [&str; 4] = ["allow_once", "allow_session", "edit", "deny"];

/// The names of the decisions to offer.
pub fn choices(offer_always: bool) -> Vec<String> {
    let choices = if offer_always { &CHOICES[..] } else { &CHOICES_WITHOUT_ALWAYS[..] };
    choices.iter().copied().map(str::to_owned).collect()
}

/// How a call that needs approval is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsMode {
    /// Wait within the turn for a decision.
    Wait,
    /// End the run, to be resumed by the decision.
    Suspend,
    /// Deny the call.
    #[default]
    Deny,
}

/// A call that needs approval, with its context. `call` is exactly what runs if it is allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalQuestion {
    /// Whose call.
    pub session: SessionId,
    /// The context of the turn's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// Of which turn.
    pub turn: TurnId,
    /// The id for a decision.
    pub approval_id: ApprovalId,
    /// The call: tool and arguments, as they would run.
    pub call: Arc<ToolCall>,
    /// How risky it is.
    pub risk: Risk,
    /// Why approval is needed.
    pub reason: String,
    /// The tool's title, in its own words; empty if it has none.
    pub title: String,
    /// The possible decisions by name.
    pub choices: Vec<String>,
    /// Whether a decision for the session or forever applies to exactly these arguments instead of the tool.
    #[serde(default)]
    pub exact: bool,
    /// What a yes for the session or forever applies to, instead of these arguments or the tool: rules of the grammar of
    /// a policy's `allow`, such as `local/shell_exec(git status *)`. A denial is not widened by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub like: Vec<String>,
    /// How the tool's definition differs from the one that was decided about before, as
    /// a text of lines that begin with `-`, `+` or a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// Timeout of the question in milliseconds; then the call is denied.
    pub timeout_ms: u64,
    /// The agents whose call it is, the outermost first; empty where no sub-agent makes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// The question whether a turn goes on that reached one of its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitQuestion {
    /// Whose turn.
    pub session: SessionId,
    /// The context of the turn's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// Which turn.
    pub turn: TurnId,
    /// The id for a decision.
    pub approval_id: ApprovalId,
    /// The limit.
    pub guard: GuardReason,
    /// How much of it was used: a count, milliseconds, or millionths of the price's currency.
    pub limit: u64,
    /// How much more the turn has with a yes, in the same unit.
    pub portion: u64,
    /// Timeout of the question in milliseconds; then the turn ends.
    pub timeout_ms: u64,
}

/// A tool as shown in a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedTool {
    /// Identifies its definition: a change of description, schema or annotations changes it.
    pub definition: String,
    /// The definition as text, to show a later difference.
    pub text: String,
    /// Whether a decision beyond the call is about exactly its arguments.
    pub exact: bool,
    /// The rules that a yes beyond the call is kept as, if it can be narrower than the tool and wider than the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub like: Vec<String>,
    /// How the definition differs from the one that was decided about before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// Approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// To which question.
    pub by: ApprovalId,
    /// The tool as shown. The approval applies to no other definition, nor to a tool that was not shown.
    pub tool: Option<Arc<AskedTool>>,
}

/// How far a decision reaches beyond its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To the calls of its session, for the same principal.
    Session,
    /// To the calls of its principal's sessions.
    Always,
}

/// A decision that applies to later calls of a tool with an unchanged definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The tool.
    pub tool: ToolName,
    /// Its definition.
    pub definition: String,
    /// The definition as text.
    pub text: String,
    /// Only calls with exactly these arguments, and those of `like`; `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Of a yes: also calls that these rules allow, together with those of other decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub like: Vec<String>,
    /// Whether they may run.
    pub allowed: bool,
    /// Why not, for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether it applies to all sessions of its identity and can be revoked, or to one session only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_good: bool,
    /// To whom it belongs: it applies to no other tenant or principal.
    #[serde(default, skip_serializing_if = "Identity::is_none")]
    pub identity: Identity,
}

impl Decision {
    /// The decision as a journal has it.
    pub(crate) fn of(allowed: bool, arguments: Option<&Value>, reason: &str, scope: Option<Scope>) -> Self {
        let reason = reason.to_owned();
        match (allowed, arguments, scope) {
            (true, Some(arguments), _) => Self::Edit { arguments: arguments.clone() },
            (true, None, Some(Scope::Session)) => Self::AllowSession,
            (true, None, Some(Scope::Always)) => Self::AllowAlways,
            (true, None, None) => Self::AllowOnce,
            (false, _, Some(Scope::Always)) => Self::DenyAlways { reason },
            (false, _, Some(Scope::Session) | None) => Self::Deny { reason },
        }
    }

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
    /// Returns the lasting decision about this call of this tool, which belongs to `identity`.
    pub fn of(
        call: &ToolCall,
        tool: &AskedTool,
        scope: Scope,
        (allowed, reason): (bool, &str),
        identity: Identity,
    ) -> Self {
        let like = if allowed { tool.like.clone() } else { Vec::new() };
        Self {
            identity,
            tool: call.name.clone(),
            definition: tool.definition.clone(),
            text: tool.text.clone(),
            arguments: (tool.exact || !like.is_empty()).then(|| Value::clone(&call.arguments)),
            like,
            allowed,
            reason: reason.to_owned(),
            for_good: scope == Scope::Always,
        }
    }

    /// Whether it applies to these arguments, whatever the tool's definition and without the rules of `like`.
    pub fn is_about(&self, arguments: &Value) -> bool {
        self.arguments.as_ref().is_none_or(|exactly| exactly == arguments)
    }

    /// Whether the other decision is about the same calls and replaces this one.
    pub fn gives_way_to(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.tool == other.tool
            && match (&other.arguments, &other.like[..]) {
                (None, _) => true,
                (Some(_), []) => self.like.is_empty() && self.arguments == other.arguments,
                (Some(_), rules) => self.like == rules,
            }
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
