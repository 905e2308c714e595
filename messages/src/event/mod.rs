//! Events for front ends and telemetry: one per transition, in an envelope.
//!
//! Events have no effect on a turn. They have full contents; sinks and logs must redact them.
//!
//! A new kind is a variant of [`AgentEvent`], with its keys in `docs/events.schema.json` and its line in
//! `docs/events.md`. Other places only handle specific kinds: `place` those with contents, for the limits of queues;
//! `rebuild`, and the reader's deduplication key, those in the journal; the spans, the screen and [`StreamView`]
//! those that they show.

mod envelope;
mod message;
mod place;
mod rebuild;
mod stream;

#[cfg(test)]
mod rebuild_tests;

pub use envelope::{Envelope, SCHEMA};
pub use message::answer_id;
pub(crate) use message::{answered, began, completed, interrupted, steered};
pub use place::StepEvent;
pub use rebuild::{Rebuild, rebuild};
pub use stream::{AgentStreamEvent, StreamItem, StreamView};

use crate::chat::{ContentPart, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::condense::CondenseMethod;
use crate::context::RequestContext;
use crate::cost::Cost;
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, ServerId, ToolName, TurnId};
use crate::mcp::ServerBrief;
use crate::models::{Ranked, Refused};
use crate::options::ParentTurn;
use crate::outcome::TurnOutcome;
use crate::skills::{ReselectCause, SkillForm};
use crate::store::Reasoning;
use crate::tools::{Risk, ToolKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An event of a turn, in the order of the state diagram. Its step is in the [`StepEvent`] and in the [`Envelope`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum AgentEvent {
    /// The turn began.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// Whose outcome this run's will be: the turn itself, or the request that resumed it.
        submission: TurnId,
        /// The model it runs on.
        model: ModelName,
        /// Its working folder.
        cwd: Option<String>,
        /// The caller's W3C trace context.
        traceparent: Option<String>,
        /// Its `tracestate`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tracestate: Option<Arc<str>>,
        /// The name of the session's agent, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The tools on offer.
        tools: Vec<ToolName>,
        /// The tool servers, and how each is doing.
        #[serde(default)]
        servers: Vec<ServerBrief>,
        /// The call of another session that this one works for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ParentTurn>,
        /// On whose behalf it was requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Arc<RequestContext>>,
    },
    /// A message of the user: the input of the turn, right after `turn.started`, the reply that resumed it, or a
    /// steering message.
    #[serde(rename = "message.user")]
    MessageUser {
        /// Which message: unique in the session.
        message_id: String,
        /// The content.
        parts: Vec<ContentPart>,
        /// Whether it is a steering message.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steered: bool,
    },
    /// Text and reasoning of one accepted reply, complete, regardless of earlier deltas. Omitted for a reply without
    /// either.
    #[serde(rename = "message.assistant")]
    MessageAssistant {
        /// Which message; that of its pieces.
        message_id: String,
        /// The text: the answer, or text beside calls.
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
    /// A model call began.
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
        /// Its usage.
        usage: Option<Usage>,
        /// Why it stopped.
        stop_reason: StopReason,
        /// The provider's id of the response.
        response_id: Option<String>,
        /// What it cost, if its price was known, in the currency of the prices.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    /// The model call failed permanently.
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
        /// The model of the next attempt; a fallback may differ.
        model: ModelName,
        /// The error.
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
        /// The error in the reply.
        complaint: String,
    },
    /// A call was seen, runs, or made progress.
    #[serde(rename = "tool.called")]
    ToolCalled {
        /// The call.
        call: Arc<ToolCall>,
        /// The tool's title.
        title: String,
        /// The tool's kind.
        kind: ToolKind,
        /// How far the call is.
        state: CallState,
        /// Its progress, if reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    /// A call has its result.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// The result, whole.
        result: Arc<ToolResult>,
    },
    /// A call needs approval.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: Arc<ToolCall>,
        /// How risky it is.
        risk: Risk,
        /// Why approval is needed.
        reason: String,
        /// The possible decisions.
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
    /// The turn is at a limit, and a person is asked whether it goes on.
    #[serde(rename = "limit.asked")]
    LimitAsked {
        /// The question.
        approval_id: ApprovalId,
        /// Which limit.
        guard: GuardReason,
        /// Its value.
        limit: u64,
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
        /// The exit code or signal, with the last output.
        status: String,
    },
    /// The history became too long for the model and was condensed; the journal has all of it.
    #[serde(rename = "history.condensed")]
    HistoryCondensed {
        /// How.
        method: CondenseMethod,
        /// How many messages the prompt would have held.
        messages_before: usize,
        /// How many messages were omitted.
        messages_dropped: usize,
        /// The estimate of that prompt's tokens.
        tokens_before: u64,
        /// The estimate of the shortened prompt's tokens.
        tokens_after: u64,
        /// How many attempts were made.
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
    /// The turn's model was selected by a selector, or none fits. Right after `turn.started`; not repeated when the turn
    /// is taken up again.
    #[serde(rename = "model.selected")]
    ModelSelected {
        /// The selector.
        selector: ModelName,
        /// The model; null when no model fits.
        model: Option<ModelName>,
        /// Why, in a sentence.
        why: String,
        /// How many candidates there were.
        candidates: usize,
        /// The best of them, the first one selected.
        ranked: Vec<Ranked>,
        /// What refused the others.
        refused: Vec<Refused>,
    },
    /// The turn's skills were selected, or restored after a crash. Omitted for a turn without skills.
    #[serde(rename = "skills.selected")]
    SkillsSelected {
        /// Those in the prompt, the best first.
        skills: Vec<SkillChoice>,
        /// Names of skills left out for lack of space, or because they no longer exist.
        dropped: Vec<String>,
        /// How much of the prompt they take, in bytes.
        bytes: u64,
        /// How much they may take, in bytes.
        budget_bytes: u64,
    },
    /// The turn's skills were selected again, before the prompt of this step.
    #[serde(rename = "skills.reselected")]
    SkillsReselected {
        /// Why.
        causes: Vec<ReselectCause>,
        /// Those in the prompt, the best first.
        skills: Vec<SkillChoice>,
        /// Names of skills left out for lack of space, or because they no longer exist.
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
    /// Text.
    Text(String),
    /// Thoughts.
    Reasoning(String),
    /// Discards the text of this message so far: the model call is retried.
    Reset,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Requested by the model.
    Proposed,
    /// Waiting for approval.
    AwaitingApproval,
    /// It runs.
    Running,
    /// It made progress.
    Progress,
    /// It has its result.
    Finished,
}

/// Progress of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done, in the tool's own unit.
    pub done: f64,
    /// The total, if known.
    pub total: Option<f64>,
    /// A status text.
    pub message: Option<String>,
}
