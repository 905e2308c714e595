//! A process that starts where another one was killed: the store is opened, every session's
//! interrupted turn is found, and all of them are finished.

use crate::arguments::Arguments;
use crate::figures::{cpu, percentile, resident};
use bob::config::Limits;
use bob::model::{ScriptedLlm, ScriptedReply, Usage};
use bob::sessions::FinishReason;
use bob::store::{Append, FileStore, Record, SessionStore, SqliteStore, StoreOptions};
use bob::tools::{CallStatus, ToolOutput, tool};
use bob::{AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// One run; the line to print.
pub(crate) async fn drive(arguments: &Arguments) -> String {
    let folder = tempfile::Builder::new().prefix("race-").tempdir().unwrap().keep();
    let sessions: Vec<_> = (0..arguments.n).map(|n| SessionId::parse(&format!("race-{n}")).unwrap()).collect();
    interrupt(&open(arguments, &folder), &sessions).await;

    let (began, cpu_before, resident_before) = (Instant::now(), cpu(), resident());
    let store = open(arguments, &folder);
    let write = tool("local/write", "Writes.", |_: Nothing, _| async move { Ok(ToolOutput::text("written")) });
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo").unwrap())
        .max_concurrent_turns(1_000_000)
        .model(Arc::new(ScriptedLlm::from_fn(|_| ScriptedReply::text("done"))))
        .store(store)
        .local_tools(false)
        .tools(Arc::new(write))
        .build()
        .await
        .unwrap();
    let opened = began.elapsed();
    let mut reports = Vec::new();
    for session in &sessions {
        reports.push(runtime.records(session.clone()));
    }
    for records in futures_util::future::join_all(reports).await {
        assert_eq!(records.unwrap().len(), 4, "an input, its start, a call and its intent");
    }
    let reported = began.elapsed();
    let finish = |session: SessionId| {
        let runtime = runtime.clone();
        tokio::spawn(async move {
            let results = runtime.finish(session).await.unwrap();
            assert_eq!(results.len(), 1);
            let outcome = results[0].response();
            assert_eq!((outcome.content.as_str(), outcome.finish_reason), ("done", FinishReason::Final));
            assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown);
            Instant::now()
        })
    };
    let finishing: Vec<_> = sessions.into_iter().map(finish).collect();
    let mut seconds = Vec::new();
    for finished in finishing {
        seconds.push((finished.await.unwrap() - began - reported).as_secs_f64());
    }
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    json!({
        "peer": "bob", "mode": arguments.mode, "store": arguments.store, "n": arguments.n,
        "open_ms": millis(opened),
        "report_ms": millis(reported - opened),
        "finish_ms": millis(began.elapsed() - reported),
        "total_ms": millis(began.elapsed()),
        "finish_p50_ms": percentile(&mut seconds, 0.5) * 1e3,
        "cpu_s": cpu() - cpu_before,
        "rss_delta_b_session": resident().saturating_sub(resident_before) as f64 / arguments.n as f64,
    })
    .to_string()
}

fn open(arguments: &Arguments, folder: &Path) -> Arc<dyn SessionStore> {
    match arguments.store.as_str() {
        "json" => FileStore::open(folder, StoreOptions::default()).unwrap(),
        #[cfg(feature = "sqlite")]
        "sqlite" => SqliteStore::open(&folder.join("sessions.db"), StoreOptions::default()).unwrap(),
        other => {
            panic!("after a restart nothing is left in the store {other:?}: use json or, with its feature, sqlite")
        }
    }
}

/// Writes the journal of a killed process to each session: a turn with a pending call.
async fn interrupt(store: &Arc<dyn SessionStore>, sessions: &[SessionId]) {
    let mut batch = Vec::new();
    for session in sessions {
        let epoch = store.claim(session).await.unwrap().epoch;
        let turn = format!("{session}-turn");
        let facts = [
            (
                "input",
                json!({
                    "turn": turn, "request_id": null, "at": 0, "parts": [{"type": "text", "text": "Write, then finish."}],
                    "labels": {}, "model": null, "allow_tools": null, "approvals": "deny",
                    "limits": Limits::default(), "options": null, "traceparent": null, "token": turn, "interactive": false,
                }),
            ),
            ("started", json!({ "model": "scripted:demo" })),
            (
                "answered",
                json!({
                    "text": "", "calls": [{"id": "c1", "name": "local/write", "arguments": {}, "argument_bytes": 2}],
                    "cost": {"usage": Usage::default(), "prompt_bytes": 300, "stop_reason": "tool_calls", "response_id": null,
                             "model": "scripted:demo", "latency_ms": 0},
                }),
            ),
            ("intent", json!({ "call": "c1", "traits": {"read_only": false, "idempotent": false} })),
        ];
        let record = |(version, (kind, body)): (u64, (&str, serde_json::Value))| {
            let record = json!({
                "format": 1, "id": format!("1-{version}"), "session": session, "version": version, "epoch": epoch,
                "turn": turn, "at": 0, "kind": kind, "body": body,
            });
            Arc::new(serde_json::from_value::<Record>(record).unwrap())
        };
        let records = (1..).zip(facts).map(record).collect();
        batch.push(Append { session: session.clone(), epoch, expected_version: 0, records });
    }
    for answer in store.append(batch).await {
        answer.unwrap();
    }
}
