//! What a receiver gets of turns, and what turns notice of a receiver.

use super::metrics::{Form, Metrics};
use super::settings::TelemetrySettings;
use super::spans::{Kind, Span, Spans, Value};
use super::*;
use bob_actors::telemetry::names;
use bob_messages::chat::{CallStatus, ContentPart, FinishReason, StopReason, ToolCall, ToolResult, Usage};
use bob_messages::cost::Cost;
use bob_messages::event::{AgentEvent, CallState, Delta, Envelope, StepEvent};
use bob_messages::ids::{CallId, ModelName, SessionId, ToolName, TurnId};
use bob_messages::outcome::TurnOutcome;
use bob_messages::tools::{ToolKind, ToolOutput};
use std::collections::HashSet;
use std::time::Instant;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TURN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
/// The time in that id.
const MADE: i64 = 0x0189_0a5d_ac96;

fn envelope(at: i64, event: impl Into<StepEvent>) -> Envelope {
    Envelope::of_turn(&SessionId::parse("s").unwrap(), &TurnId::new(TURN), MADE + at, 1, Some(CALLER), event)
}

fn started(submission: &str) -> AgentEvent {
    AgentEvent::TurnStarted {
        submission: TurnId::new(submission),
        model: ModelName::parse("scripted:m").unwrap(),
        cwd: None,
        traceparent: Some(CALLER.into()),
        tracestate: Some("vendor=1".into()),
        agent: None,
        tools: Vec::new(),
        servers: Vec::new(),
        parent: None,
        context: None,
    }
}

fn model_call(step: u32) -> [StepEvent; 2] {
    let model = ModelName::parse("scripted:m").unwrap();
    let completed = AgentEvent::LlmCompleted {
        model: model.clone(),
        latency_ms: 5,
        usage: Some(Usage { input_tokens: 11, output_tokens: 3, total_tokens: 14, ..Usage::default() }),
        stop_reason: StopReason::Stop,
        response_id: None,
        cost: None,
    };
    [AgentEvent::LlmRequested { model }.in_step(step), completed.in_step(step)]
}

fn call() -> Arc<ToolCall> {
    Arc::new(ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("local/shell"),
        arguments: serde_json::json!({"command": "secret-canary"}).into(),
        argument_bytes: 24,
        signatures: Vec::new(),
    })
}

fn runs() -> StepEvent {
    let (call, title, kind, state) = (call(), String::new(), ToolKind::Read, CallState::Running);
    AgentEvent::ToolCalled { call, title, kind, state, progress: None }.in_step(1)
}

fn returned(status: CallStatus) -> StepEvent {
    let (call, output) = (call(), ToolOutput::text("secret-canary"));
    let result = ToolResult { call: call.id.clone(), name: call.name.clone(), status, output, duration_ms: 7 };
    AgentEvent::ToolCompleted { result: Arc::new(result) }.in_step(1)
}

fn finished(reason: FinishReason) -> StepEvent {
    let (session, turn) = (SessionId::parse("s").unwrap(), TurnId::new(TURN));
    AgentEvent::TurnFinished { outcome: Box::new(TurnOutcome::bare(session, turn, reason, "secret-canary")) }.into()
}

/// What one process tells of these events, one each 10 ms from `at` on.
fn told(at: i64, events: Vec<StepEvent>) -> Vec<Span> {
    told_by(Spans::new("agent".into(), false), at, events)
}

fn told_by(mut spans: Spans, at: i64, events: Vec<StepEvent>) -> Vec<Span> {
    let mut all = Vec::new();
    for (number, event) in events.into_iter().enumerate() {
        spans.take(&envelope(at + 10 * number as i64, event), |_, _| true, |span, _| all.push(span));
    }
    all
}

fn text<'s>(span: &'s Span, key: &str) -> Option<&'s str> {
    span.attributes.iter().find_map(|(name, value)| match value {
        Value::Text(text) if *name == key => Some(text.as_str()),
        _ => None,
    })
}

#[test]
fn a_turn_that_was_killed_and_finished_by_another_process_is_one_trace() {
    let [asked, answered] = model_call(1);
    let mut all = told(5, vec![started(TURN).into(), asked, answered, runs()]);
    assert_eq!(all.len(), 1, "the model call; the process died in the tool");
    let [asked, answered] = model_call(2);
    let goes_on = vec![started(TURN).into(), returned(CallStatus::Unknown), asked, answered];
    all.extend(told(60_000, goes_on.into_iter().chain([finished(FinishReason::Final)]).collect()));
    let names: Vec<_> = all.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["chat m", "execute_tool local/shell", "chat m", "invoke_agent agent"]);
    let ids: HashSet<_> = all.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), 4, "no id twice");
    let root = all.last().unwrap();
    assert_eq!(root.parent, spans::digits("00f067aa0ba902b7"), "below the caller");
    assert_eq!((root.start, root.end), (MADE, MADE + 60_040), "from the beginning, in the first process");
    for span in &all {
        assert_eq!(Some(span.trace), spans::digits("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert!(span.id == root.id || span.parent == Some(root.id), "{}", span.name);
        assert!(span.start >= root.start && span.end <= root.end, "{}", span.name);
    }
    assert_eq!(text(&all[1], names::ERROR), Some("unknown"));
    assert_eq!((text(&all[0], names::PROVIDER), all[0].kind), (Some("scripted"), Kind::Client));
}

#[test]
fn each_run_of_a_resumed_turn_is_a_span_below_the_first() {
    let first = told(0, vec![started(TURN).into(), finished(FinishReason::Suspended)]);
    let [asked, answered] = model_call(2);
    let second =
        told(99, vec![started("the-reply").into(), asked, answered, runs(), finished(FinishReason::Cancelled)]);
    let (first, [chat, tool, run]) = (&first[0], &second[..]) else { panic!("{second:?}") };
    assert_eq!(run.parent, Some(first.id));
    assert_ne!(run.id, first.id);
    assert_eq!((chat.parent, tool.parent, run.trace), (Some(run.id), Some(run.id), first.trace));
    assert_eq!((text(tool, names::ERROR), text(run, names::FINISH)), (Some("cancelled"), Some("cancelled")));
}

#[test]
fn spans_have_the_name_of_the_sessions_agent_and_the_callers_state_and_flags() {
    let AgentEvent::TurnStarted { submission, model, .. } = started(TURN) else {
        panic!("an event of a turn's beginning")
    };
    let (agent, traceparent) = (Some("researcher".to_owned()), Some(CALLER.replace("-01", "-00")));
    let began = AgentEvent::TurnStarted {
        submission,
        model,
        agent,
        traceparent,
        tracestate: Some("vendor=1".into()),
        cwd: None,
        tools: Vec::new(),
        servers: Vec::new(),
        parent: None,
        context: None,
    };
    let [asked, answered] = model_call(1);
    let all = told(0, vec![began.into(), asked, answered, finished(FinishReason::Final)]);
    let [chat, turn] = &all[..] else { panic!("{all:?}") };
    assert_eq!((turn.name.as_str(), text(turn, names::AGENT)), ("invoke_agent researcher", Some("researcher")));
    for span in [chat, turn] {
        assert_eq!((span.state.as_deref(), span.flags.bits()), (Some("vendor=1"), 0));
    }
}

#[test]
fn a_call_that_never_ran_has_no_span() {
    let all = told(0, vec![started(TURN).into(), returned(CallStatus::Denied), finished(FinishReason::Final)]);
    assert_eq!(all.len(), 1);
}

fn amount(span: &Span, key: &str) -> Option<f64> {
    span.attributes.iter().find_map(|(name, value)| match value {
        Value::Amount(amount) if *name == key => Some(*amount),
        _ => None,
    })
}

/// A model call that streams two pieces 10 and 20 ms after it began, and costs 0.25.
fn streamed() -> Vec<StepEvent> {
    let [asked, answered] = model_call(1);
    let piece =
        |text: &str| AgentEvent::LlmStreamChunk { message_id: "m".into(), delta: Delta::Text(text.into()) }.in_step(1);
    let StepEvent {
        event: AgentEvent::LlmCompleted { model, latency_ms, usage, stop_reason, response_id, .. }, ..
    } = answered
    else {
        panic!("an event of an answer")
    };
    let cost = Some(Cost::from_amount(0.25));
    let answered = AgentEvent::LlmCompleted { model, latency_ms, usage, stop_reason, response_id, cost }.in_step(1);
    vec![started(TURN).into(), asked, piece("a"), piece("b"), answered, finished(FinishReason::Final)]
}

#[test]
fn a_model_call_has_its_cost_and_the_time_to_its_first_piece() {
    let all = told(0, streamed());
    let (chat, mut metrics) = (&all[0], Metrics::default());
    assert_eq!((amount(chat, names::COST), amount(chat, names::FIRST_CHUNK)), (Some(0.25), Some(0.01)));
    all.iter().chain([chat]).for_each(|span| metrics.count(span));
    metrics.waited(0.03);
    metrics.restarted("tools/files");
    let series = metrics.series(4);
    let of = |name: &str| series.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!((of(names::COST).form, of(names::COST).sum), (Form::Sum, 0.5));
    assert_eq!((of(names::FIRST_CHUNK_SECONDS).count, of(names::FIRST_CHUNK_SECONDS).buckets[2]), (2, 2));
    assert_eq!((of(names::QUEUE_WAIT).count, of(names::QUEUE_WAIT).buckets[4]), (1, 1));
    assert_eq!(of(names::RESTARTS).attributes, [(names::ACTOR, "tools/files".to_owned())]);
    assert_eq!((of(names::RESTARTS).count, of(names::DROPPED).count), (1, 4));
}

#[test]
fn the_wait_of_a_request_is_counted_once_and_a_refused_one_is_forgotten() {
    let telemetry = Telemetry::start(TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap();
    assert!(telemetry.submitted(&TurnId::new(TURN)) && telemetry.submitted(&TurnId::new("refused")));
    for _again in 0..2 {
        telemetry.emit(&envelope(0, started(TURN)));
    }
    telemetry.answered(&TurnId::new("refused"));
    assert!(telemetry.waiting().is_empty());
    let mut series = Vec::new();
    telemetry.shared.measure(|metrics| series = metrics.series(0));
    let counts: Vec<_> = series.iter().filter(|one| one.name == names::QUEUE_WAIT).map(|one| one.count).collect();
    assert_eq!(counts, [1]);
}

#[test]
fn contents_are_sent_where_the_settings_say_so_and_are_cut() {
    let events = || {
        let long = "ä".repeat(10_000);
        let input = |text: &str| AgentEvent::MessageUser {
            message_id: "m".into(),
            parts: vec![ContentPart::text(text)],
            steered: false,
        };
        vec![
            started(TURN).into(),
            input("first-canary").into(),
            input(&long).into(),
            runs(),
            returned(CallStatus::Ok),
            finished(FinishReason::Final),
        ]
    };
    assert!(!format!("{:?}", told(0, events())).contains("canary"), "not unless it is asked for");
    let all = told_by(Spans::new("agent".into(), true), 0, events());
    let [tool, turn] = &all[..] else { panic!("{all:?}") };
    assert_eq!(text(tool, names::ARGUMENTS), Some(r#"{"command":"secret-canary"}"#));
    assert_eq!(text(tool, names::RESULT), Some("secret-canary"));
    let inputs: serde_json::Value = serde_json::from_str(text(turn, names::INPUT_MESSAGES).unwrap()).unwrap();
    assert_eq!(inputs[0]["parts"][0]["content"], "first-canary");
    let cut = inputs[1]["parts"][0]["content"].as_str().unwrap();
    assert!(cut.ends_with("ä…") && cut.len() <= 16 * 1024 + "…".len(), "{} bytes", cut.len());
    let output: serde_json::Value = serde_json::from_str(text(turn, names::OUTPUT_MESSAGES).unwrap()).unwrap();
    assert_eq!((&output[0]["role"], &output[0]["parts"][0]["content"]), (&"assistant".into(), &"secret-canary".into()));
}

#[test]
fn the_callers_flag_decides_unless_the_sampler_says_otherwise() {
    let of = |name: &'static str| {
        let find = move |key: &str| match key {
            "OTEL_TRACES_SAMPLER" => Some(name.to_owned()),
            "OTEL_TRACES_SAMPLER_ARG" => Some("0.25".to_owned()),
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:1".to_owned()),
            _ => None,
        };
        TelemetrySettings::from_variables(&find, "agent").unwrap().unwrap().sampler
    };
    let (low, high) = (format!("{:032x}", 1), "f".repeat(32));
    let left_out = CALLER.replace("-01", "-00");
    assert!(of("parentbased_always_on").takes(&low, None) && of("parentbased_always_off").takes(&low, Some(CALLER)));
    assert!(!of("parentbased_always_on").takes(&low, Some(&left_out)) && of("always_on").takes(&low, Some(&left_out)));
    assert!(of("traceidratio").takes(&low, None) && !of("traceidratio").takes(&high, None));
}

#[path = "telemetry_tests/receivers.rs"]
mod receivers;
#[path = "telemetry_tests/variables.rs"]
mod variables;

#[path = "telemetry_tests/contents.rs"]
mod contents;
