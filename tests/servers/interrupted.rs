//! Calls with side effects that the end of their turn interrupted: their outcome is unknown, whether or not they are
//! idempotent, and their partial output is kept. And a runtime ends with its last handle, even if its turn could
//! still be cancelled.

use std::sync::Arc;
use std::time::Duration;

use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, GuardReason};
use bob::tools::Policy;
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, Runtime, RuntimeBuilder};
use bob_actors::tools::ToolOverride;
use bob_messages::chat::{CallStatus, ToolResult};
use bob_messages::limits::Limits;
use bob_messages::store::Fact;
use serde_json::json;

use crate::servers::fixture::AGENT;
use crate::support::runtime::{Recorder, at, build, file_store, model_name, over, session, turn, within};
use crate::support::scratch::Scratch;

/// How a turn ends whose call runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Timeout,
    Cancel,
    Shutdown,
    Death,
}

/// A model that calls this tool when asked to "call", and answers anything else.
fn model(tool: &'static str, arguments: serde_json::Value) -> ScriptedLlm {
    let last = |request: &bob::model::LlmRequest| format!("{:?}", request.messages.last());
    ScriptedLlm::from_fn(move |request| match last(request).contains("call") {
        true => ScriptedReply::call(tool, arguments.clone()),
        false => ScriptedReply::text("fine"),
    })
}

/// A runtime with a server that takes a call of `append` and never answers, which may be repeated or not.
async fn fixture(folder: &Scratch, idempotent: bool, recorder: &Arc<Recorder>) -> Runtime {
    let log = folder.join("log").display().to_string();
    let args = ["drill-server", "--log", &log, "--mode", "silent-call"];
    let mut server = ServerSpec::stdio(ServerId::new("drill"), AGENT, args);
    server.required = true;
    let mut policy = Policy { require_high_risk_approval: false, ..Policy::default() };
    let rule = ToolOverride { idempotent: Some(idempotent), ..ToolOverride::default() };
    policy.tools.insert("mcp/drill/append".to_owned(), rule);
    let arguments = json!({"path": folder.join("effects"), "line": "x"});
    let builder = RuntimeBuilder::new(model_name()).model(Arc::new(model("mcp/drill/append", arguments)));
    let builder = builder.tool_server(server).policy(policy).store(file_store(&folder.join("store")));
    build(builder.sink(recorder.clone()).shutdown_grace(Duration::from_millis(10))).await
}

/// The answer of the session's next turn. The store of a killed runtime releases its sessions shortly after the
/// runtime's end; until then they are busy.
async fn turn_when_free(runtime: &Runtime) -> String {
    within(async {
        loop {
            match runtime.run(AgentRequest::text(session("s"), "hi")).await {
                Ok(AgentRunResult::Finished(response)) => return response.content.clone(),
                Err(AgentError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
                other => panic!("not finished: {other:?}"),
            }
        }
    })
    .await
}

/// The results in a session's journal.
async fn results(folder: &Scratch) -> Vec<Arc<ToolResult>> {
    let records = file_store(&folder.join("store")).load(&session("s")).await.expect("its journal");
    let results = records.iter().filter_map(|record| match &record.fact {
        Fact::Result(result) => Some(Arc::clone(result)),
        _ => None,
    });
    results.collect()
}

fn called(folder: &Scratch) -> bool {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    log.lines().any(|line| line.contains("\"call\""))
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_interrupted_write_is_unknown_at_every_end_whether_or_not_it_could_be_repeated() {
    for end in [End::Timeout, End::Cancel, End::Shutdown, End::Death] {
        for idempotent in [false, true] {
            let (folder, recorder) = (Scratch::new(), Recorder::new());
            let runtime = fixture(&folder, idempotent, &recorder).await;
            let turn_timeout_ms = if end == End::Timeout { 1_500 } else { 90_000 };
            let limits = Some(Limits { turn_timeout_ms, ..Limits::default() });
            let request = AgentRequest { limits, ..AgentRequest::text(session("s"), "call") };
            let running = tokio::spawn({
                let runtime = runtime.clone();
                async move { turn(&runtime, request).await }
            });
            within(async {
                while !called(&folder) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            match end {
                End::Timeout => {
                    let outcome = within(running).await.expect("the caller is answered");
                    assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout));
                    within(runtime.shutdown()).await;
                }
                End::Cancel => {
                    assert!(within(runtime.cancel(session("s"))).await);
                    let outcome = within(running).await.expect("the caller is answered");
                    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
                    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown);
                    within(runtime.shutdown()).await;
                }
                End::Shutdown => {
                    within(runtime.shutdown()).await;
                    within(running).await.expect("the caller is answered");
                }
                End::Death => {
                    running.abort();
                    let _it_was_aborted = running.await;
                    let mut ended = runtime.ended();
                    drop(runtime);
                    within(ended.wait_for(Option::is_some)).await.expect("its end is told");
                }
            }
            if end == End::Death {
                // The next input finds the turn and reports it.
                let next = fixture(&folder, idempotent, &recorder).await;
                assert_eq!(turn_when_free(&next).await, "fine");
                within(next.shutdown()).await;
            }
            let results = results(&folder).await;
            let told: Vec<_> = results.iter().map(|result| result.status).collect();
            assert_eq!(told, [CallStatus::Unknown], "{end:?}, idempotent: {idempotent}: {results:?}");
            assert!(results[0].output.plain().starts_with("outcome unknown"), "{results:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_cancelled_command_keeps_what_it_had_put_out() {
    let folder = Scratch::new();
    // More than a pipe holds: when the file is there, most of it has been read.
    let command = "i=0; while [ $i -lt 20000 ]; do echo tick $i; i=$((i+1)); done; touch ticked; sleep 600";
    let policy = Policy { deny_tools: Vec::new(), require_high_risk_approval: false, ..Policy::default() };
    let builder =
        over(model("local/shell_exec", json!({ "command": command }))).policy(policy).turn_config(at(folder.path()));
    let runtime = build(builder).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, AgentRequest::text(session("s"), "call")).await }
    });
    within(async {
        while !folder.join("ticked").exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(within(runtime.cancel(session("s"))).await);
    let outcome = within(running).await.expect("the caller is answered");
    let call = &outcome.tool_transcript[0];
    assert_eq!((outcome.finish_reason, call.status), (FinishReason::Cancelled, CallStatus::Unknown));
    assert!(call.duration_ms > 0 && call.result.starts_with("outcome unknown"), "{}", &call.result[..200]);
    let (_, output) = call.result.split_once("; its output so far:\n").expect("its output");
    assert!(output.len() > 60_000 && output.contains("\ntick "), "{} bytes", output.len());
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_turn_that_could_be_cancelled_does_not_keep_a_runtime_without_handles() {
    let recorder = Recorder::new();
    let runtime = build(over(ScriptedLlm::replies(vec![ScriptedReply::Stall])).sink(recorder.clone())).await;
    let token = tokio_util::sync::CancellationToken::new();
    let request = AgentRequest { cancel: Some(token.clone()), ..AgentRequest::text(session("s"), "wait") };
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(request).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    running.abort();
    let _it_was_aborted = running.await;
    let mut ended = runtime.ended();
    drop(runtime);
    within(ended.wait_for(Option::is_some)).await.expect("its end is told");
    token.cancel();
}
