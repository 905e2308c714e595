//! Tasks that outlive a turn: when they end, who reads their results, and on whose bill they are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bob::config::Limits;
use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::{FinishReason, OnParentEnd, ResumeReply};
use bob::tools::{Invocation, ToolError, ToolOutput, tool};
use bob::{AgentRuntime, Runtime, RuntimeBuilder};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use serde_json::json;

use crate::subagents::background::{ends, killed, staged, status, turns};
use crate::subagents::ends::{AtWork, generous};
use crate::subagents::stage::{Gate, Nothing, agent, asks, last, playing};
use crate::support::runtime::{build, say, session, turn, within};

/// Waits until the worker has ended like this.
async fn until_ended(runtime: &Runtime, how: FinishReason) {
    within(async {
        while ends(runtime, &session("s")).await != [(1, Some(how))] {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A root that calls a worker, waits for something outside, and then does this.
fn waiting(gate: &Gate, then: impl Fn(&LlmRequest) -> ScriptedReply + Send + Sync + 'static) -> RuntimeBuilder {
    let outside = tool("own/outside", "Waits for something.", |_: Nothing, _: Invocation| async {
        Ok::<_, ToolError>(ToolOutput::waits_for("a letter"))
    });
    let builder = staged(gate, OnParentEnd::Continue, move |request| match request.step {
        2 if !last(request).contains("next") => ScriptedReply::call("own/outside", json!({})),
        _ => then(request),
    });
    builder.tools(Arc::new(outside))
}

#[tokio::test]
async fn a_turn_that_is_given_up_ends_its_tasks_and_holds_up_no_other() {
    let gate = Gate::default();
    let runtime = build(waiting(&gate, |_| ScriptedReply::text("done"))).await;
    let first = within(runtime.run(say("go"))).await.unwrap();
    assert_eq!(first.response().finish_reason, FinishReason::Suspended);
    within(gate.entered.notified()).await;
    assert_eq!(turn(&runtime, say("next")).await.content, "done");
    until_ended(&runtime, FinishReason::Cancelled).await;
    assert_eq!((turns(&runtime, &session("s"), 3).await.len(), gate.passed.load(Ordering::SeqCst)), (2, 0));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_turn_that_is_resumed_and_cancelled_cancels_its_task() {
    let (gate, at_work) = (Gate::default(), AtWork::new());
    let builder = waiting(&gate, |_| ScriptedReply::call("own/work", json!({})));
    let runtime = build(builder.tools(at_work.tool())).await;
    let first = within(runtime.run(say("go"))).await.unwrap();
    let token = first.response().token.clone().expect("it is suspended");
    within(gate.entered.notified()).await;
    let resumed = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.resume(token, ResumeReply::Answer("it came".into())).await.unwrap().response().clone() }
    });
    at_work.until(1).await;
    assert!(within(runtime.cancel(session("s"))).await);
    assert_eq!(within(resumed).await.unwrap().finish_reason, FinishReason::Cancelled);
    until_ended(&runtime, FinishReason::Cancelled).await;
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_task_of_an_earlier_turn_goes_on_when_a_turn_is_cancelled_in_a_later_process() {
    let store = killed(OnParentEnd::Continue, 1).await;
    let (gate, at_work) = (Gate::default(), AtWork::new());
    let builder = staged(&gate, OnParentEnd::Continue, |request| match last(request).contains("and now?") {
        true => ScriptedReply::call("own/work", json!({})),
        false => ScriptedReply::text("I have read it"),
    });
    let runtime = build(builder.tools(at_work.tool()).store(store)).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("and now?")).await.unwrap().response().clone() }
    });
    at_work.until(1).await;
    within(gate.entered.notified()).await;
    assert!(within(runtime.cancel(session("s"))).await);
    assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
    gate.opened.notify_one();
    // The actor of the cancelled turn is followed by one that takes the result up.
    let all = turns(&runtime, &session("s"), 3).await;
    let brought = &all[2].0["body"]["parts"][0]["text"];
    assert!(brought.as_str().unwrap().ends_with("passed it"), "{brought}");
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_task_that_has_ended_in_its_turn_and_was_not_read_is_on_one_bill() {
    let gate = Gate::default();
    gate.opened.notify_one();
    let builder = staged(&gate, OnParentEnd::Continue, |request| match last(request) {
        told if told.contains("Its result:") => ScriptedReply::text("I have read it"),
        told if told.contains("finished") => ScriptedReply::text("it has finished"),
        _ => status(),
    });
    let runtime = build(builder.limits(Limits { max_identical_calls: 2_000, ..generous() })).await;
    let first = turn(&runtime, say("go")).await;
    assert_eq!(first.delegated.map(|used| used.sessions), Some(1), "{}", first.content);
    turns(&runtime, &session("s"), 2).await;
    let look = within(runtime.session(session("s"))).await.unwrap().unwrap();
    assert_eq!(look.last.unwrap().delegated, None);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn an_answer_for_which_children_are_cancelled_survives_a_crash() {
    let (gate, traps) = (Gate::default(), Traps::default());
    let builder = staged(&gate, OnParentEnd::Cancel, |request| match request.step {
        2 => ScriptedReply::call("own/met", json!({})),
        _ if last(request).contains("met") => ScriptedReply::text("that is all"),
        _ => ScriptedReply::text("asked again"),
    });
    let runtime = builder.tools(gate.met()).hook(traps.hook()).build().await.unwrap();
    // The third answer of the model is the last one.
    traps.arm(Trap::new(Target::Turn(session("s")), Edge::After("ParseAction"), Fault::Kill).after(2));
    let response = turn(&runtime, say("go")).await;
    assert_eq!((response.content.as_str(), response.steps), ("that is all", 3), "{response:?}");
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Cancelled))]);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_child_has_no_tasks_that_outlive_its_only_turn() {
    let (gate, store) = (Gate::default(), bob::store::MemoryStore::new());
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("a", 1) => asks("worker", "pass it"),
        ("a", 2) => ScriptedReply::call("own/met", json!({})),
        ("worker", 1) => ScriptedReply::call("own/gate", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.tools(gate.tool()).tools(gate.met()).subagent(agent("a").max_depth(1));
    let builder = builder.subagent(agent("worker").in_background(OnParentEnd::Continue)).store(store);
    let runtime = build(builder.limits(generous())).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!(response.delegated.map(|used| used.sessions), Some(2), "its task is on the bill");
    let child = crate::subagents::stage::children(&runtime, &session("s")).await.remove(0).session;
    assert_eq!(ends(&runtime, &child).await, [(1, Some(FinishReason::Cancelled))]);
    assert_eq!(ends(&runtime, &session("s")).await, [(1, Some(FinishReason::Final))]);
    within(runtime.shutdown()).await;
}
