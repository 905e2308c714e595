//! Telemetry of a program: every setting, and what a receiver gets of a turn.

use crate::interface::not_called;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::telemetry::{Telemetry, TelemetryError, TelemetrySettings};
use bob::{AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

const LONG: Duration = Duration::from_secs(60);

/// Keys and bodies of the requests to each address.
type Sent = Arc<Mutex<BTreeMap<String, (String, Vec<u8>)>>>;

async fn keep(State(sent): State<Sent>, uri: Uri, head: HeaderMap, body: Bytes) -> StatusCode {
    let mut sent = sent.lock().expect("a receiver that did not panic");
    let (keys, bodies) = sent.entry(uri.path().to_owned()).or_default();
    keys.push_str(head.get("x-key").and_then(|key| key.to_str().ok()).unwrap_or("-"));
    bodies.extend_from_slice(&body);
    StatusCode::OK
}

/// A receiver on this machine: its address, and what it is sent.
async fn receiver() -> (String, Sent) {
    let (listener, sent) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), Sent::default());
    let address = format!("http://{}", listener.local_addr().expect("its address"));
    let service = Router::new().fallback(keep).with_state(sent.clone());
    tokio::spawn(async move { axum::serve(listener, service).await });
    (address, sent)
}

/// Runs a turn that is told to these, and sends all of it.
async fn turn(sinks: [TelemetrySettings; 2]) {
    let sinks = sinks.map(|settings| Telemetry::start(settings).expect("settings that can be used"));
    let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("a canary sings")]));
    let mut builder = RuntimeBuilder::new(ModelName::parse("scripted:demo").expect("a name")).model(model);
    for sink in &sinks {
        builder = builder.sink(sink.clone());
    }
    let runtime = builder.build().await.expect("a runtime");
    assert_eq!(runtime.ask("what does a canary do?").await.expect("an answer"), "a canary sings");
    runtime.shutdown().await;
    for sink in sinks {
        let flushed = sink.clone();
        tokio::task::spawn_blocking(move || flushed.flush(LONG)).await.expect("no panic");
        assert_eq!(sink.dropped(), 0);
    }
}

#[tokio::test]
async fn a_receiver_gets_the_spans_and_the_metrics_of_a_turn_with_what_was_set() {
    let (address, sent) = receiver().await;
    let spans = TelemetrySettings::new(&address, "embedding")
        .traces_to(&format!("{address}/spans"))
        .without_metrics()
        .with_contents()
        .header("x-key", "for spans")
        .resource("deployment.environment.name", "the tests")
        .sampled(1.0)
        .ignoring_parents();
    let metrics = TelemetrySettings::new(&address, "embedding")
        .metrics_to(&format!("{address}/measured"))
        .without_traces()
        .header("x-key", "for metrics")
        .timeout(LONG)
        .metrics_every(LONG * 60);
    turn([spans, metrics]).await;

    let sent = sent.lock().expect("a receiver that did not panic");
    assert_eq!(sent.keys().collect::<Vec<_>>(), ["/measured", "/spans"]);
    let has = |path: &str, word: &str| String::from_utf8_lossy(&sent[path].1).contains(word);
    for word in ["invoke_agent embedding", "chat demo", "the tests", "what does a canary do?", "a canary sings"] {
        assert!(has("/spans", word), "no {word:?}");
    }
    assert!(has("/measured", "gen_ai.invoke_agent.duration") && !has("/measured", "canary"));
    assert!(sent["/spans"].0.starts_with("for spans") && sent["/measured"].0.starts_with("for metrics"));
}

#[tokio::test]
async fn variables_come_before_settings() {
    let ((address, sent), (other, nothing)) = (receiver().await, receiver().await);
    let variable = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| address.clone());
    let alone =
        TelemetrySettings::from_variables(&variable, "embedding").expect("they can be used").expect("an address");
    let first = TelemetrySettings::new(&other, "embedding").overridden_by(&variable).expect("they can be used");
    turn([alone, first.expect("an address")]).await;
    let sent = sent.lock().expect("a receiver that did not panic");
    assert_eq!(sent.keys().collect::<Vec<_>>(), ["/v1/metrics", "/v1/traces"]);
    assert!(nothing.lock().expect("a receiver that did not panic").is_empty());

    let wrong = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "grpc://receiver".to_owned());
    let refused = TelemetrySettings::from_variables(&wrong, "embedding")
        .and_then(|settings| Telemetry::start(settings.expect("an address")));
    assert!(matches!(refused, Err(TelemetryError::Address { .. } | TelemetryError::Variable { .. })), "{refused:?}");
    // What it reads is the environment of this process, which is not the test's to set.
    let _of_the_environment: fn(&str) -> Result<Option<Arc<Telemetry>>, TelemetryError> =
        |service| Telemetry::from_env(service);
}

#[test]
fn no_method_is_left_out() {
    for of in ["bob::telemetry::Telemetry", "bob::telemetry::TelemetrySettings"] {
        let (missing, count) = not_called(of, include_str!("telemetry.rs"));
        assert!(missing.is_empty(), "not called here: {missing:?} of {of}");
        assert!(count >= 4, "only {count} of {of} were found");
    }
}
