//! The spans of a turn, as a subscriber sees them.

use super::*;
use crate::feed::Feed;
use bob_messages::chat::{CallStatus, FinishReason, GuardReason, StopReason, ToolCall, ToolResult};
use bob_messages::event::StepEvent;
use bob_messages::ids::{ModelName, ToolName, TurnId};
use bob_messages::outcome::TurnOutcome;
use bob_messages::tools::{ToolKind, ToolOutput};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};

/// Keeps the spans with what was recorded of them, in the order they were opened.
#[derive(Default)]
struct Capture {
    next: AtomicU64,
    spans: Mutex<Vec<Seen>>,
    events: Mutex<Vec<String>>,
}

struct Seen {
    id: u64,
    name: &'static str,
    parent: Option<u64>,
    fields: String,
    holders: u32,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        matches!(metadata.target(), "bob::trace" | "bob::turn")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = String::new();
        span.record(&mut Fields(&mut fields));
        let (name, parent) = (span.metadata().name(), span.parent().map(Id::into_u64));
        self.spans.lock().unwrap().push(Seen { id, name, parent, fields, holders: 1 });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.spans.lock().unwrap();
        let seen = spans.iter_mut().find(|seen| seen.id == span.into_u64()).unwrap();
        values.record(&mut Fields(&mut seen.fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = String::new();
        event.record(&mut Fields(&mut fields));
        let parent = event.parent().map(Id::into_u64);
        let spans = self.spans.lock().unwrap();
        let parent = spans.iter().find(|seen| Some(seen.id) == parent).map_or("nothing", |seen| seen.name);
        self.events.lock().unwrap().push(format!("{parent}: {fields}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        self.spans
            .lock()
            .unwrap()
            .iter_mut()
            .filter(|seen| seen.id == id.into_u64())
            .for_each(|seen| seen.holders += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans.lock().unwrap();
        let seen = spans.iter_mut().find(|seen| seen.id == id.into_u64()).unwrap();
        seen.holders -= 1;
        seen.holders == 0
    }
}

fn names() -> (SessionId, TurnId, ModelName) {
    (SessionId::parse("s").unwrap(), TurnId::new("t"), ModelName::parse("scripted:m").unwrap())
}

fn turn_of_two_steps() -> Vec<StepEvent> {
    let (session, turn, model) = names();
    let call = Arc::new(ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("local/read_file"),
        arguments: serde_json::json!({"path": "secret-canary"}).into(),
        argument_bytes: 24,
        signatures: Vec::new(),
    });
    let result = Arc::new(ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        status: CallStatus::Ok,
        output: ToolOutput::text("secret-canary-2"),
        duration_ms: 7,
    });
    let called = |state| {
        let (call, title, kind) = (Arc::clone(&call), String::new(), ToolKind::Read);
        AgentEvent::ToolCalled { call, title, kind, state, progress: None }.in_step(1)
    };
    let built = AgentEvent::PromptBuilt {
        messages: 1,
        estimated_tokens: 10,
        dropped_messages: 0,
        cut_layers: Vec::new(),
        cut_bytes: 0,
    };
    let requested = AgentEvent::LlmRequested { model: model.clone() };
    let completed = AgentEvent::LlmCompleted {
        model: model.clone(),
        latency_ms: 5,
        usage: Some(Usage { input_tokens: 11, output_tokens: 3, total_tokens: 14, ..Usage::default() }),
        stop_reason: StopReason::Stop,
        response_id: None,
        cost: None,
    };
    let outcome = TurnOutcome::bare(session, turn.clone(), FinishReason::GuardExceeded, "secret-canary-3");
    vec![
        AgentEvent::TurnStarted {
            submission: turn,
            model: model.clone(),
            cwd: None,
            traceparent: None,
            tracestate: None,
            agent: Some("researcher".to_owned()),
            tools: Vec::new(),
            servers: Vec::new(),
            parent: None,
            context: None,
        }
        .into(),
        built.clone().in_step(1),
        requested.clone().in_step(1),
        completed.clone().in_step(1),
        called(CallState::Proposed),
        called(CallState::Running),
        AgentEvent::ToolCompleted { result }.in_step(1),
        built.in_step(2),
        requested.in_step(2),
        completed.in_step(2),
        AgentEvent::GuardTripped { guard: GuardReason::MaxSteps, limit: 2 }.into(),
        AgentEvent::TurnFinished { outcome: Box::new(outcome) }.into(),
    ]
}

/// A sink on the thread of the test, which is the one that has the subscriber.
struct Here(Arc<TracingEventSink>);

impl EventSink for Here {
    fn emit(&self, event: &Envelope) {
        self.0.emit(event);
    }

    fn submitted(&self, submission: &TurnId) -> bool {
        self.0.submitted(submission)
    }

    fn answered(&self, submission: &TurnId) {
        self.0.answered(submission);
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// Tells the turn to a sink and gives back the spans as a tree, with their fields, and the events.
fn told(sink: TracingEventSink) -> (String, String) {
    let capture = Arc::new(Capture::default());
    let (session, turn, _) = names();
    with_default(Arc::clone(&capture), || {
        let sink = Arc::new(sink);
        let feed = Feed::new(vec![Arc::new(Here(Arc::clone(&sink))) as Arc<dyn EventSink>]);
        for event in turn_of_two_steps() {
            feed.emit(&session, &turn, 1, event);
        }
        assert!(sink.open.lock().unwrap().is_empty(), "nothing is kept of a turn that ended");
    });
    let spans = capture.spans.lock().unwrap();
    let mut tree = String::new();
    for seen in spans.iter() {
        let (mut depth, mut parent) = (0, seen.parent);
        while let Some(id) = parent {
            depth += 1;
            parent = spans.iter().find(|other| other.id == id).and_then(|other| other.parent);
        }
        writeln!(tree, "{}{} {}", "  ".repeat(depth), seen.name, seen.fields).unwrap();
        assert_eq!(seen.holders, 0, "{} is closed", seen.name);
    }
    (tree, capture.events.lock().unwrap().join("\n"))
}

#[test]
fn a_turn_is_a_tree_of_spans() {
    let (tree, events) = told(TracingEventSink::new());
    let shape: Vec<_> = tree.lines().map(|line| line.split_once(" gen_ai").map_or(line, |(name, _)| name)).collect();
    let shape: Vec<_> = shape.iter().map(|line| line.split("step=").next().unwrap().trim_end()).collect();
    assert_eq!(shape, ["invoke_agent", "  step", "    chat", "    execute_tool", "  step", "    chat"], "{tree}");
    for field in [
        "gen_ai.conversation.id=s ",
        "gen_ai.agent.name=\"researcher\" gen_ai.conversation.id=s gen_ai.provider.name=\"scripted\" gen_ai.request.model=\"m\" ",
        "gen_ai.tool.name=\"local/read_file\" ",
        "gen_ai.usage.input_tokens=11 ",
        "status=Ok ",
        "finish_reason=GuardExceeded ",
        "arguments=\"(24 bytes)\" ",
    ] {
        assert!(tree.contains(field), "{field} in\n{tree}");
    }
    assert!(events.contains("invoke_agent: message=guard.tripped guard=MaxSteps limit=2"), "{events}");
}

#[test]
fn a_log_has_a_line_for_the_turn_each_call_and_each_step() {
    let (_, records) = told(TracingEventSink::new());
    let records: Vec<_> = records.lines().filter_map(|line| line.strip_prefix("nothing: message=")).collect();
    let texts: Vec<_> = records.iter().map(|record| record.split(" session=").next().unwrap()).collect();
    let model = "model call ended";
    assert_eq!(texts, ["turn started", model, "tool call ended", model, "turn ended"], "{records:#?}");
    let has = |at: usize, fields: &[&str]| {
        fields.iter().for_each(|field| assert!(records[at].contains(field), "{field} in {}", records[at]));
    };
    has(1, &["session=s ", "turn=t ", "step=1 ", "input_tokens=11 ", "output_tokens=3 ", "duration_ms=5 "]);
    has(2, &["session=s ", "turn=t ", "call=c1 ", "tool=local/read_file ", "status=\"ok\" ", "duration_ms=7 "]);
    has(4, &["session=s ", "turn=t ", "finish_reason=\"guard_exceeded\" ", "steps=0 ", "duration_ms=0 "]);
}

#[test]
fn contents_are_told_when_they_are_switched_on_and_not_else() {
    let (tree, events) = told(TracingEventSink::new());
    assert!(!tree.contains("canary") && !events.contains("canary"), "{tree}{events}");
    let (tree, _) = told(TracingEventSink::new().with_contents());
    assert!(tree.contains("secret-canary\\\"}") && tree.contains("secret-canary-2"), "{tree}");
}
