//! What front ends and telemetry may see: one event per transition, in one envelope.
//!
//! Events are told beside the walk and change nothing. A stream carries contents
//! whole; whoever writes them to a sink or a log redacts them there.

use crate::chat::{FinishReason, GuardReason, StopReason, ToolCall, ToolResult, Usage};
use crate::error::AgentError;
use crate::ids::{ApprovalId, CallId, ModelName, SessionId, ToolName, TurnId};
use crate::sessions::TurnOutcome;
use crate::tools::{Risk, ToolKind};
use crate::{Millis, trace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The version of the event schema.
pub const SCHEMA: u32 = 1;

/// One event and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The version of the schema.
    pub schema: u32,
    /// Rises by one within a turn, from 1.
    pub seq: u64,
    /// When it happened.
    pub time: Millis,
    /// Whose turn.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// The trace: 32 hex digits.
    pub trace_id: String,
    /// The span: 16 hex digits.
    pub span_id: String,
    /// The span around it.
    pub parent_span_id: Option<String>,
    /// What happened.
    pub event: AgentEvent,
}

impl Envelope {
    /// The last event of a turn of which no other event was seen.
    pub fn finished(at: Millis, outcome: Box<TurnOutcome>) -> Self {
        let turn_id = outcome.turn_id.clone();
        Self {
            schema: SCHEMA,
            seq: 1,
            time: at,
            session_id: outcome.session_id.clone(),
            trace_id: trace::trace_id(&turn_id, None),
            span_id: trace::turn_span(&turn_id),
            parent_span_id: None,
            turn_id,
            event: AgentEvent::TurnFinished { outcome },
        }
    }

    /// What a reader of the turn's stream gets of it, if anything.
    pub fn stream_item(&self) -> Option<StreamItem> {
        Some(StreamItem {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id.clone(),
            step: self.event.step(),
            parent: None,
            event: self.event.stream_view()?,
        })
    }

    /// The event as one flat JSON object: the envelope's keys and the event's side by
    /// side; of a call its `call_id`, `tool` and `arguments`; of `turn.finished` all
    /// keys of the outcome. Readers ignore what they do not know.
    pub fn to_json(&self) -> Value {
        let mut flat = Map::new();
        let mut lift = |value: Value| {
            if let Value::Object(keys) = value {
                flat.extend(keys);
            }
        };
        let mut event = serde_json::to_value(&self.event).unwrap_or_default();
        if let Some(inner) = event.as_object_mut() {
            for nested in ["call", "result", "outcome"] {
                if let Some(Value::Object(mut keys)) = inner.remove(nested) {
                    let name = keys.remove("name");
                    let id = keys.remove("id").or_else(|| keys.remove("call"));
                    if let Some(name) = name {
                        keys.insert("tool".into(), name);
                    }
                    if let Some(id) = id {
                        keys.insert("call_id".into(), id);
                    }
                    lift(Value::Object(keys));
                }
            }
        }
        lift(event);
        lift(serde_json::json!({
            "schema": self.schema, "seq": self.seq, "time": self.time,
            "session_id": self.session_id, "turn_id": self.turn_id,
            "trace_id": self.trace_id, "span_id": self.span_id, "parent_span_id": self.parent_span_id,
        }));
        Value::Object(flat)
    }
}

/// What can happen in a turn. Reads as the state diagram does.
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
    },
    /// A prompt was built.
    #[serde(rename = "prompt.built")]
    PromptBuilt {
        /// For which step.
        step: u32,
        /// How many messages it holds.
        messages: usize,
        /// The estimate of its tokens.
        estimated_tokens: u64,
        /// How many messages of the history did not fit.
        dropped_messages: usize,
        /// Which layers were cut to their cap.
        cut_layers: Vec<String>,
    },
    /// The model was asked.
    #[serde(rename = "llm.requested")]
    LlmRequested {
        /// In which step.
        step: u32,
        /// Which model.
        model: ModelName,
    },
    /// A piece of the model's answer arrived.
    #[serde(rename = "llm.stream.chunk")]
    LlmStreamChunk {
        /// In which step.
        step: u32,
        /// Of which message.
        message_id: String,
        /// The piece.
        delta: Delta,
    },
    /// The model answered.
    #[serde(rename = "llm.completed")]
    LlmCompleted {
        /// In which step.
        step: u32,
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
        /// In which step.
        step: u32,
        /// Why.
        error: AgentError,
    },
    /// A model call is tried again.
    #[serde(rename = "llm.retried")]
    LlmRetried {
        /// In which step.
        step: u32,
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
        /// In which step.
        step: u32,
        /// `final`, `tool_call` or `ask_user`.
        action: String,
        /// The calls' tools.
        tools: Vec<ToolName>,
    },
    /// The model's reply was not understood.
    #[serde(rename = "action.malformed")]
    ActionMalformed {
        /// In which step.
        step: u32,
        /// What is wrong with it.
        complaint: String,
    },
    /// A call was seen, runs, or made progress.
    #[serde(rename = "tool.called")]
    ToolCalled {
        /// In which step.
        step: u32,
        /// The call.
        call: Arc<ToolCall>,
        /// What people call the tool.
        title: String,
        /// What the tool does.
        kind: ToolKind,
        /// How far the call is.
        state: CallState,
    },
    /// A call has its result.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// In which step.
        step: u32,
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
    /// An actor was started again.
    #[serde(rename = "actor.restarted")]
    ActorRestarted {
        /// Which actor.
        actor: String,
        /// How often in its period.
        restarts: u32,
        /// Why.
        reason: String,
    },
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

/// What a reader of one turn's stream gets. Every item names its session and turn
/// in [`StreamItem`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentStreamEvent {
    /// Words of the answer.
    TextDelta {
        /// Of which message.
        message_id: String,
        /// The words.
        text: String,
    },
    /// The words of this message so far are void.
    TextReset {
        /// Of which message.
        message_id: String,
    },
    /// Thoughts of the model.
    ReasoningDelta {
        /// Of which message.
        message_id: String,
        /// The thoughts.
        text: String,
    },
    /// A tool call changed its state.
    ToolCall {
        /// The call: id, name, arguments.
        call: Arc<ToolCall>,
        /// How far it is.
        state: CallState,
        /// What people call the tool.
        title: String,
        /// What the tool does.
        kind: ToolKind,
    },
    /// A tool call has its result: status, locations, output.
    ToolResult {
        /// The result, whole.
        result: Arc<ToolResult>,
    },
    /// A person is asked.
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: Arc<ToolCall>,
        /// How risky it is.
        risk: Risk,
        /// What may be answered.
        choices: Vec<String>,
    },
    /// The turn ended; comes last and once.
    Finished {
        /// How, with usage and everything else.
        outcome: Box<TurnOutcome>,
    },
    /// Something failed on the way; the turn says more in `Finished`.
    Error {
        /// What.
        error: AgentError,
    },
}

/// One item of a stream: the event and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamItem {
    /// Whose turn.
    pub session_id: SessionId,
    /// Which turn.
    pub turn_id: TurnId,
    /// Which step, where there is one.
    pub step: Option<u32>,
    /// The session this one works for, if any.
    pub parent: Option<SessionId>,
    /// What happened.
    pub event: AgentStreamEvent,
}

impl AgentEvent {
    /// The step it belongs to, where there is one.
    pub fn step(&self) -> Option<u32> {
        match self {
            Self::PromptBuilt { step, .. }
            | Self::LlmRequested { step, .. }
            | Self::LlmStreamChunk { step, .. }
            | Self::LlmCompleted { step, .. }
            | Self::LlmFailed { step, .. }
            | Self::LlmRetried { step, .. }
            | Self::ActionParsed { step, .. }
            | Self::ActionMalformed { step, .. }
            | Self::ToolCalled { step, .. }
            | Self::ToolCompleted { step, .. } => Some(*step),
            Self::TurnStarted { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalDecided { .. }
            | Self::GuardTripped { .. }
            | Self::TurnFinished { .. }
            | Self::ActorRestarted { .. } => None,
        }
    }

    /// The call it belongs to, where there is one.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::ToolCalled { call, .. } | Self::ApprovalRequested { call, .. } => Some(&call.id),
            Self::ToolCompleted { result, .. } => Some(&result.call),
            Self::ApprovalDecided { call_id, .. } => Some(call_id),
            _other_events_have_no_call => None,
        }
    }

    /// What a reader of the turn's stream gets of it; `None` for what only
    /// telemetry wants.
    pub fn stream_view(&self) -> Option<AgentStreamEvent> {
        Some(match self {
            Self::LlmStreamChunk { message_id, delta, .. } => {
                let message_id = message_id.clone();
                match delta {
                    Delta::Text(text) => AgentStreamEvent::TextDelta { message_id, text: text.clone() },
                    Delta::Reasoning(text) => AgentStreamEvent::ReasoningDelta { message_id, text: text.clone() },
                    Delta::Reset => AgentStreamEvent::TextReset { message_id },
                }
            }
            Self::ToolCalled { call, title, kind, state, .. } => {
                AgentStreamEvent::ToolCall { call: Arc::clone(call), state: *state, title: title.clone(), kind: *kind }
            }
            Self::ToolCompleted { result, .. } => AgentStreamEvent::ToolResult { result: Arc::clone(result) },
            Self::ApprovalRequested { approval_id, call, risk, choices, .. } => AgentStreamEvent::ApprovalRequested {
                approval_id: approval_id.clone(),
                call: Arc::clone(call),
                risk: *risk,
                choices: choices.clone(),
            },
            Self::TurnFinished { outcome } => AgentStreamEvent::Finished { outcome: outcome.clone() },
            Self::LlmFailed { error, .. } => AgentStreamEvent::Error { error: error.clone() },
            Self::TurnStarted { .. }
            | Self::PromptBuilt { .. }
            | Self::LlmRequested { .. }
            | Self::LlmCompleted { .. }
            | Self::LlmRetried { .. }
            | Self::ActionParsed { .. }
            | Self::ActionMalformed { .. }
            | Self::ApprovalDecided { .. }
            | Self::GuardTripped { .. }
            | Self::ActorRestarted { .. } => return None,
        })
    }

    /// Whether it ends a turn's stream.
    pub fn is_terminal(&self) -> Option<FinishReason> {
        match self {
            Self::TurnFinished { outcome } => Some(outcome.finish_reason),
            _every_other_event => None,
        }
    }
}
