//! What front ends and telemetry may see: one event per transition, in one envelope.
//!
//! Events are told beside the walk and change nothing. A stream carries contents
//! whole; whoever writes them to a sink or a log redacts them there.
//!
//! A kind that is added is a variant of [`AgentEvent`], with its keys in `docs/events.schema.json` and its line in
//! `docs/events.md`. Other places name only the kinds that they treat in a way of their own: `place` those that carry
//! contents, which bound what waits for a reader; `rebuild`, and the key of the reader's seam, those that the journal
//! tells; the spans, the screen and [`StreamView`] those that they show.

mod envelope;
mod message;
mod place;
mod rebuild;
mod stream;

#[cfg(test)]
mod rebuild_tests;

pub use envelope::{Envelope, SCHEMA};
pub use message::answer_id;
pub(crate) use message::{answered, began, completed, steered};
pub use place::StepEvent;
pub use rebuild::{Rebuild, rebuild};
pub use stream::{AgentStreamEvent, StreamItem, StreamView};

use crate::chat::{ContentPart, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::condense::CondenseMethod;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, ServerId, ToolName, TurnId};
use crate::mcp::ServerBrief;
use crate::options::ParentTurn;
use crate::outcome::TurnOutcome;
use crate::skills::SkillForm;
use crate::store::Reasoning;
use crate::tools::{Risk, ToolKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What can happen in a turn. Reads as the state diagram does. In which step it happens is said beside it, in a
/// [`StepEvent`] and in the [`Envelope`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum AgentEvent {
    /// The turn began.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// Whose outcome this run's will be: the turn itself, or the request that
        /// resumed it.
        submission: TurnId,
        /// The model it runs on.
        model: ModelName,
        /// Its working folder.
        cwd: Option<String>,
        /// The caller's W3C trace context.
        traceparent: Option<String>,
        /// The tools on offer.
        tools: Vec<ToolName>,
        /// The tool servers, and how each is doing.
        #[serde(default)]
        servers: Vec<ServerBrief>,
        /// The call of another session that this one works for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ParentTurn>,
    },
    /// The user said something: the input of the turn, right behind its `turn.started`, the reply that resumed it, or
    /// something said into the running turn.
    #[serde(rename = "message.user")]
    MessageUser {
        /// Which message: unique in the session.
        message_id: String,
        /// What was said.
        parts: Vec<ContentPart>,
        /// It was said into the running turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steered: bool,
    },
    /// The model's words and thoughts of one answer that was understood, whole: what its pieces were, whether they were
    /// seen or not. Not told of an answer without either.
    #[serde(rename = "message.assistant")]
    MessageAssistant {
        /// Which message; that of its pieces.
        message_id: String,
        /// Its words: the answer, or what stands beside its calls.
        text: String,
        /// Its thoughts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Reasoning>,
    },
    /// A prompt was built.
    #[serde(rename = "prompt.built")]
    PromptBuilt {
        /// How many messages it holds.
        messages: usize,
        /// The estimate of its tokens.
        estimated_tokens: u64,
        /// How many messages of the history did not fit.
        dropped_messages: usize,
        /// Which layers were cut to their cap.
        cut_layers: Vec<String>,
        /// How many bytes of them were left out.
        #[serde(default)]
        cut_bytes: usize,
    },
    /// The model was asked.
    #[serde(rename = "llm.requested")]
    LlmRequested {
        /// Which model.
        model: ModelName,
    },
    /// A piece of the model's answer arrived.
    #[serde(rename = "llm.stream.chunk")]
    LlmStreamChunk {
        /// Of which message.
        message_id: String,
        /// The piece.
        delta: Delta,
    },
    /// The model answered.
    #[serde(rename = "llm.completed")]
    LlmCompleted {
        /// The model that answered.
        model: ModelName,
        /// How long it took.
        latency_ms: u64,
        /// What it cost.
        usage: Option<Usage>,
        /// Why it stopped.
        stop_reason: StopReason,
        /// The provider's id of the response.
        response_id: Option<String>,
    },
    /// The model failed for good.
    #[serde(rename = "llm.failed")]
    LlmFailed {
        /// Why.
        error: AgentError,
    },
    /// A model call is tried again.
    #[serde(rename = "llm.retried")]
    LlmRetried {
        /// Which repetition, from 1.
        attempt: u32,
        /// How many there may be.
        of: u32,
        /// How long it waits first.
        delay_ms: u64,
        /// The model asked next; another one when a fallback takes over.
        model: ModelName,
        /// What went wrong.
        reason: String,
    },
    /// The model's reply was understood.
    #[serde(rename = "action.parsed")]
    ActionParsed {
        /// `final`, `tool_call` or `ask_user`.
        action: String,
        /// The calls' tools.
        tools: Vec<ToolName>,
    },
    /// The model's reply was not understood.
    #[serde(rename = "action.malformed")]
    ActionMalformed {
        /// What is wrong with it.
        complaint: String,
    },
    /// A call was seen, runs, or made progress.
    #[serde(rename = "tool.called")]
    ToolCalled {
        /// The call.
        call: Arc<ToolCall>,
        /// What people call the tool.
        title: String,
        /// What the tool does.
        kind: ToolKind,
        /// How far the call is.
        state: CallState,
        /// How far it says it is, when it made progress.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    /// A call has its result.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// The result, whole.
        result: Arc<ToolResult>,
    },
    /// A person is asked about a call.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: Arc<ToolCall>,
        /// How risky it is.
        risk: Risk,
        /// Why a person is asked.
        reason: String,
        /// What may be answered.
        choices: Vec<String>,
        /// How the tool's definition differs from the one that was decided about before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<String>,
    },
    /// A person decided, or the question ran out.
    #[serde(rename = "approval.decided")]
    ApprovalDecided {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call_id: CallId,
        /// Whether the call may run.
        allowed: bool,
    },
    /// A guard tripped.
    #[serde(rename = "guard.tripped")]
    GuardTripped {
        /// Which.
        guard: GuardReason,
        /// Its limit.
        limit: u64,
    },
    /// The turn, or this run of it, ended. Comes last and once.
    #[serde(rename = "turn.finished")]
    TurnFinished {
        /// How.
        outcome: Box<TurnOutcome>,
    },
    /// A tool server has a process.
    #[serde(rename = "mcp.process.started")]
    McpProcessStarted {
        /// Which server.
        server: ServerId,
        /// The leader of its process group.
        pid: i32,
    },
    /// The process of a tool server ended.
    #[serde(rename = "mcp.process.stopped")]
    McpProcessStopped {
        /// Which server.
        server: ServerId,
        /// The leader of its process group.
        pid: i32,
        /// How it ended: its exit code or signal, with its last words.
        status: String,
    },
    /// The history became too long for the model and was condensed; the journal has all of it.
    #[serde(rename = "history.condensed")]
    HistoryCondensed {
        /// How.
        method: CondenseMethod,
        /// How many messages the prompt would have held.
        messages_before: usize,
        /// How many of them it holds no more.
        messages_dropped: usize,
        /// The estimate of that prompt's tokens.
        tokens_before: u64,
        /// The estimate of the shortened prompt's tokens.
        tokens_after: u64,
        /// How often a summary was asked for.
        attempts: u32,
    },
    /// An actor was started again: one of a session in its turn, or one of the tree.
    #[serde(rename = "actor.restarted")]
    ActorRestarted {
        /// Which actor; one of the tree by its path, such as `tools/files`.
        actor: String,
        /// How often: in the turn, or since the tree began.
        restarts: u32,
        /// Why.
        reason: String,
    },
    /// The turn's skills were chosen, or taken up again after a crash. Not told of a turn
    /// that gets none.
    #[serde(rename = "skills.selected")]
    SkillsSelected {
        /// Those in the prompt, the best first.
        skills: Vec<SkillChoice>,
        /// Names of those that would have been and have no room, or are gone meanwhile.
        dropped: Vec<String>,
        /// How much of the prompt they take, in bytes.
        bytes: u64,
        /// How much they may take, in bytes.
        budget_bytes: u64,
    },
}

/// A skill in a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillChoice {
    /// Its name.
    pub name: String,
    /// How well it fits the request: 1 for its name, 0.4 for a label, up to 0.2 for keywords.
    pub score: f64,
    /// How much of it is shown.
    pub form: SkillForm,
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum Delta {
    /// Words.
    Text(String),
    /// Thoughts.
    Reasoning(String),
    /// What was shown of this message is void: the call is tried again.
    Reset,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The model asked for it.
    Proposed,
    /// A person is asked about it.
    AwaitingApproval,
    /// It runs.
    Running,
    /// It made progress.
    Progress,
    /// It has its result.
    Finished,
}

/// How far a running call says it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done, in the tool's own unit.
    pub done: f64,
    /// How much there is, if the tool knows.
    pub total: Option<f64>,
    /// What it does now, for people.
    pub message: Option<String>,
}
