//! Requests to a runtime, and their results.

use super::agent::Agent;
use bob_messages::chat::ContentPart;
use bob_messages::context::RequestContext;
use bob_messages::ids::{ModelName, RequestId, ResumeToken, SessionId};
use bob_messages::input::ApprovalsMode;
use bob_messages::limits::Limits;
use bob_messages::options::SessionOptions;
use bob_messages::outcome::{SuspendReason, TurnOutcome};
use bob_messages::permission::PermissionMode;
use bob_messages::store::SessionState;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// One turn to be run: a message to a session.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// Which session; it is created when it does not exist.
    pub session: SessionId,
    /// The user's message. Text works with every model; a part that the model does not accept is refused by name
    /// before anything is sent.
    pub input: Vec<ContentPart>,
    /// The model for this turn; else the session's, else the default.
    pub model: Option<ModelName>,
    /// On whose behalf the request is made: given to tools, models, approval ports and the children of the turn, and the
    /// same after a crash. Without one, a session that works for another takes over the context of the turn it works for.
    pub context: Option<Arc<RequestContext>>,
    /// Kept in the journal and echoed in the outcome. At most 64 KiB, names and values together.
    pub labels: BTreeMap<String, String>,
    /// The caller's id for the request, of 1 to 1,024 bytes: repeating it returns the first outcome and runs nothing. Without one the
    /// request is named after its turn, as the outcome shows; such a generated id is remembered for the session's
    /// last 64 submissions.
    pub request_id: Option<RequestId>,
    /// The tools this turn is limited to, by name or pattern; `None` means all that policy allows.
    pub allow_tools: Option<Vec<String>>,
    /// W3C trace context of the caller: its span is around the turn's, its flags decide what is recorded.
    pub traceparent: Option<String>,
    /// The `tracestate` that came with it, which is handed on to models and tool servers; up to 1,024 bytes of printable
    /// ASCII, else it is dropped.
    pub tracestate: Option<String>,
    /// How a call that needs approval is handled.
    pub approvals: ApprovalsMode,
    /// What the turn may do without asking; else the session's mode, else the policy's.
    pub mode: Option<PermissionMode>,
    /// Bounds for this turn instead of the runtime's.
    pub limits: Option<Limits>,
    /// Options of the session from this turn on, all of them; `None` changes nothing. They are
    /// judged as [`AgentRuntime::open`](super::AgentRuntime::open) judges them.
    pub options: Option<SessionOptions>,
    /// Whether a person is waiting; such turns go before batch work.
    pub interactive: bool,
    /// Whether the approval port is asked before the turn ends at one of its limits
    /// ([`ApprovalPort::go_on`](super::ApprovalPort::go_on)), where [`approvals`](Self::approvals) waits. The bound on its
    /// whole time is not asked about.
    pub ask_at_limits: bool,
    /// Cancelling it cancels the turn, as [`AgentRuntime::cancel`](super::AgentRuntime::cancel) does.
    #[doc(alias = "CancelToken")]
    pub cancel: Option<CancellationToken>,
    /// A JSON schema for the final answer, which is then the text of one JSON value. The model is asked again for an
    /// answer that does not fit, within the guards; a second one in a row is an error of the model. At most 64 KiB;
    /// an invalid schema is refused before anything is sent.
    pub output_schema: Option<Arc<Value>>,
}

impl AgentRequest {
    /// A message of one text to a session, with the runtime's defaults.
    pub fn text(session: SessionId, text: impl Into<String>) -> Self {
        Self {
            session,
            input: vec![ContentPart::text(text)],
            model: None,
            context: None,
            labels: BTreeMap::new(),
            request_id: None,
            allow_tools: None,
            traceparent: None,
            tracestate: None,
            approvals: ApprovalsMode::Deny,
            mode: None,
            limits: None,
            options: None,
            interactive: false,
            ask_at_limits: false,
            cancel: None,
            output_schema: None,
        }
    }

    /// A message of one text to a new session of its own, which is named `once-` and a UUID. The session stays in the
    /// store, as any other.
    pub fn once(text: impl Into<String>) -> Self {
        let session = SessionId::parse(&format!("once-{}", uuid::Uuid::now_v7()));
        // A UUID has letters, digits and `-`.
        Self::text(session.unwrap_or_else(|never| unreachable!("{never}")), text)
    }

    /// Sets the context.
    #[must_use]
    pub fn context(mut self, context: impl Into<Arc<RequestContext>>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// The session continues as this agent from this turn on: its name, instructions, model, tools and mode replace
    /// those of the [`options`](Self::options).
    #[must_use]
    pub fn agent(mut self, agent: &Agent) -> Self {
        self.options = Some(agent.applied_to(self.options.unwrap_or_default()));
        self
    }
}

/// The outcome of a run.
pub type AgentResponse = TurnOutcome;

/// The result of a run. A turn that failed, was cancelled or reached a guard has an outcome as well; only a request
/// that was not accepted is an error.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentRunResult {
    /// The turn is over.
    Finished(Box<AgentResponse>),
    /// The turn is suspended; its run has ended.
    Suspended {
        /// The reason.
        reason: SuspendReason,
        /// Resumes the turn, also from another process.
        token: ResumeToken,
        /// The question as text.
        question: String,
        /// The outcome so far.
        response: Box<AgentResponse>,
    },
}

impl AgentRunResult {
    /// Returns the outcome of the run, however it ended.
    pub fn response(&self) -> &AgentResponse {
        match self {
            Self::Finished(response) | Self::Suspended { response, .. } => response,
        }
    }
}

impl From<Box<TurnOutcome>> for AgentRunResult {
    fn from(response: Box<TurnOutcome>) -> Self {
        match (response.suspend_reason, &response.token) {
            (Some(reason), Some(token)) => Self::Suspended {
                reason,
                token: token.clone(),
                question: response.question.clone().unwrap_or_default(),
                response,
            },
            _ => Self::Finished(response),
        }
    }
}

/// One session, read from its journal. A test makes one by [`bare`](Self::bare).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionLook {
    /// Which.
    pub session: SessionId,
    /// The options of the current turn.
    pub options: SessionOptions,
    /// The options from the next turn on, if they differ.
    pub next_options: Option<SessionOptions>,
    /// The title it was given, else the beginning of its first message.
    pub title: Option<Box<str>>,
    /// Its state; a turn that a crash interrupted is `Running` until it is finished.
    pub state: SessionState,
    /// How many of its turns have ended.
    pub turns: u64,
    /// How many accepted inputs wait for their turn.
    pub waiting: usize,
    /// How its last run ended.
    pub last: Option<Box<AgentResponse>>,
}

impl SessionLook {
    /// A session of which there is nothing but its name.
    pub fn bare(session: SessionId) -> Self {
        let (options, next_options, title, state, turns, waiting, last) = Default::default();
        Self { session, options, next_options, title, state, turns, waiting, last }
    }
}

/// How a runtime is.
#[doc(alias = "HealthStatus")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeStatus {
    /// Everything answers.
    Ready,
    /// Something is being started again.
    Degraded,
    /// No new turns are taken.
    Draining,
    /// The tree has ended.
    Stopped,
}

/// The health of a runtime, checked on request. A double of one makes it by [`ready`](Self::ready).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeHealth {
    /// Summary.
    pub status: RuntimeStatus,
    /// Whether the LlmActor responds and knows the default model.
    pub llm_ready: bool,
    /// Whether the tools room answers.
    pub tools_ready: bool,
    /// Whether all tool servers are ready; true if none is configured.
    pub mcp_pool_ready: bool,
    /// Whether the StoreActor answers.
    pub store_ready: bool,
    /// How many sessions have an actor, or a request that waits for its turn.
    pub live_sessions: usize,
    /// How many turns run, those that wait for a person included.
    pub running_turns: usize,
    /// How many requests wait until a turn may run; they are not accepted yet.
    pub waiting_turns: usize,
}

impl RuntimeHealth {
    /// A runtime without sessions, of which everything answers.
    pub fn ready() -> Self {
        Self {
            status: RuntimeStatus::Ready,
            llm_ready: true,
            tools_ready: true,
            mcp_pool_ready: true,
            store_ready: true,
            live_sessions: 0,
            running_turns: 0,
            waiting_turns: 0,
        }
    }
}
