//! Events as spans: one for each turn, below it one for each step, below that one for each model and tool call.
//!
//! A [`TracingEventSink`] is an event sink; subscribers of `tracing` (an exporter, a log) receive the spans under the
//! target `bob::trace`, with names and fields of the OpenTelemetry conventions for generative models. Of arguments
//! and contents only sizes are recorded, unless enabled. It stores only open spans and never waits. In addition there
//! are flat records under the target `bob::turn`, for logs. The span of a turn is below the one in which its request was
//! submitted, if there is one.

pub mod names;
mod records;

use crate::feed::EventSink;
use bob_messages::chat::{CallStatus, Usage};
use bob_messages::event::{AgentEvent, CallState, Envelope};
use bob_messages::ids::{CallId, SessionId, ToolName, TurnId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tracing::dispatcher::with_default;
use tracing::field::Empty;
use tracing::{Dispatch, Level, Metadata, Span, info, info_span, warn};

/// Whether a span or record is for a program that embeds the library: all but those of the actor library, which has a
/// span at `info` for the whole life of each actor. For a filter of `tracing-subscriber`, such as
/// `layer.with_filter(filter_fn(is_for_programs))`; in the words of an environment filter, `info,ractor=warn`.
pub fn is_for_programs(metadata: &Metadata<'_>) -> bool {
    let is_of_actors = metadata.target() == "ractor" || metadata.target().starts_with("ractor::");
    !is_of_actors || *metadata.level() <= Level::WARN
}

/// The most sessions whose open turn is remembered. A turn that was refused has no end; one more is forgotten then.
const MOST_TURNS: usize = 100_000;

/// Turns events into nested spans.
#[derive(Debug, Default)]
pub struct TracingEventSink {
    with_contents: bool,
    open: Mutex<HashMap<SessionId, OpenTurn>>,
    /// The spans in which requests were submitted whose runs have not begun.
    callers: Mutex<HashMap<TurnId, Span>>,
}

#[derive(Debug)]
struct OpenTurn {
    turn: Span,
    /// The subscriber of the caller, which has the spans.
    dispatch: Option<Dispatch>,
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
        let AgentEvent::TurnStarted { model, submission, agent, .. } = &envelope.event else { return None };
        let caller = self.callers.lock().unwrap_or_else(PoisonError::into_inner).remove(submission);
        let dispatch = caller.as_ref().and_then(subscriber_of);
        let around = caller.as_ref().and_then(Span::id);
        let turn = within(dispatch.as_ref(), || {
            info_span!(
                target: "bob::trace",
                parent: around,
                names::INVOKE_AGENT,
                { names::OPERATION } = names::INVOKE_AGENT,
                { names::AGENT } = agent.as_deref(),
                { names::CONVERSATION } = %session,
                { names::PROVIDER } = model.provider(),
                { names::REQUEST_MODEL } = model.model(),
                { names::INPUT_TOKENS } = Empty,
                { names::OUTPUT_TOKENS } = Empty,
                { names::ERROR } = Empty,
                turn = envelope.turn_id.as_ref().map(tracing::field::display),
                submission = %submission,
                trace_id = %envelope.trace_id,
                span_id = %envelope.span_id,
                parent_span_id = envelope.parent_span_id.as_deref(),
                finish_reason = Empty,
                guard_reason = Empty,
                steps = Empty,
                duration_ms = Empty,
            )
        });
        caller.into_iter().for_each(release);
        Some(OpenTurn { turn, dispatch, step: None, model: None, calls: HashMap::new() })
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
            AgentEvent::SkillsReselected { causes, skills, dropped, bytes, .. } => {
                let (span, skills, dropped) = (open.at(envelope.step), skills.len(), dropped.len());
                info!(target: "bob::trace", parent: &span, ?causes, skills, dropped, bytes, "skills.reselected");
            }
            AgentEvent::LlmRequested { model } => {
                let span = open.at(envelope.step);
                open.model = Some(info_span!(
                    target: "bob::trace",
                    parent: &span,
                    names::CHAT,
                    { names::OPERATION } = names::CHAT,
                    { names::PROVIDER } = model.provider(),
                    { names::REQUEST_MODEL } = model.model(),
                    { names::RESPONSE_MODEL } = Empty,
                    { names::RESPONSE_ID } = Empty,
                    { names::FINISH_REASONS } = Empty,
                    { names::INPUT_TOKENS } = Empty,
                    { names::OUTPUT_TOKENS } = Empty,
                    { names::ERROR } = Empty,
                    latency_ms = Empty,
                ));
            }
            AgentEvent::LlmCompleted { model, latency_ms, usage, stop_reason, response_id, .. } => {
                let Some(span) = open.model.take() else { return };
                span.record(names::RESPONSE_MODEL, model.model());
                span.record(names::RESPONSE_ID, response_id.as_deref());
                span.record(names::FINISH_REASONS, tracing::field::debug(stop_reason));
                span.record("latency_ms", latency_ms);
                usage.iter().for_each(|usage| spent(&span, usage));
            }
            AgentEvent::LlmFailed { error, .. } => {
                if let Some(span) = open.model.take() {
                    span.record(names::ERROR, error.kind());
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
                    names::EXECUTE_TOOL,
                    { names::OPERATION } = names::EXECUTE_TOOL,
                    { names::TOOL } = tool_name(&call.name),
                    { names::CALL } = %call.id,
                    { names::ERROR } = Empty,
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
                        if result.status != CallStatus::Ok {
                            span.record(names::ERROR, records::word(&result.status));
                        }
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
                span.record(names::ERROR, outcome.error.as_ref().map(|error| error.kind()));
                span.record("steps", outcome.steps);
                span.record("duration_ms", outcome.duration_ms);
                spent(span, &outcome.usage);
            }
            _others_have_no_span => {}
        }
    }
}

impl OpenTurn {
    /// Closes what is open of it.
    fn close(self) {
        let dispatch = self.dispatch.clone();
        within(dispatch.as_ref(), || drop(self));
    }

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
    span.record(names::INPUT_TOKENS, usage.input_tokens);
    span.record(names::OUTPUT_TOKENS, usage.output_tokens);
}

fn subscriber_of(span: &Span) -> Option<Dispatch> {
    span.with_subscriber(|(_, dispatch)| dispatch.clone())
}

/// Lets a span go, and those around it that nothing else holds.
fn release(span: Span) {
    let dispatch = subscriber_of(&span);
    within(dispatch.as_ref(), || drop(span));
}

/// Does this under the subscriber of the caller: another one does not know its span, and a span that closes closes those
/// around it under the subscriber of the thread.
fn within<T>(dispatch: Option<&Dispatch>, act: impl FnOnce() -> T) -> T {
    match dispatch {
        Some(dispatch) => with_default(dispatch, act),
        None => act(),
    }
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
                all.remove(&forgotten).into_iter().for_each(OpenTurn::close);
            }
            all.insert(session.clone(), open).into_iter().for_each(OpenTurn::close);
            return;
        }
        let Some(open) = all.get_mut(session) else { return };
        let dispatch = open.dispatch.clone();
        within(dispatch.as_ref(), || self.tell(open, envelope));
        if envelope.event.is_terminal().is_some() {
            all.remove(session).into_iter().for_each(OpenTurn::close);
        }
    }

    fn submitted(&self, submission: &TurnId) -> bool {
        let around = Span::current();
        let is_known = !around.is_disabled();
        if is_known {
            self.callers.lock().unwrap_or_else(PoisonError::into_inner).insert(submission.clone(), around);
        }
        is_known
    }

    fn answered(&self, submission: &TurnId) {
        let around = self.callers.lock().unwrap_or_else(PoisonError::into_inner).remove(submission);
        around.into_iter().for_each(release);
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
