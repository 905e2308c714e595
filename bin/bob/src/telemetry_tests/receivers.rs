//! Receivers that answer, are away, say nothing and refuse.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;

/// A receiver that takes everything: its address, and the requests that come, head and body.
fn receiver() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    receiver_with(Duration::ZERO)
}

/// One that takes as long for each answer.
fn receiver_with(latency: Duration) -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
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
                    std::thread::sleep(latency);
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    (address, requests)
}

#[test]
fn metrics_are_sent_while_spans_keep_coming() {
    let (address, requests) = receiver();
    let mut settings = TelemetrySettings::new(&address, "agent");
    settings.metrics_each = Duration::from_millis(1);
    let telemetry = Telemetry::start(settings).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut has_metrics = false;
    // There is always a span that waits.
    while !has_metrics {
        assert!(Instant::now() < until, "no metrics in a minute");
        for _turn in 0..600 {
            telemetry.emit(&envelope(0, started(TURN)));
            telemetry.emit(&envelope(1, finished(FinishReason::Final)));
        }
        has_metrics = requests.try_iter().any(|(head, _)| head.starts_with("POST /v1/metrics "));
    }
}

#[test]
fn a_receiver_gets_spans_and_metrics_and_no_contents() {
    let (address, requests) = receiver();
    let telemetry = Telemetry::start(TelemetrySettings::new(&address, "agent").header("x-key", "k")).unwrap();
    let [asked, answered] = model_call(1);
    let events = vec![started(TURN).into(), asked, answered, runs(), returned(CallStatus::Ok)];
    assert!(telemetry.submitted(&TurnId::new(TURN)), "it wants to be told of the end as well");
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
    for name in [
        names::AGENT_SECONDS,
        names::TOOL_SECONDS,
        names::CHAT_SECONDS,
        names::TOKENS,
        names::DROPPED,
        names::QUEUE_WAIT,
    ] {
        assert!(metrics.contains(name), "{name}");
    }
    assert!(!traces.contains("canary") && !metrics.contains("canary"));
    assert_eq!(telemetry.dropped(), 0);
}

/// The heads of what two receivers get of one turn, with keys of their own: that of spans, which takes its time, and that of
/// metrics, which has this one.
fn heads_of_two(metrics_ms: &str) -> (Vec<String>, Vec<String>) {
    let ((spans, of_spans), (metrics, of_metrics)) = (receiver_with(Duration::from_millis(50)), receiver());
    let (spans, metrics) = (format!("{spans}/v1/traces"), format!("{metrics}/v1/metrics"));
    let all = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", spans.as_str()),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &metrics),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=of-spans"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-key=of-metrics"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", metrics_ms),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "60000"),
    ];
    let find = |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let telemetry = Telemetry::start(TelemetrySettings::from_variables(&find, "agent").unwrap().unwrap()).unwrap();
    telemetry.emit(&envelope(0, started(TURN)));
    telemetry.emit(&envelope(1, finished(FinishReason::Final)));
    // What was not sent in its time is sent again by the second.
    telemetry.flush(Duration::from_secs(60));
    telemetry.flush(Duration::from_secs(60));
    let heads = |requests: mpsc::Receiver<(String, Vec<u8>)>| requests.try_iter().map(|(head, _)| head).collect();
    (heads(of_spans), heads(of_metrics))
}

#[test]
fn each_of_two_receivers_gets_its_own_key_and_its_own_time() {
    let (spans, metrics) = heads_of_two("60000");
    let has = |head: &String, own: &str, other: &str| head.contains(own) && !head.contains(other);
    assert!(!spans.is_empty() && spans.iter().all(|head| has(head, "of-spans", "of-metrics")), "{spans:?}");
    assert!(!metrics.is_empty() && metrics.iter().all(|head| has(head, "of-metrics", "of-spans")), "{metrics:?}");
    let (spans, _sent_in_time_or_not) = heads_of_two("1");
    assert_eq!(spans.len(), 1, "the time of metrics is none of spans");
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
