//! What a receiver gets of turns, and what turns notice of a receiver.

use super::settings::TelemetrySettings;
use super::spans::{Kind, Span, Spans, Value};
use super::*;
use bob_actors::telemetry::names;
use bob_messages::chat::{CallStatus, FinishReason, StopReason, ToolCall, ToolResult, Usage};
use bob_messages::event::{AgentEvent, CallState, Envelope, StepEvent};
use bob_messages::ids::{CallId, ModelName, SessionId, ToolName, TurnId};
use bob_messages::outcome::TurnOutcome;
use bob_messages::tools::{ToolKind, ToolOutput};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
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
    let (mut spans, mut all) = (Spans::new("agent".into()), Vec::new());
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

#[test]
fn the_variables_say_where_and_what() {
    let read = |pairs: &'static [(&str, &str)]| {
        let find = move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::from_variables(&find, "agent")
    };
    assert!(read(&[("OTEL_SERVICE_NAME", "x")]).unwrap().is_none(), "without an address nothing is sent");
    const HERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/");
    assert!(read(&[HERE, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
    let settings = read(&[
        HERE,
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20secret-canary, other=b"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=left,host.name=h"),
        ("OTEL_SERVICE_NAME", "right"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ]);
    let settings = settings.unwrap().unwrap();
    assert_eq!((settings.traces.as_deref(), &settings.metrics), (Some("http://127.0.0.1:1/v1/traces"), &None));
    assert_eq!(settings.headers["x-key"], "a secret-canary");
    assert!(settings.resource.contains(&("service.name".into(), "right".into())), "{:?}", settings.resource);
    assert!(!format!("{settings:?}").contains("secret-canary"));
    let refused: [&'static [(&str, &str)]; 5] = [
        &[HERE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        &[HERE, ("OTEL_EXPORTER_OTLP_HEADERS", "secret-canary")],
        &[HERE, ("OTEL_TRACES_SAMPLER", "sometimes")],
        &[HERE, ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317")],
    ];
    for pairs in refused {
        let error = read(pairs).expect_err("refused");
        assert!(error.starts_with("OTEL_") && !error.contains("secret-canary"), "{error}");
    }
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

#[test]
fn a_receiver_gets_spans_and_metrics_and_no_contents() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some((head, body)) = request(&mut reader) {
                    let _the_test_is_over = tell.send((head, body));
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    let telemetry = Telemetry::start(TelemetrySettings::new(&address, "agent").header("x-key", "k")).unwrap();
    let [asked, answered] = model_call(1);
    let events = vec![started(TURN).into(), asked, answered, runs(), returned(CallStatus::Ok)];
    for event in events.into_iter().chain([finished(FinishReason::Final)]) {
        telemetry.emit(&envelope(0, event));
    }
    telemetry.flush(Duration::from_secs(60));
    let all: Vec<_> = requests.try_iter().collect();
    assert!(all.iter().all(|(head, _)| head.contains("x-key: k") && head.contains("application/x-protobuf")));
    let sent = |path: &str| {
        let bodies = all.iter().filter(|(head, _)| head.starts_with(&format!("POST {path} "))).map(|(_, body)| body);
        bodies.flat_map(|body| String::from_utf8_lossy(body).into_owned().into_bytes()).collect::<Vec<_>>()
    };
    let (traces, metrics) = (sent("/v1/traces"), sent("/v1/metrics"));
    let (traces, metrics) = (String::from_utf8(traces).unwrap(), String::from_utf8(metrics).unwrap());
    for name in ["invoke_agent agent", "chat m", "execute_tool local/shell", "gen_ai.conversation.id", "service.name"] {
        assert!(traces.contains(name), "{name}");
    }
    for name in [names::AGENT_SECONDS, names::TOOL_SECONDS, names::CHAT_SECONDS, names::TOKENS, names::DROPPED] {
        assert!(metrics.contains(name), "{name}");
    }
    assert!(!traces.contains("canary") && !metrics.contains("canary"));
    assert_eq!(telemetry.dropped(), 0);
}

/// What a sink with 10,000 turns drops, whose receiver is at this address; nothing is sent in the end.
fn dropped_at(address: &str) -> u64 {
    let telemetry = Telemetry::start(TelemetrySettings::new(address, "agent")).unwrap();
    let before = Instant::now();
    for _turn in 0..10_000 {
        telemetry.emit(&envelope(0, started(TURN)));
        telemetry.emit(&envelope(1, finished(FinishReason::Final)));
    }
    telemetry.flush(Duration::from_millis(10));
    // 10,000 that waited even 10 ms each would take longer than this.
    assert!(before.elapsed() < Duration::from_secs(60));
    telemetry.dropped()
}

/// The queue is full, and at most one request is under way.
const DROPPED: std::ops::RangeInclusive<u64> = 10_000 - 8_192 - 512..=10_000 - 8_192;

#[test]
fn a_receiver_that_is_away_costs_a_count_and_no_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let dropped = dropped_at(&address);
    assert!(DROPPED.contains(&dropped), "{dropped}");
}

#[test]
fn a_receiver_that_says_nothing_costs_a_count_and_no_time() {
    // It takes connections, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dropped = dropped_at(&format!("http://{}", listener.local_addr().unwrap()));
    assert!(DROPPED.contains(&dropped), "{dropped}");
}

#[test]
fn a_receiver_that_refuses_loses_what_it_refused_and_that_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while request(&mut reader).is_some() {
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        }
    });
    let telemetry = Telemetry::start(TelemetrySettings::new(&address, "agent")).unwrap();
    telemetry.emit(&envelope(0, started(TURN)));
    telemetry.emit(&envelope(1, finished(FinishReason::Final)));
    telemetry.flush(Duration::from_secs(60));
    assert_eq!(telemetry.dropped(), 1);
}

/// One request: its head, and its body; `None` at the end of the connection.
fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
