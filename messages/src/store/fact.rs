//! What a journal tells: the facts of a session and of its turns.

use crate::Millis;
use crate::approvals::{AskedTool, Scope};
use crate::chat::{ContentPart, FinishReason, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::condense::Condensed;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, RequestId, ResumeToken, TurnId};
use crate::input::TurnInput;
use crate::options::SessionOptions;
use crate::outcome::SuspendReason;
use crate::skills::SelectedSkills;
use crate::tools::{CallTraits, Risk, ToolTitle};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What can be a fact. The journal never holds a rendered request. What is large and not in every record has a box of its
/// own: a session in memory has all records of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum Fact {
    /// The session's options, first and at each change.
    Options(Arc<SessionOptions>),
    /// An input was accepted; it runs now or waits its turn.
    Input(Arc<TurnInput>),
    /// The oldest waiting input's turn began.
    Started {
        /// The model it runs on.
        model: ModelName,
    },
    /// A model call ended with an action.
    Answered(Box<Answered>),
    /// A model call ended with something that is no action.
    Malformed {
        /// The reply, as text.
        text: String,
        /// What is wrong with it, as the model was told.
        complaint: String,
        /// What the call cost.
        cost: Box<StepCost>,
    },
    /// A call with side effects is about to run.
    Intent {
        /// Which call.
        call: CallId,
        /// How it may be run again.
        traits: CallTraits,
    },
    /// A person is asked about a call.
    ApprovalAsked {
        /// The question.
        approval: ApprovalId,
        /// The call.
        call: CallId,
        /// How risky it is.
        risk: Risk,
        /// Why a person is asked.
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
        /// Why not, when the person said no.
        reason: String,
        /// How far the decision reaches beyond the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
    },
    /// A call has its result.
    Result(Arc<ToolResult>),
    /// The user said something into the running turn.
    Steered {
        /// What.
        parts: Vec<ContentPart>,
        /// The name of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<RequestId>,
        /// It came while the model was being asked: it stands behind the answer, which cannot know it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        behind: bool,
    },
    /// A suspended turn goes on.
    Resumed {
        /// Under which submission; its caller gets the outcome.
        submission: TurnId,
        /// The reply to the question.
        reply: String,
        /// The name of the request that brought the reply, when a plain input did.
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
    },
    /// What the model is told of the history from here on; the records before are as they were.
    Condensed(Box<Condensed>),
    /// The turn's skills were chosen: once, also over crashes.
    SkillsSelected(SelectedSkills),
    /// A call came back without its result, which comes from outside.
    Waits {
        /// Which call.
        call: CallId,
        /// What it waits for, in words for people.
        what: String,
    },
    /// The session as all records before this one tell of it; it says nothing new.
    Snapshot(Snapshot),
}

/// What one model call cost and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Tokens, when the provider said.
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
}

/// One model call that ended with an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The model's words.
    pub text: String,
    /// Its calls; empty for a final answer. A question to the user is a call of
    /// the pseudo tool `ask_user`.
    pub calls: Vec<Arc<ToolCall>>,
    /// What people are shown of the calls' tools, one for each call, in order. Empty where nothing is known of any, and in
    /// journals of older programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolTitle>,
    /// What the model thought aloud, cut to [`Reasoning::MOST_BYTES`]; for readers, never sent back to the model. Older
    /// programs did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// What the call cost.
    pub cost: StepCost,
}

impl Answered {
    /// Words and calls of which readers are shown nothing else.
    pub fn bare(text: impl Into<String>, calls: Vec<Arc<ToolCall>>, cost: StepCost) -> Self {
        Self { text: text.into(), calls, tools: Vec::new(), reasoning: None, cost }
    }
}

/// What a model thought aloud, as it is kept.
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
    /// In one word.
    pub finish_reason: FinishReason,
    /// Which guard tripped.
    pub guard_reason: Option<GuardReason>,
    /// What the caller is told.
    pub content: String,
    /// What the turn waits for, when it is suspended.
    pub suspended: Option<Suspension>,
    /// What failed.
    pub error: Option<AgentError>,
    /// How long the run took, in milliseconds, by a clock that does not jump; time before a crash of the program is not
    /// in it. Of a journal that does not say, it is the difference of two times of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// What a suspended turn waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// For whom.
    pub reason: SuspendReason,
    /// What resumes it.
    pub token: ResumeToken,
    /// The question, for people.
    pub question: String,
    /// When the token stops being good, by the clock of whoever suspended the turn;
    /// `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// A session as the records before this one tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What its fields mean; [`SNAPSHOT_FORM`](crate::session_state::SNAPSHOT_FORM) for what this program writes.
    pub form: u32,
    /// The session as JSON text: a record with it nests no deeper than any other, and whoever passes it over does not
    /// read it.
    pub session: Arc<str>,
}
