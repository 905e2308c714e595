//! Spans from events: one for each run of a turn, below it one for each model call and each tool call that ran.
//!
//! Ids are derived from turn, step and call, so two processes that share a turn tell of one trace.

use super::contents::{Contents, answer, reason, shortened};
use bob_actors::telemetry::names;
use bob_messages::chat::{CallStatus, FinishReason};
use bob_messages::event::{AgentEvent, CallState, Delta, Envelope};
use bob_messages::ids::{CallId, SessionId, TurnId};
use bob_messages::trace::Flags;
use bob_messages::{Millis, trace};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// A turn that was refused has no end: at most this many are followed.
const MOST_TURNS: usize = 10_000;
/// An id that claims to be older than this is none that tells the time.
const OLDEST: Millis = 30 * 24 * 3_600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Client = 3,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Amount(f64),
    Texts(Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    /// The caller's `tracestate`.
    pub(super) state: Option<Arc<str>>,
    pub(super) flags: Flags,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) start: Millis,
    /// When it began in this process: a turn of which an earlier process ended began before.
    pub(super) began: Millis,
    pub(super) end: Millis,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) is_error: bool,
}

impl Span {
    fn text(&mut self, key: &'static str, value: impl ToString) {
        self.attributes.push((key, Value::Text(value.to_string())));
    }

    fn number(&mut self, key: &'static str, value: impl Into<u64>) {
        self.attributes.push((key, Value::Number(value.into())));
    }

    fn amount(&mut self, key: &'static str, value: f64) {
        self.attributes.push((key, Value::Amount(value)));
    }

    fn failed(&mut self, kind: &str) {
        self.text(names::ERROR, kind);
        self.is_error = true;
    }

    fn ended(mut self, at: Millis) -> Self {
        self.end = at;
        self
    }
}

#[derive(Debug)]
struct Run {
    span: Span,
    model: Option<Span>,
    calls: HashMap<CallId, Span>,
    is_sampled: bool,
    /// The texts, if they are sent.
    contents: Option<Contents>,
    /// A model call that has ended and whose reply is being told, and why the model ended it; only if texts are sent.
    answered: Option<(Span, &'static str)>,
}

#[derive(Debug)]
pub(super) struct Spans {
    agent: String,
    /// Whether texts of messages, arguments and results are attributes.
    has_contents: bool,
    open: HashMap<SessionId, Run>,
}

impl Spans {
    pub(super) fn new(agent: String, has_contents: bool) -> Self {
        Self { agent, has_contents, open: HashMap::new() }
    }

    /// Takes an event; tells each span that ended by it, and whether its trace is sampled.
    pub(super) fn take(
        &mut self,
        envelope: &Envelope,
        is_sampled: impl FnOnce(&str, Option<&str>) -> bool,
        mut tell: impl FnMut(Span, bool),
    ) {
        let (Some(session), Some(turn)) = (&envelope.session_id, &envelope.turn_id) else { return };
        if let AgentEvent::TurnStarted { traceparent, .. } = &envelope.event {
            let Some(span) = self.run(envelope, session, turn) else { return };
            if self.open.len() >= MOST_TURNS
                && let Some(first) = self.open.keys().next().cloned()
            {
                self.open.remove(&first);
            }
            let is_sampled = is_sampled(&envelope.trace_id, traceparent.as_deref());
            let contents = self.has_contents.then(Contents::default);
            let (model, calls, answered) = (None, HashMap::new(), None);
            self.open.insert(session.clone(), Run { span, model, calls, is_sampled, contents, answered });
            return;
        }
        let Some(run) = self.open.get_mut(session) else { return };
        let is_sampled = run.is_sampled;
        run.take(envelope, |span| tell(span, is_sampled));
        if envelope.event.is_terminal().is_some()
            && let Some(run) = self.open.remove(session)
        {
            tell(run.span, is_sampled);
        }
    }

    fn run(&self, envelope: &Envelope, session: &SessionId, turn: &TurnId) -> Option<Span> {
        let AgentEvent::TurnStarted { submission, model, traceparent, tracestate, agent, .. } = &envelope.event else {
            return None;
        };
        let agent = agent.as_deref().unwrap_or(&self.agent);
        let mut span = blank(envelope, format!("{} {agent}", names::INVOKE_AGENT), Kind::Internal)?;
        (span.state, span.flags) = (tracestate.clone(), trace::flags(traceparent.as_deref()));
        if submission == turn {
            // Also the run of a later process, if the first did not live to end its own.
            span.start = made(turn).filter(|at| (0..OLDEST).contains(&(envelope.time - at))).unwrap_or(envelope.time);
        } else {
            span.parent = Some(span.id);
            span.id = later_run(turn, submission);
        }
        span.text(names::OPERATION, names::INVOKE_AGENT);
        span.text(names::AGENT, agent);
        span.text(names::CONVERSATION, session);
        span.text(names::PROVIDER, model.provider());
        span.text(names::REQUEST_MODEL, model.model());
        span.text(names::TURN, turn);
        span.text(names::SUBMISSION, submission);
        Some(span)
    }
}

impl Run {
    fn take(&mut self, envelope: &Envelope, mut tell: impl FnMut(Span)) {
        let at = envelope.time;
        self.hear(&envelope.event, &mut tell);
        match &envelope.event {
            AgentEvent::LlmRequested { model } => {
                let name = format!("{} {}", names::CHAT, model.model());
                let Some(mut span) = self.below(envelope, name, Kind::Client) else { return };
                span.text(names::OPERATION, names::CHAT);
                span.text(names::PROVIDER, model.provider());
                span.text(names::REQUEST_MODEL, model.model());
                if let Some(messages) = self.contents.as_ref().and_then(Contents::messages) {
                    span.text(names::INPUT_MESSAGES, messages);
                }
                self.model = Some(span);
            }
            AgentEvent::LlmStreamChunk { delta: Delta::Text(_) | Delta::Reasoning(_), .. } => {
                let Some(span) = &mut self.model else { return };
                if !span.attributes.iter().any(|(name, _)| *name == names::FIRST_CHUNK) {
                    span.amount(names::FIRST_CHUNK, (at - span.start).max(0) as f64 / 1_000.0);
                }
            }
            AgentEvent::LlmCompleted { model, usage, stop_reason, response_id, cost, .. } => {
                let Some(mut span) = self.model.take() else { return };
                span.text(names::RESPONSE_MODEL, model.model());
                if let Some(id) = response_id {
                    span.text(names::RESPONSE_ID, id);
                }
                span.attributes.push((names::FINISH_REASONS, Value::Texts(vec![word(stop_reason)])));
                if let Some(usage) = usage {
                    span.number(names::INPUT_TOKENS, usage.input_tokens);
                    span.number(names::OUTPUT_TOKENS, usage.output_tokens);
                }
                if let Some(cost) = cost {
                    span.amount(names::COST, cost.amount());
                }
                match self.contents {
                    // What the reply was is told next.
                    Some(_) => self.answered = Some((span.ended(at), reason(*stop_reason))),
                    None => tell(span.ended(at)),
                }
            }
            AgentEvent::LlmFailed { error } => {
                let Some(mut span) = self.model.take() else { return };
                span.failed(error.kind());
                tell(span.ended(at));
            }
            AgentEvent::ToolCalled { call, state: CallState::Running, .. } => {
                let Some(mut span) = self.tool(envelope, &call.id, call.name.as_str()) else { return };
                if self.contents.is_some() {
                    span.text(names::ARGUMENTS, shortened(&call.arguments.to_string()));
                }
                self.calls.insert(call.id.clone(), span);
            }
            AgentEvent::ToolCompleted { result } => {
                let open = self.calls.remove(&result.call);
                // One that an earlier process began ends here; others without a beginning never ran.
                let is_of_before = result.status == CallStatus::Unknown;
                let span = open.or_else(|| {
                    is_of_before.then(|| self.tool(envelope, &result.call, result.name.as_str())).flatten()
                });
                let Some(mut span) = span else { return };
                if result.status != CallStatus::Ok {
                    span.failed(&word(&result.status));
                }
                if self.contents.is_some() {
                    span.text(names::RESULT, shortened(&result.output.plain()));
                }
                tell(span.ended(at));
            }
            AgentEvent::TurnFinished { outcome } => {
                for mut span in self.model.take().into_iter().chain(self.calls.drain().map(|(_, span)| span)) {
                    span.failed("cancelled");
                    tell(span.ended(at));
                }
                let span = &mut self.span;
                span.end = at;
                span.text(names::FINISH, word(&outcome.finish_reason));
                span.number(names::STEPS, outcome.steps);
                span.number(names::INPUT_TOKENS, outcome.usage.input_tokens);
                span.number(names::OUTPUT_TOKENS, outcome.usage.output_tokens);
                if !outcome.cost.is_zero() {
                    span.amount(names::COST, outcome.cost.amount());
                }
                if let Some(contents) = &mut self.contents {
                    if let Some(inputs) = contents.take_inputs() {
                        span.text(names::INPUT_MESSAGES, inputs);
                    }
                    if !outcome.content.is_empty() {
                        let why = outcome.stop_reason.map_or("stop", reason);
                        span.text(names::OUTPUT_MESSAGES, answer(&outcome.content, why));
                    }
                }
                match (&outcome.error, outcome.finish_reason) {
                    (Some(error), _) => span.failed(error.kind()),
                    (None, FinishReason::Error | FinishReason::GuardExceeded) => {
                        span.failed(&outcome.guard_reason.map_or_else(|| "error".to_owned(), |guard| word(&guard)));
                    }
                    (None, _) => {}
                }
            }
            _others_have_no_span => {}
        }
    }

    /// Takes the texts of an event. A reply is whole with the first event that is no part of it, and with it the span of its
    /// model call.
    fn hear(&mut self, event: &AgentEvent, mut tell: impl FnMut(Span)) {
        let Some(contents) = &mut self.contents else { return };
        match event {
            AgentEvent::ActionParsed { .. } => return,
            AgentEvent::MessageAssistant { text, .. } => return contents.text(text),
            AgentEvent::ToolCalled { call, state: CallState::Proposed, .. } => return contents.call(call),
            _behind_the_reply => {}
        }
        let (ended, why) = self.answered.take().map_or((None, "cancelled"), |(span, why)| (Some(span), why));
        let reply = contents.replied(why);
        // The beginning of a reply that was interrupted belongs to a call that has not ended.
        let output = |span: &mut Span| reply.into_iter().for_each(|reply| span.text(names::OUTPUT_MESSAGES, reply));
        match (ended, &mut self.model) {
            (Some(mut span), _) => {
                output(&mut span);
                tell(span);
            }
            (None, Some(span)) => output(span),
            (None, None) => {}
        }
        match event {
            AgentEvent::MessageUser { parts, .. } => contents.said(parts),
            AgentEvent::ToolCompleted { result } => contents.returned(result),
            _without_a_text => {}
        }
    }

    fn tool(&self, envelope: &Envelope, call: &CallId, name: &str) -> Option<Span> {
        let mut span = self.below(envelope, format!("{} {name}", names::EXECUTE_TOOL), Kind::Internal)?;
        span.text(names::OPERATION, names::EXECUTE_TOOL);
        span.text(names::TOOL, name);
        span.text(names::CALL, call);
        Some(span)
    }

    fn below(&self, envelope: &Envelope, name: String, kind: Kind) -> Option<Span> {
        let (state, flags) = (self.span.state.clone(), self.span.flags);
        Some(Span { parent: Some(self.span.id), state, flags, ..blank(envelope, name, kind)? })
    }
}

fn blank(envelope: &Envelope, name: String, kind: Kind) -> Option<Span> {
    let (start, began, end) = (envelope.time, envelope.time, envelope.time);
    let parent = envelope.parent_span_id.as_deref().and_then(digits);
    let (trace, id) = (digits(&envelope.trace_id)?, digits(&envelope.span_id)?);
    let (state, flags, attributes, is_error) = (None, Flags::default(), Vec::new(), false);
    Some(Span { trace, id, parent, state, flags, name, kind, start, began, end, attributes, is_error })
}

/// The span of a run that goes on with a suspended turn.
fn later_run(turn: &TurnId, submission: &TurnId) -> [u8; 8] {
    trace::fnv64([turn.as_str(), "/run/", submission.as_str()].concat().as_bytes()).max(1).to_be_bytes()
}

/// When an id was made that begins with the time.
fn made(turn: &TurnId) -> Option<Millis> {
    let plain: String = turn.as_str().split('-').collect();
    (plain.len() == 32 && plain.as_bytes()[12] == b'7').then(|| Millis::from_str_radix(&plain[..12], 16).ok())?
}

pub(super) fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The name of a variant in JSON.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| Some(value.as_str()?.to_owned()))
        .unwrap_or_else(|| "other".into())
}
