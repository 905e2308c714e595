//! What is said to and by the tools room.

use crate::approvals::{Approved, AskedTool, Standing};
use crate::chat::{CallStatus, ToolCall};
use crate::ids::{CallId, ServerId, SessionId, ToolName, TurnId};
use crate::native;
use crate::reply::Reply;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub use crate::chat::{FileChange, Location, MODEL_RESULT_BYTES, ToolOutput};
pub use crate::risk::{Risk, RiskSource};

/// The mailbox of an actor that hosts tools.
#[derive(Debug)]
pub enum ToolsMessage {
    /// May this call run? One that may run at once is answered by its result.
    Check {
        /// The call.
        check: CheckRequest,
        /// Who asks, and where.
        context: Arc<CallContext>,
        /// Where the verdict goes.
        reply: Reply<Verdict>,
    },
    /// Run this call. Abandoning the reply stops it where the tool can be stopped.
    Call {
        /// What to run.
        call: Arc<ToolCall>,
        /// The permission, bound to exactly this call.
        grant: Grant,
        /// Who asks, and where.
        context: Arc<CallContext>,
        /// Where the result goes.
        reply: Reply<ToolReturn>,
    },
}

/// What a tool does, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Looks at something.
    Read,
    /// Changes something.
    Edit,
    /// Removes something.
    Delete,
    /// Moves something.
    Move,
    /// Finds something.
    Search,
    /// Runs something.
    Execute,
    /// Only thinks.
    Think,
    /// Gets something from a network.
    Fetch,
    /// None of these.
    #[default]
    Other,
}

/// What people are shown of a call's tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTitle {
    /// What people call the tool; empty for a tool that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What it does, in one word.
    #[serde(default, skip_serializing_if = "ToolKind::is_other")]
    pub kind: ToolKind,
}

impl ToolTitle {
    /// Whether nothing is known of the tool.
    pub fn is_unknown(&self) -> bool {
        self.title.is_empty() && self.kind.is_other()
    }
}

impl ToolKind {
    /// Whether it is none of the others.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Whose tool it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// Comes with Bob.
    Local,
    /// The embedding program's own.
    Embedded,
    /// A tool server's.
    Server(ServerId),
    /// Another agent.
    Agent,
}

/// A tool, as models, people and policy see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescriptor {
    /// Its full name.
    pub id: ToolName,
    /// What people call it.
    pub title: String,
    /// What it does, in one word.
    pub kind: ToolKind,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// Whose it is.
    pub source: ToolSource,
    /// What may go wrong.
    pub risk: Risk,
    /// Who says so.
    #[serde(default, skip_serializing_if = "RiskSource::is_program")]
    pub risk_from: RiskSource,
    /// Whether running it twice is the same as running it once.
    pub idempotent: bool,
    /// Whether it changes nothing; such calls run in parallel.
    pub read_only: bool,
}

impl ToolDescriptor {
    /// What people are shown of it.
    pub fn shown(&self) -> ToolTitle {
        ToolTitle { title: self.title.clone(), kind: self.kind }
    }
}

/// The tools of one session at one moment, made once and shared.
///
/// Serialises as the list of its tools; the names and texts derived from them are
/// made anew on the way back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<ToolDescriptor>>", into = "Vec<Arc<ToolDescriptor>>")]
pub struct ToolSet {
    tools: Vec<Arc<ToolDescriptor>>,
    native: Vec<String>,
    bytes: usize,
    contract: String,
}

impl From<Vec<Arc<ToolDescriptor>>> for ToolSet {
    fn from(tools: Vec<Arc<ToolDescriptor>>) -> Self {
        let native = native::native_names(tools.iter().map(|tool| &tool.id));
        let mut contract = String::new();
        let mut bytes = 0;
        for tool in &tools {
            let schema = tool.schema.to_string();
            bytes += tool.id.as_str().len() + tool.description.len() + schema.len();
            contract.push_str(&format!("- {}: {} Arguments: {schema}\n", tool.id, tool.description));
        }
        Self { tools, native, bytes, contract }
    }
}

impl From<ToolSet> for Vec<Arc<ToolDescriptor>> {
    fn from(set: ToolSet) -> Self {
        set.tools
    }
}

impl ToolSet {
    /// The tools, in the order they are offered.
    pub fn tools(&self) -> &[Arc<ToolDescriptor>] {
        &self.tools
    }

    /// The tools with the names a provider accepts.
    pub fn with_native_names(&self) -> impl Iterator<Item = (&Arc<ToolDescriptor>, &str)> {
        self.tools.iter().zip(self.native.iter().map(String::as_str))
    }

    /// The tool a model means by a native name, or by its full name.
    pub fn by_spoken_name(&self, spoken: &str) -> Option<&Arc<ToolDescriptor>> {
        let native = self.native.iter().position(|name| name == spoken);
        native.and_then(|at| self.tools.get(at)).or_else(|| self.tools.iter().find(|tool| tool.id.as_str() == spoken))
    }

    /// The tool of this name.
    pub fn get(&self, name: &ToolName) -> Option<&Arc<ToolDescriptor>> {
        self.tools.iter().find(|tool| tool.id == *name)
    }

    /// The native name of a tool; of a name that no tool has, its closest form.
    pub fn native_name(&self, name: &ToolName) -> String {
        match self.tools.iter().position(|tool| tool.id == *name) {
            Some(at) => self.native[at].clone(),
            None => native::native_form(name),
        }
    }

    /// Whether there is nothing to offer.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// How many bytes the tools bring into a prompt, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tools as text, for models that are told in words; one line each.
    pub fn contract(&self) -> &str {
        &self.contract
    }
}

/// A call to be judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// The call.
    pub call: Arc<ToolCall>,
    /// Set when a person has allowed exactly this call.
    pub approved: Option<Box<Approved>>,
    /// What people decided about this tool beyond single calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Arc<Standing>>,
    /// Whether the call may run as soon as it is judged, if it may run and changes
    /// nothing: nobody needs to be told in between. Abandoning the question then
    /// stops it where the tool can be stopped.
    pub run: bool,
}

/// What the tools room says of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run, with this grant.
    Allow {
        /// The permission.
        grant: Grant,
        /// How it may be run.
        traits: CallTraits,
    },
    /// It may run and does, since it changes nothing and was to run at once. A note:
    /// the answer is `Ran`, later.
    Running,
    /// It has run.
    Ran(Box<ToolReturn>),
    /// A person must decide.
    Ask {
        /// How risky it is.
        risk: Risk,
        /// Why a person is asked.
        reason: String,
        /// The tool as it is to be shown.
        tool: Arc<AskedTool>,
    },
    /// It may not run.
    Deny {
        /// Why, for the model and the caller.
        reason: String,
    },
    /// It is not a call that could run: unknown tool, wrong arguments, too large.
    Invalid {
        /// What is wrong with it, for the model.
        complaint: String,
    },
    /// It was not run, since what would run it is not there now. No error of whoever called.
    Unavailable {
        /// What is away and for how long, for the model.
        why: String,
    },
}

/// How a call may be run and, after a crash, run again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTraits {
    /// Runs beside others, and again after a crash.
    pub read_only: bool,
    /// Runs again after a crash.
    pub idempotent: bool,
}

/// Permission for one call: bound to its tool and arguments by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The call it was given for.
    pub call: CallId,
    /// Hash of call, tool with its definition, and arguments under the room's own key, in hex.
    pub seal: String,
}

/// Who calls, from where, and until when. No tool asks the process or the
/// configuration for any of this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallContext {
    /// Whose call.
    pub session: SessionId,
    /// Of which turn.
    pub turn: TurnId,
    /// Of which step.
    pub step: u32,
    /// The folders the call may see; the first is the working folder.
    pub roots: Arc<[String]>,
    /// How long one call may run, in milliseconds, unless its tool says otherwise.
    pub tool_timeout_ms: u64,
    /// Requests of risk up to this need no person; `None` approves nothing.
    pub approve: Option<Risk>,
    /// The names or patterns the session is limited to; `None` means all.
    pub allow: Option<Arc<[String]>>,
    /// W3C trace context; each call derives its own span from it.
    pub traceparent: Arc<str>,
}

impl CallContext {
    /// The key under which a side effect happens once: `session/turn/call`.
    pub fn idempotency_key(&self, call: &CallId) -> String {
        format!("{}/{}/{call}", self.session, self.turn)
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// How it ended.
    pub status: CallStatus,
    /// What it returned.
    pub output: ToolOutput,
    /// How long it ran.
    pub duration_ms: u64,
}

impl ToolReturn {
    /// A result that is one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { status: CallStatus::Ok, output: ToolOutput::text(text), duration_ms: 0 }
    }

    /// The return of a call that was not run and is no error of whoever called: what would run it is not there
    /// now.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self::note(CallStatus::Cancelled, why)
    }

    /// A return without an output of the tool's own.
    pub fn note(status: CallStatus, text: impl Into<String>) -> Self {
        Self { status, output: ToolOutput::error(text), duration_ms: 0 }
    }
}
