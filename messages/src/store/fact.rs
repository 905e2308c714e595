//! The facts of a session and of its turns.

use crate::Millis;
use crate::agent::Delegation;
use crate::approvals::{AskedTool, Scope};
use crate::artifact::Artifact;
use crate::chat::{
    Asking, ContentPart, FinishReason, GuardReason, ServerWait, StopReason, ToolCall, ToolOutput, ToolResult, Usage,
};
use crate::condense::Condensed;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, RequestId, ResumeToken, TenantId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::models::{Cost, Selected};
use crate::options::SessionOptions;
use crate::outcome::SuspendReason;
use crate::skills::{Reselected, SelectedSkills};
use crate::tools::{CallTraits, Risk, ToolTitle};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A fact in the journal. The journal never contains a rendered request. What is large and not in every record is boxed: a
/// session in memory has all records of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum Fact {
    /// The session's options, first and at each change.
    Options(Arc<SessionOptions>),
    /// An input was accepted; it runs now or waits its turn.
    Input(Arc<TurnInput>),
    /// The oldest waiting input's turn began.
    Started {
        /// The model it runs on; a selector that selected none is named itself.
        model: ModelName,
        /// How it was selected, if it was not named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        selected: Option<Box<Selected>>,
    },
    /// A model call ended with an action.
    Answered(Box<Answered>),
    /// A model call ended with something that is no action.
    Malformed {
        /// The reply, as text.
        text: String,
        /// The error, as sent to the model.
        complaint: String,
        /// Its usage.
        cost: Box<StepCost>,
    },
    /// A call with side effects is about to run.
    Intent {
        /// Which call.
        call: CallId,
        /// How it may be run again.
        traits: CallTraits,
        /// The session that works for it in the background, if it is a call of such an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<Arc<Delegation>>,
    },
    /// Approval of a call was requested.
    ApprovalAsked {
        /// The question.
        approval: ApprovalId,
        /// The call.
        call: CallId,
        /// How risky it is.
        risk: Risk,
        /// Why approval is needed.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The tool as it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Arc<AskedTool>>,
    },
    /// A person decided.
    ApprovalDecided {
        /// The question.
        approval: ApprovalId,
        /// The answer.
        allowed: bool,
        /// The arguments instead of the model's, when the person changed them.
        arguments: Option<Box<Value>>,
        /// The reason of a denial.
        reason: String,
        /// How far the decision reaches beyond the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
    },
    /// A call has its result.
    Result(Arc<ToolResult>),
    /// A steering message was added to the running turn.
    Steered {
        /// The content.
        parts: Vec<ContentPart>,
        /// The name of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<RequestId>,
        /// It arrived during a model call: it follows the reply, which does not take it into account.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        behind: bool,
    },
    /// A suspended turn was resumed.
    Resumed {
        /// Under which submission; its caller gets the outcome.
        submission: TurnId,
        /// The reply to the question.
        reply: String,
        /// The request id of the reply, if a plain input was the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<RequestId>,
        /// That input's labels.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
    },
    /// The input of this record's turn was cancelled while it waited.
    Withdrawn,
    /// The turn, or this run of it, ended.
    Outcome(Box<Ended>),
    /// The session's options were changed, from the next turn on.
    Configured {
        /// The name of the change, which counts once.
        request_id: RequestId,
        /// All options as they are then.
        options: Arc<SessionOptions>,
        /// What happened outside of the conversation: the model is told with the next message, or when the suspended turn
        /// is resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<Arc<str>>,
    },
    /// The history for the model from here on; earlier records are unchanged.
    Condensed(Box<Condensed>),
    /// The turn's skills were chosen: once, also over crashes.
    SkillsSelected(SelectedSkills),
    /// The turn's skills were chosen again: once for what happened since they were chosen before.
    SkillsReselected(Box<Reselected>),
    /// A call returned without a result, which comes from outside, or from a sub-agent that is suspended.
    Waits {
        /// Which call.
        call: CallId,
        /// What it waits for.
        what: String,
        /// The sub-agent. Since format 4: a program that does not know this field would take the call for one that waits
        /// for something outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<Box<AskedBelow>>,
        /// What the tool server gave, which can be asked for the result. A program that does not know this field waits for a
        /// person to supply the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<Arc<ServerWait>>,
    },
    /// The turn reached a limit: a person was asked whether it goes on.
    LimitAsked {
        /// The question.
        question: ApprovalId,
        /// The limit.
        guard: GuardReason,
    },
    /// The person decided, or what the turn waited for has come.
    LimitDecided {
        /// The question.
        question: ApprovalId,
        /// Whether the turn has as much of that limit again; else it ends.
        goes_on: bool,
    },
    /// The session folded from all earlier records; redundant.
    Snapshot(Snapshot),
}

impl Fact {
    /// What stands for its large parts, whose content is in the artifact store.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let (parts, output): (&[ContentPart], Option<&ToolOutput>) = match self {
            Self::Input(input) => (&input.parts, None),
            Self::Steered { parts, .. } => (parts, None),
            Self::Result(result) => (&result.output.parts, Some(&result.output)),
            _has_no_parts => (&[], None),
        };
        let structured = output.and_then(|output| output.structured_artifact.as_deref());
        let changes = output.map_or(&[][..], |output| &output.changes);
        let originals = changes.iter().filter_map(|change| change.original.as_deref());
        parts.iter().filter_map(ContentPart::artifact).chain(structured).chain(originals)
    }

    /// The tenant that it names: in the options of the session, or in the context of an input.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Options(options) | Self::Configured { options, .. } => options.tenant.as_ref(),
            Self::Input(input) => input.tenant(),
            _of_something_else => None,
        }
    }
}

/// Usage and origin of one model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Tokens, if reported.
    pub usage: Option<Usage>,
    /// How many bytes the prompt had; corrects the token estimate.
    pub prompt_bytes: u64,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// The model that answered.
    pub model: ModelName,
    /// How long the call took, in milliseconds.
    pub latency_ms: u64,
    /// What it cost, if its price was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// One model call that ended with an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The text.
    pub text: String,
    /// Its calls; empty for a final answer. A question to the user is a call of the pseudo tool `ask_user`.
    pub calls: Vec<Arc<ToolCall>>,
    /// Titles of the calls' tools, one for each call, in order. Empty if none is known, and in journals of older
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolTitle>,
    /// The model's reasoning, truncated to [`Reasoning::MOST_BYTES`]; for readers, never sent back to the model.
    /// Missing in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Its usage.
    pub cost: StepCost,
}

impl Answered {
    /// A reply of only text and calls.
    pub fn bare(text: impl Into<String>, calls: Vec<Arc<ToolCall>>, cost: StepCost) -> Self {
        Self { text: text.into(), calls, tools: Vec::new(), reasoning: None, cost }
    }
}

/// A model's reasoning, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Its beginning, or all of it.
    pub text: String,
    /// How many bytes of it were left out behind that.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub left_out_bytes: u64,
}

impl Reasoning {
    /// The most that is kept of one answer, in bytes.
    pub const MOST_BYTES: usize = 16 * 1024;

    /// As much of it as is kept, cut between two characters; `None` of an empty one.
    pub fn of(thought: &str) -> Option<Self> {
        let text = &thought[..thought.floor_char_boundary(Self::MOST_BYTES)];
        let left_out_bytes = (thought.len() - text.len()) as u64;
        (!text.is_empty()).then(|| Self { text: text.to_owned(), left_out_bytes })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none_left_out(bytes: &u64) -> bool {
    *bytes == 0
}

/// How a run of a turn ended, as far as it does not follow from other records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The reason of the end.
    pub finish_reason: FinishReason,
    /// Which guard tripped.
    pub guard_reason: Option<GuardReason>,
    /// The answer to the caller.
    pub content: String,
    /// The suspension, if it is suspended.
    pub suspended: Option<Suspension>,
    /// The error.
    pub error: Option<AgentError>,
    /// How long the run took, in milliseconds, by a clock that does not jump; time before a crash of the program is not
    /// in it. Of a journal that does not say, it is the difference of two times of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whether the content is the part of an unfinished answer that readers had seen when the run was ended from outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// An estimate of the tokens of the model call that the end interrupted: of its prompt, and of what was seen of its
    /// answer. The provider reports none for such a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Usage>,
}

impl Ended {
    /// A run that ended so, without text, guard or error.
    pub fn new(finish_reason: FinishReason) -> Self {
        Self {
            finish_reason,
            guard_reason: None,
            content: String::new(),
            suspended: None,
            error: None,
            duration_ms: None,
            partial: false,
            estimated: None,
        }
    }
}

/// A suspension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// The reason.
    pub reason: SuspendReason,
    /// Resumes the turn.
    pub token: ResumeToken,
    /// The question as text.
    pub question: String,
    /// When the token expires, by the clock of the process that suspended the turn; `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// A question of a sub-agent that is suspended, as the journal of its caller has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBelow {
    /// The id of the question in the caller's session: the decision is recorded under it, and handed down.
    pub approval: ApprovalId,
    /// The sub-agent.
    pub child: Asking,
    /// What it may use in all, which is held for it.
    pub limits: Limits,
}

/// A session as the records before this one tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The format; [`SNAPSHOT_FORM`](crate::session_state::SNAPSHOT_FORM) when written by this version.
    pub form: u32,
    /// The session as JSON text, so that the record's nesting is bounded, and readers may skip it without parsing.
    pub session: Arc<str>,
}
