//! Ends from outside: clocks, cancels, a crash of the turn's actor, and the end of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bob::config::{Limits, TurnConfig};
use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::{FnTool, ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, Runtime};
use bob_drill::traps::{Edge, Fault, Target, Trap};
use bob_messages::event::CallState;
use bob_messages::turn_config::OnRestart;
use serde_json::json;

use crate::support::runtime::{Nothing, Recorder, build, model_name, say, session, trapped, within};
use crate::tapes::stage::Stage;

/// A tool that never comes back.
fn endless(name: &str) -> FnTool {
    tool(name, "Never ends.", |_: Nothing, _| async {
        std::future::pending::<()>().await;
        Ok(ToolOutput::text("never"))
    })
}

/// Stalls, calls the endless tool or answers, on request.
fn obedient() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| {
        let said = format!("{:?}", request.messages.last());
        match request.step {
            1 if said.contains("stall") => ScriptedReply::Stall,
            1 if said.contains("endless") => ScriptedReply::call("test/endless", json!({})),
            _ => ScriptedReply::text("fine"),
        }
    })
}

pub(crate) async fn timeouts(stage: &Stage) {
    let runtime = build(stage.with(obedient()).tools(Arc::new(endless("test/endless")))).await;
    let limits = Limits { turn_timeout_ms: 600, ..Limits::default() };
    stage.say(&runtime, AgentRequest { limits: Some(limits), ..say("stall") }).await;
    let limits = Limits { tool_timeout_ms: 100, ..Limits::default() };
    stage.say(&runtime, AgentRequest { limits: Some(limits), ..say("the endless one, for a while") }).await;
    let limits = Limits { turn_timeout_ms: 600, ..Limits::default() };
    stage.say(&runtime, AgentRequest { limits: Some(limits), ..say("the endless one, until the turn ends") }).await;
    stage.say(&runtime, say("and now?")).await;
    runtime.shutdown().await;
}

/// Waits for these numbers of model calls and tool calls.
async fn seen(recorder: &Recorder, asked: usize, running: usize) {
    recorder.seen_times(asked, |event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let runs = |event: &AgentEvent| matches!(event, AgentEvent::ToolCalled { state: CallState::Running, .. });
    recorder.seen_times(running, runs).await;
}

pub(crate) async fn cancels(stage: &Stage) {
    let recorder = Recorder::new();
    let builder = stage.with(obedient()).tools(Arc::new(endless("test/endless"))).sink(recorder.clone());
    let runtime = build(builder).await;
    for (text, asked, running) in [("stall", 1, 0), ("the endless one", 2, 1)] {
        stage.began();
        let turn = spawn(&runtime, say(text));
        seen(&recorder, asked, running).await;
        assert!(within(runtime.cancel(session("s"))).await, "there was something to cancel");
        within(turn).await.expect("the caller is answered");
    }
    stage.say(&runtime, say("and now?")).await;
    runtime.shutdown().await;
}

fn spawn(runtime: &Runtime, request: AgentRequest) -> tokio::task::JoinHandle<()> {
    let runtime = runtime.clone();
    tokio::spawn(async move { drop(runtime.run(request).await) })
}

/// The turn's actor is killed before it receives an answer: its successor resumes from the journal.
pub(crate) async fn crash(stage: &Stage) {
    let (runtime, traps) = trapped(stage.with(obedient()).tools(Arc::new(endless("test/endless")))).await;
    for (at, text) in [("ParseAction", "hello"), ("Done", "hello again"), ("BuildPrompt", "hello once more")] {
        traps.arm(Trap::new(Target::Turn(session("s")), Edge::Before(at), Fault::Panic));
        stage.say(&runtime, say(text)).await;
    }
    runtime.shutdown().await;
}

/// The program ends in the middle of a call; the next one reports it, or finishes it.
pub(crate) async fn program_dies(stage: &Stage) {
    let stalled = Arc::new(AtomicBool::new(false));
    for on_restart in [OnRestart::Report, OnRestart::Resume] {
        let once = Arc::clone(&stalled);
        once.store(false, Ordering::SeqCst);
        let sometimes = tool("test/endless", "Ends the second time.", move |_: Nothing, _| {
            let is_first = !once.swap(true, Ordering::SeqCst);
            async move {
                if is_first {
                    std::future::pending::<()>().await;
                }
                Ok(ToolOutput::text("at last"))
            }
        });
        let tools = Arc::new(sometimes.read_only());
        let turn_config = || TurnConfig { on_restart, ..TurnConfig::new(model_name()) };
        let recorder = Recorder::new();
        let builder = stage.with(obedient()).tools(tools.clone()).turn_config(turn_config()).sink(recorder.clone());
        let runtime = build(builder).await;
        stage.began();
        let turn = spawn(&runtime, say("the endless one"));
        seen(&recorder, 1, 1).await;
        turn.abort();
        let _it_was_aborted = turn.await;
        // No shutdown: the tree ends with its last handle.
        let mut ended = runtime.ended();
        drop(runtime);
        within(ended.wait_for(Option::is_some)).await.expect("its end is told");
        let runtime = build(stage.with(obedient()).tools(tools).turn_config(turn_config())).await;
        stage.say(&runtime, say("and now?")).await;
        runtime.shutdown().await;
    }
}
