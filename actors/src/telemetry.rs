//! Events as spans: one for each turn, containing one for each step, which contains one for each model call and tool
//! call.
//!
//! A [`TracingEventSink`] is an event sink; subscribers of `tracing` (an exporter, a log) receive the spans under the
//! target `bob::trace`, with names and fields of the OpenTelemetry conventions for generative models. Of arguments
//! and contents only sizes are recorded, unless enabled. It stores only open spans and never waits. In addition there
//! are flat records under the target `bob::turn`, for logs.

mod records;

use crate::feed::EventSink;
use bob_messages::chat::Usage;
use bob_messages::event::{AgentEvent, CallState, Envelope};
use bob_messages::ids::{CallId, SessionId, ToolName};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tracing::field::Empty;
use tracing::{Span, info, info_span, warn};

/// The most sessions whose open turn is remembered. A turn that was refused has no end; one more is forgotten then.
const MOST_TURNS: usize = 100_000;

/// Turns events into nested spans.
#[derive(Debug, Default)]
pub struct TracingEventSink {
    with_contents: bool,
    open: Mutex<HashMap<SessionId, OpenTurn>>,
}

/// The spans of one turn that are open.
#[derive(Debug)]
struct OpenTurn {
    turn: Span,
    step: Option<(u32, Span)>,
    model: Option<Span>,
    calls: HashMap<CallId, Span>,
}

impl TracingEventSink {
    /// Creates a sink that records only sizes of arguments and results.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records full contents. They may contain any text of users, models and tools, including secrets.
    #[must_use]
    pub fn with_contents(self) -> Self {
        Self { with_contents: true, ..self }
    }

    fn shown(&self, bytes: usize, whole: impl FnOnce() -> String) -> String {
        if self.with_contents { whole() } else { format!("({bytes} bytes)") }
    }

    fn begin(&self, envelope: &Envelope, session: &SessionId) -> Option<OpenTurn> {
        let AgentEvent::TurnStarted { model, submission, .. } = &envelope.event else { return None };
        let turn = info_span!(
            target: "bob::trace",
            parent: None,
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = %session,
            gen_ai.request.model = %model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            turn = envelope.turn_id.as_ref().map(tracing::field::display),
            submission = %submission,
            trace_id = %envelope.trace_id,
            span_id = %envelope.span_id,
            parent_span_id = envelope.parent_span_id.as_deref(),
            finish_reason = Empty,
            guard_reason = Empty,
            steps = Empty,
            duration_ms = Empty,
            error = Empty,
        );
        Some(OpenTurn { turn, step: None, model: None, calls: HashMap::new() })
    }

    fn tell(&self, open: &mut OpenTurn, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::PromptBuilt { messages, estimated_tokens, dropped_messages, .. } => {
                let span = open.at(envelope.step);
                info!(target: "bob::trace", parent: &span, messages, estimated_tokens, dropped_messages, "prompt.built");
            }
            AgentEvent::HistoryCondensed { method, messages_dropped, tokens_before, tokens_after, .. } => {
                let span = open.at(envelope.step);
                info!(
                    target: "bob::trace", parent: &span,
                    ?method, messages_dropped, tokens_before, tokens_after, "history.condensed"
                );
            }
            AgentEvent::SkillsSelected { skills, dropped, bytes, .. } => {
                let (skills, dropped) = (skills.len(), dropped.len());
                info!(target: "bob::trace", parent: &open.turn, skills, dropped, bytes, "skills.selected");
            }
            AgentEvent::LlmRequested { model } => {
                let span = open.at(envelope.step);
                open.model = Some(info_span!(
                    target: "bob::trace",
                    parent: &span,
                    "chat",
                    gen_ai.operation.name = "chat",
                    gen_ai.request.model = %model,
                    gen_ai.response.model = Empty,
                    gen_ai.response.id = Empty,
                    gen_ai.response.finish_reasons = Empty,
                    gen_ai.usage.input_tokens = Empty,
                    gen_ai.usage.output_tokens = Empty,
                    latency_ms = Empty,
                    error = Empty,
                ));
            }
            AgentEvent::LlmCompleted { model, latency_ms, usage, stop_reason, response_id, .. } => {
                let Some(span) = open.model.take() else { return };
                span.record("gen_ai.response.model", tracing::field::display(model));
                span.record("gen_ai.response.id", response_id.as_deref());
                span.record("gen_ai.response.finish_reasons", tracing::field::debug(stop_reason));
                span.record("latency_ms", latency_ms);
                usage.iter().for_each(|usage| spent(&span, usage));
            }
            AgentEvent::LlmFailed { error, .. } => {
                if let Some(span) = open.model.take() {
                    span.record("error", error.kind());
                }
            }
            AgentEvent::LlmRetried { attempt, of, delay_ms, reason, .. } => {
                let span = open.model.as_ref().unwrap_or(&open.turn);
                warn!(target: "bob::trace", parent: span, attempt, of, delay_ms, %reason, "llm.retried");
            }
            AgentEvent::ActionParsed { action, .. } => {
                info!(target: "bob::trace", parent: &open.at(envelope.step), %action, "action.parsed");
            }
            AgentEvent::ActionMalformed { .. } => {
                warn!(target: "bob::trace", parent: &open.at(envelope.step), "action.malformed");
            }
            AgentEvent::ToolCalled { call, state: CallState::Running, .. } => {
                let (id, span) = (&envelope.span_id, open.at(envelope.step));
                let arguments = self.shown(call.argument_bytes, || call.arguments.to_string());
                let span = info_span!(
                    target: "bob::trace",
                    parent: &span,
                    "execute_tool",
                    gen_ai.operation.name = "execute_tool",
                    gen_ai.tool.name = %tool_name(&call.name),
                    gen_ai.tool.call.id = %call.id,
                    span_id = %id,
                    arguments,
                    status = Empty,
                    result = Empty,
                    duration_ms = Empty,
                );
                open.calls.insert(call.id.clone(), span);
            }
            AgentEvent::ToolCompleted { result } => {
                let shown = self.shown(result.output.bytes(), || result.output.plain());
                match open.calls.remove(&result.call) {
                    Some(span) => {
                        span.record("status", tracing::field::debug(result.status));
                        span.record("duration_ms", result.duration_ms);
                        span.record("result", shown);
                    }
                    // It never ran: denied, refused or settled.
                    None => info!(
                        target: "bob::trace", parent: &open.at(envelope.step),
                        tool = %tool_name(&result.name), call = %result.call, status = ?result.status, "tool.completed"
                    ),
                }
            }
            AgentEvent::ApprovalRequested { call, risk, .. } => {
                info!(target: "bob::trace", parent: &open.turn, tool = %tool_name(&call.name), call = %call.id, ?risk, "approval.requested");
            }
            AgentEvent::ApprovalDecided { call_id, allowed, .. } => {
                info!(target: "bob::trace", parent: &open.turn, call = %call_id, allowed, "approval.decided");
            }
            AgentEvent::GuardTripped { guard, limit } => {
                warn!(target: "bob::trace", parent: &open.turn, ?guard, limit, "guard.tripped");
            }
            AgentEvent::ActorRestarted { actor, restarts, reason } => {
                warn!(target: "bob::trace", parent: &open.turn, actor, restarts, reason, "actor.restarted");
            }
            AgentEvent::TurnFinished { outcome } => {
                let span = &open.turn;
                span.record("finish_reason", tracing::field::debug(outcome.finish_reason));
                span.record("guard_reason", outcome.guard_reason.map(tracing::field::debug));
                span.record("error", outcome.error.as_ref().map(|error| error.kind()));
                span.record("steps", outcome.steps);
                span.record("duration_ms", outcome.duration_ms);
                spent(span, &outcome.usage);
            }
            _others_have_no_span => {}
        }
    }
}

impl OpenTurn {
    /// The span of this step, and of the turn where there is none; the span of the step before it ends.
    fn at(&mut self, step: Option<u32>) -> Span {
        match (&self.step, step) {
            (_, None) => self.turn.clone(),
            (Some((open, span)), Some(step)) if *open == step => span.clone(),
            (_, Some(step)) => {
                let span = info_span!(target: "bob::trace", parent: &self.turn, "step", step);
                self.step = Some((step, span.clone()));
                span
            }
        }
    }
}

fn spent(span: &Span, usage: &Usage) {
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
}

/// Events of processes and actors belong to no turn.
fn of_tree(event: &AgentEvent) {
    match event {
        AgentEvent::McpProcessStarted { server, pid } => {
            info!(target: "bob::trace", parent: None, %server, pid, "mcp.process.started");
        }
        AgentEvent::McpProcessStopped { server, pid, status } => {
            info!(target: "bob::trace", parent: None, %server, pid, status, "mcp.process.stopped");
        }
        AgentEvent::ActorRestarted { actor, restarts, reason } => {
            warn!(target: "bob::trace", parent: None, actor, restarts, reason, "actor.restarted");
        }
        _of_turns => {}
    }
}

impl EventSink for TracingEventSink {
    fn emit(&self, envelope: &Envelope) {
        let Some(session) = &envelope.session_id else { return of_tree(&envelope.event) };
        records::log(envelope, session);
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = self.begin(envelope, session) {
            if all.len() >= MOST_TURNS
                && let Some(forgotten) = all.keys().next().cloned()
            {
                all.remove(&forgotten);
            }
            all.insert(session.clone(), open);
            return;
        }
        let Some(open) = all.get_mut(session) else { return };
        self.tell(open, envelope);
        if envelope.event.is_terminal().is_some() {
            all.remove(session);
        }
    }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;

/// The name of a tool for logs. A name that no tool can have was invented by a model: it is content, like arguments.
fn tool_name(name: &ToolName) -> &str {
    let name = name.as_str();
    let is_of_a_tool = name.contains('/') || name == "ask_user";
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'.'));
    if is_of_a_tool && is_plain { name } else { "unknown" }
}
