//! A cancelled call: its server is notified at once, its outcome is unknown, and a late response is ignored.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bob::approvals::PermissionMode;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentRequest, AgentResponse, AgentRuntime, Runtime, RuntimeBuilder};
use bob_messages::chat::CallStatus;
use serde_json::{Value, json};

use crate::servers::fixture::AGENT;
use crate::support::runtime::{model_name, session, turn, within};
use crate::support::scratch::Scratch;
use crate::support::stopwatch::Stopwatch;

/// Time limit of a cancel notification: 100 ms by design, more on a loaded machine.
const HEARD_WITHIN: Duration = Duration::from_millis(500);

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    u64::try_from(since.as_millis()).expect("some time yet")
}

/// A runtime with one server in this mode, with a log, and a model that calls its tool on request.
async fn fixture(folder: &Path, mode: &str, tool: &str, arguments: Value) -> Runtime {
    let log = folder.join("log").display().to_string();
    let args = ["drill-server", "--log", &log, "--mode", mode];
    let mut server = ServerSpec::stdio(ServerId::new("drill"), AGENT, args);
    server.required = true;
    let tool = format!("mcp/drill/{tool}");
    let last = |request: &bob::model::LlmRequest| format!("{:?}", request.messages.last());
    let model = ScriptedLlm::from_fn(move |request| match last(request).contains("call") {
        true => ScriptedReply::call(tool.clone(), arguments.clone()),
        false => ScriptedReply::text("fine"),
    });
    let builder = RuntimeBuilder::new(model_name())
        .permission_mode(PermissionMode::Auto)
        .model(Arc::new(model))
        .tool_server(server);
    builder.build().await.expect("a runtime")
}

fn log(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of<'a>(log: &'a [Value], event: &'a str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["event"] == event)
}

async fn until(folder: &Path, event: &str, count: usize) {
    within(async {
        while of(&log(folder), event).count() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn spawned(runtime: &Runtime, number: usize, text: &str) -> tokio::task::JoinHandle<AgentResponse> {
    let (runtime, request) = (runtime.clone(), AgentRequest::text(session(&format!("s{number}")), text));
    tokio::spawn(async move { turn(&runtime, request).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_cancelled_call_is_taken_back_at_once_and_its_effect_is_unknown() {
    const CALLS: usize = 20;
    let folder = Scratch::new();
    let arguments = json!({"path": folder.join("effects"), "line": "x"});
    // It takes the call and never answers, as a tool does that is busy with its effect.
    let runtime = fixture(folder.path(), "silent-call", "append", arguments).await;
    let mut heard = Vec::new();
    for number in 0..CALLS {
        let running = spawned(&runtime, number, "call");
        until(folder.path(), "call", number + 1).await;
        let (watch, began) = (Stopwatch::start(), now_ms());
        assert!(within(runtime.cancel(session(&format!("s{number}")))).await);
        let outcome = within(running).await.expect("the caller is answered");
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
        let call = &outcome.tool_transcript[0];
        assert_eq!((outcome.tool_transcript.len(), call.status), (1, CallStatus::Unknown), "{call:?}");
        until(folder.path(), "cancelled", number + 1).await;
        watch.assert_within(HEARD_WITHIN, "the server heard of a cancel");
        let log = log(folder.path());
        let (called, notice) = (of(&log, "call").last().unwrap(), of(&log, "cancelled").last().unwrap());
        assert_eq!(notice["id"], called["id"], "the notice names the call");
        heard.push(notice["wall_ms"].as_u64().expect("a time").saturating_sub(began));
        assert_eq!(turn(&runtime, AgentRequest::text(session(&format!("s{number}")), "hi")).await.content, "fine");
    }
    heard.sort_unstable();
    eprintln!("from a cancel to its notice in the server, in ms: {heard:?}");
    assert_eq!(of(&log(folder.path()), "start").count(), 1, "the server lives on");
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_the_late_answer_to_a_cancelled_call_is_dropped() {
    let folder = Scratch::new();
    // It continues the cancelled call and responds.
    let runtime = fixture(folder.path(), "late-reply", "sleep", json!({"ms": 700})).await;
    let running = spawned(&runtime, 0, "call");
    until(folder.path(), "call", 1).await;
    assert!(within(runtime.cancel(session("s0"))).await);
    let outcome = within(running).await.expect("the caller is answered");
    let status = outcome.tool_transcript[0].status;
    assert_ne!(status, CallStatus::Ok, "nobody waited for it");
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    until(folder.path(), "cancelled", 1).await;
    // A call of equal length that began later ends later: the late response precedes it.
    let next = spawned(&runtime, 1, "call");
    until(folder.path(), "call", 2).await;
    let records = || async { within(runtime.records(session("s0"))).await.expect("the journal") };
    let before = records().await;
    within(async {
        while !next.is_finished() && of(&log(folder.path()), "call").count() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(records().await, before, "the late answer changed nothing");
    within(runtime.cancel(session("s1"))).await;
    assert_eq!(turn(&runtime, AgentRequest::text(session("s0"), "hi")).await.content, "fine", "the session goes on");
    assert_eq!(of(&log(folder.path()), "start").count(), 1, "nobody is ended for a late word");
    within(runtime.shutdown()).await;
}

/// A first turn waits for starting servers; until then nothing was requested of them.
#[tokio::test(flavor = "multi_thread")]
async fn c1_a_cancel_ends_the_wait_for_servers_that_start() {
    let folder = Scratch::new();
    let log = folder.join("log").display().to_string();
    let args = ["drill-server", "--log", &log, "--mode", "silent-init"];
    let server = ServerSpec::stdio(ServerId::new("drill"), AGENT, args);
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("never asked")]);
    let builder = RuntimeBuilder::new(model_name())
        .permission_mode(PermissionMode::Auto)
        .model(Arc::new(model))
        .tool_server(server);
    let runtime = builder.build().await.expect("a runtime");
    let running = spawned(&runtime, 0, "hi");
    until(folder.path(), "initialize", 1).await;
    // The input is in the journal, and the turn has not begun.
    within(async {
        while within(runtime.records(session("s0"))).await.expect("the journal").len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let began = Stopwatch::start();
    assert!(within(runtime.cancel(session("s0"))).await);
    let outcome = within(running).await.expect("the caller is answered");
    began.assert_within(HEARD_WITHIN, "the server heard");
    assert_eq!((outcome.finish_reason, outcome.steps), (FinishReason::Cancelled, 0));
    within(runtime.shutdown()).await;
}
