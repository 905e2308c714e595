//! Cancel, timeout and death go down the tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bob::config::Limits;
use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::{FinishReason, SessionState};
use bob::tools::{Invocation, ToolError, ToolPort, tool};
use bob::{AgentRequest, AgentRuntime, Runtime, RuntimeBuilder};
use serde_json::json;
use tokio::sync::watch;

use crate::subagents::stage::{Nothing, agent, calls, children, playing};
use crate::support::runtime::{build, say, session, within};
use crate::support::stopwatch::Stopwatch;

/// An optimised program takes 12 ms at most for this (docs/subagents.md); this one is not optimised.
const CANCELLED_WITHIN: Duration = Duration::from_millis(100);

pub(crate) fn generous() -> Limits {
    Limits { max_steps: 2_000, max_tool_calls: 2_000, max_consecutive_errors: 500, ..Limits::default() }
}

/// Counts the calls that run.
#[derive(Clone)]
pub(crate) struct AtWork(Arc<watch::Sender<usize>>);

impl AtWork {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// A tool that works until it is abandoned.
    pub(crate) fn tool(&self) -> Arc<dyn ToolPort> {
        let at_work = self.clone();
        Arc::new(tool("own/work", "Works.", move |_: Nothing, _: Invocation| {
            let held = at_work.held();
            async move {
                let _held = held;
                std::future::pending::<()>().await;
                Ok::<_, ToolError>("never")
            }
        }))
    }

    /// A tool that waits until three of them work.
    pub(crate) fn three(&self) -> Arc<dyn ToolPort> {
        let at_work = self.clone();
        Arc::new(tool("own/three", "Waits for three.", move |_: Nothing, _: Invocation| {
            let at_work = at_work.clone();
            async move {
                at_work.until(3).await;
                Ok::<_, ToolError>("three")
            }
        }))
    }

    fn held(&self) -> Held {
        self.0.send_modify(|count| *count += 1);
        Held(Arc::clone(&self.0))
    }

    pub(crate) async fn until(&self, count: usize) {
        let mut counts = self.0.subscribe();
        within(counts.wait_for(|now| *now == count)).await.unwrap();
    }
}

struct Held(Arc<watch::Sender<usize>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A root with four agents, each of which has four, whose tools work for ever: 16 calls, 21 sessions.
pub(crate) fn tree(at_work: &AtWork) -> RuntimeBuilder {
    let play = |who: &str, _: &LlmRequest| match who {
        "root" => calls((0..4).map(|number| ("agent/a", json!({"task": format!("part {number}")})))),
        "a" => calls((0..4).map(|number| ("agent/b", json!({"task": format!("part {number}")})))),
        _ => ScriptedReply::call("own/work", json!({})),
    };
    let (builder, _) = playing(play);
    builder
        .tools(at_work.tool())
        .subagent(agent("a").max_depth(1))
        .subagent(agent("b"))
        .limits(Limits { tool_timeout_ms: 600_000, ..generous() })
}

/// All sessions below this one end, are idle then, and say how they ended.
async fn ended_below(runtime: &Runtime, of: &bob::SessionId) -> Vec<FinishReason> {
    let mut all = Vec::new();
    for child in children(runtime, of).await {
        let ended = async {
            loop {
                if let Some(last) = runtime.session(child.session.clone()).await.unwrap().unwrap().last {
                    break last.finish_reason;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        all.push(within(ended).await);
        all.extend(Box::pin(ended_below(runtime, &child.session)).await);
    }
    for child in children(runtime, of).await {
        assert_eq!(child.state, Some(SessionState::Idle), "{}", child.session);
    }
    all
}

/// Waits until no turn of a caller runs. Those below it may still be written.
async fn quiet(runtime: &Runtime) {
    within(async {
        while runtime.health().await.running_turns > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_whole_tree() {
    let at_work = AtWork::new();
    let runtime = build(tree(&at_work)).await;
    let mut times = Vec::new();
    for round in 0..20 {
        let id = session(&format!("r{round}"));
        let running = tokio::spawn({
            let (runtime, id) = (runtime.clone(), id.clone());
            async move { runtime.run(AgentRequest::text(id, "go")).await.unwrap().response().clone() }
        });
        at_work.until(16).await;
        let since = Stopwatch::start();
        assert!(runtime.cancel(id.clone()).await);
        at_work.until(0).await;
        times.push(since.assert_within(CANCELLED_WITHIN, "a cancel until no tool of the tree runs"));
        let outcome = within(running).await.unwrap();
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
        quiet(&runtime).await;
        if round == 0 {
            let ends = ended_below(&runtime, &id).await;
            assert_eq!(ends, vec![FinishReason::Cancelled; 20]);
        }
    }
    times.sort();
    println!("cancel of 3 levels of 4 until nothing runs: median {:?}, slowest of 20 {:?}", times[10], times[19]);
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_of_the_parent_ends_the_tree_and_so_does_the_end_of_the_runtime() {
    let at_work = AtWork::new();
    let runtime = build(tree(&at_work)).await;
    let limits = Limits { turn_timeout_ms: 1_500, ..generous() };
    let outcome = within(runtime.run(AgentRequest { limits: Some(limits), ..say("go") })).await.unwrap();
    assert_eq!(outcome.response().finish_reason, FinishReason::GuardExceeded);
    at_work.until(0).await;

    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(AgentRequest::text(session("t"), "go")).await }
    });
    at_work.until(16).await;
    within(runtime.shutdown()).await;
    at_work.until(0).await;
    assert!(within(running).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_child_that_is_cancelled_by_itself_is_an_error_of_its_call_alone() {
    let at_work = AtWork::new();
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls((0..2).map(|number| ("agent/b", json!({"task": format!("part {number}")})))),
        ("root", _) => ScriptedReply::text("one is gone"),
        _ => ScriptedReply::call("own/work", json!({})),
    });
    let runtime = build(builder.tools(at_work.tool()).subagent(agent("b")).limits(generous())).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await.unwrap().response().clone() }
    });
    at_work.until(2).await;
    let all = children(&runtime, &session("s")).await;
    assert!(within(runtime.cancel(all[0].session.clone())).await);
    at_work.until(1).await;
    assert!(within(runtime.cancel(all[1].session.clone())).await);
    let outcome = within(running).await.unwrap();
    assert_eq!(outcome.content, "one is gone");
    assert!(outcome.tool_transcript.iter().all(|call| call.result.starts_with("the agent b was cancelled")));
}

#[tokio::test]
async fn a_child_that_makes_progress_is_progress_of_its_parent() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => calls([("agent/b", json!({"task": "slow"}))]),
        ("b", 1..=30) => ScriptedReply::call("own/slow", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let steps = Arc::new(AtomicUsize::new(0));
    let slow = tool("own/slow", "Takes its time.", move |_: Nothing, _: Invocation| {
        steps.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, ToolError>("slept")
        }
    });
    let runtime = build(builder.tools(Arc::new(slow.read_only())).subagent(agent("b"))).await;
    // Twenty times as long as a step, which may be late on a busy machine.
    let limits = Limits { progress_timeout_ms: 2_000, max_identical_calls: 100, tool_timeout_ms: 60_000, ..generous() };
    let outcome = within(runtime.run(AgentRequest { limits: Some(limits), ..say("go") })).await.unwrap();
    assert_eq!(outcome.response().content, "done", "3 s without a sign of its own, and none of them silent");
}
