//! Messages of the hosts of tools.

mod child;
mod descriptor;
mod returned;

use crate::approvals::{ApprovalsMode, Approved, AskedTool, Standing};
use crate::chat::{ServerWait, ToolCall};
use crate::context::RequestContext;
use crate::ids::{CallId, ServerId, SessionId, ToolName, TurnId};
use crate::limits::Left;
use crate::permission::PermissionMode;
use crate::reply::Reply;
use crate::{native, trace};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use crate::chat::{FileChange, Location, MODEL_RESULT_BYTES, TextEncoding, ToolOutput};
pub use crate::risk::{Risk, RiskSource};
pub use child::{AgentLine, ChildTerms};
pub use descriptor::ToolDescriptor;
pub use returned::ToolReturn;

/// A command of the shell in the background, for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundCommand {
    /// Its number in its session, from 1.
    pub id: u32,
    /// What was given to the shell; sanitise it before showing it in a terminal.
    pub command: String,
    /// Whether it has not ended.
    pub is_running: bool,
    /// How long it runs, or ran, in milliseconds.
    pub lasted_ms: u64,
}

/// The mailbox of an actor that hosts tools.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum ToolsMessage {
    /// May this call run? One that may run at once is answered by its result.
    Check { check: CheckRequest, context: Arc<CallContext>, reply: Reply<Verdict> },
    /// Run this call. Abandoning the reply stops it where the tool can be stopped.
    Call { call: Arc<ToolCall>, grant: Grant, context: Arc<CallContext>, reply: Reply<ToolReturn> },
    /// A call ended without its server, which may stop working on it. Not answered.
    GiveUp {
        session: SessionId,
        tool: ToolName,
        /// What the server gave instead of the result.
        wait: Arc<ServerWait>,
    },
}

/// The mailbox of the actor that hosts the tools of this process.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields without a text are named after their types")]
pub enum LocalToolsMessage {
    /// What every actor that hosts tools is asked.
    Tools(ToolsMessage),
    /// A port has listed its tools again.
    Listed {
        /// The number of the port.
        port: usize,
        tools: Vec<ToolDescriptor>,
    },
}

impl From<ToolsMessage> for LocalToolsMessage {
    fn from(message: ToolsMessage) -> Self {
        Self::Tools(message)
    }
}

/// The kind of a tool.
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

/// The display data of a call's tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTitle {
    /// The tool's title; empty if the tool is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The tool's kind.
    #[serde(default, skip_serializing_if = "ToolKind::is_other")]
    pub kind: ToolKind,
}

impl ToolTitle {
    /// Whether the tool is unknown.
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

/// The tools of one session at one moment, made once and shared.
///
/// Serialises as the list of its tools; the names and texts derived from them are made anew on the way back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<ToolDescriptor>>", into = "Vec<Arc<ToolDescriptor>>")]
pub struct ToolSet {
    tools: Vec<Arc<ToolDescriptor>>,
    native: Vec<String>,
    bytes: usize,
    contract: String,
    /// All of them but the reader of artifacts, if it is one of them.
    without_reader: Option<Arc<ToolSet>>,
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
        let is_reader = |tool: &Arc<ToolDescriptor>| tool.id.as_str() == ToolName::READ_ARTIFACT;
        let without_reader = tools
            .iter()
            .any(is_reader)
            .then(|| Arc::new(Self::from(tools.iter().filter(|tool| !is_reader(tool)).cloned().collect::<Vec<_>>())));
        Self { tools, native, bytes, contract, without_reader }
    }
}

impl From<ToolSet> for Vec<Arc<ToolDescriptor>> {
    fn from(set: ToolSet) -> Self {
        set.tools
    }
}

impl ToolSet {
    /// All of them but the reader of artifacts; `None` if that is none of them. A session without artifacts has nothing to
    /// read with it.
    pub fn without_reader(&self) -> Option<&Arc<Self>> {
        self.without_reader.as_ref()
    }

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

    /// The tools as text, one a line, for models without native tool calls.
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
    /// Lasting decisions about this tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Arc<Standing>>,
    /// Whether a permitted call without side effects may run immediately, without an intermediate message. Abandoning
    /// the question then stops it if the tool supports that.
    pub run: bool,
}

/// The verdict about a call.
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
    /// It may run and does, since it changes nothing and was to run at once. A note: the answer is `Ran`, later.
    Running,
    /// It has run.
    Ran(Box<ToolReturn>),
    /// A person must decide.
    Ask {
        /// How risky it is.
        risk: Risk,
        /// Why approval is needed.
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
        /// The error, for the model.
        complaint: String,
    },
    /// Not run: the host of the tool is unavailable. Not an error of the caller.
    Unavailable {
        /// What is unavailable and for how long, for the model.
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

/// The caller's context. Tools read none of this from the process or the configuration.
#[doc(alias = "TurnContext")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallContext {
    /// Whose call.
    pub session: SessionId,
    /// Of which turn.
    pub turn: TurnId,
    /// Of which step.
    pub step: u32,
    /// The context of the turn's request: on whose behalf the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// How a call that needs approval is handled in this turn.
    #[serde(default)]
    pub approvals: ApprovalsMode,
    /// What was left of the turn's limits when the calls of the step began.
    #[serde(default)]
    pub left: Left,
    /// How many sessions are above this one: 0 for one that works for no other.
    #[serde(default)]
    pub depth: u32,
    /// The folders the call may see; the first is the working folder.
    pub roots: Arc<[String]>,
    /// Timeout of one call in milliseconds, unless its tool has one.
    pub tool_timeout_ms: u64,
    /// What may run without asking; `None`: what the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The names or patterns the session is limited to; `None` means all.
    pub allow: Option<Arc<[String]>>,
    /// W3C trace context; each call derives its span from it.
    pub traceparent: Arc<str>,
    /// What the call hands down, if it is one of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Arc<ChildTerms>>,
    /// What the server of the tool gave instead of the call's result before: it is asked for the result, and the tool is not
    /// called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_wait: Option<Arc<ServerWait>>,
    /// The caller's `tracestate`, which goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Arc<str>>,
}

impl CallContext {
    /// The key under which a side effect happens once: `session/turn/call`.
    pub fn idempotency_key(&self, call: &CallId) -> String {
        format!("{}/{}/{call}", self.session, self.turn)
    }

    /// The `traceparent` of what a call does, in this process or another: the trace, and the call's own span.
    pub fn call_traceparent(&self, call: &CallId) -> String {
        let of_step = Some(&*self.traceparent);
        let (trace, span) = (trace::trace_id(&self.turn, of_step), trace::call_span(&self.turn, call.as_str()));
        trace::traceparent(&trace, &span, trace::flags(of_step))
    }
}
