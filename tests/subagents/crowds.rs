//! Many parents, and children beside each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::model::ScriptedReply;
use bob::sessions::FinishReason;
use bob::tools::{Invocation, ToolError, tool};
use bob::{AgentRequest, AgentRuntime};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Barrier;

use crate::subagents::stage::{Nothing, agent, calls, playing};
use crate::support::runtime::{build, say, session, turn, within};

fn four() -> ScriptedReply {
    calls((0..4).map(|number| ("agent/a", json!({"task": format!("part {number}")}))))
}

#[tokio::test(flavor = "multi_thread")]
async fn children_run_in_their_parents_place_so_no_crowd_of_parents_waits_for_ever() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => four(),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.subagent(agent("a")).max_concurrent_turns(1024).max_waiting_turns(10_000);
    let runtime = build(builder).await;
    let requests = (0..1_000).map(|number| AgentRequest::text(session(&format!("p{number}")), "go"));
    let all = within(join_all(requests.map(|request| runtime.run(request)))).await;
    for result in all {
        let response = result.unwrap();
        assert_eq!(response.response().finish_reason, FinishReason::Final);
        assert_eq!(response.response().delegated.as_ref().unwrap().sessions, 4);
    }
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_parent_that_has_the_only_place_has_its_children_too() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => four(),
        ("a", 1) => calls([("agent/b", json!({"task": "below"}))]),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.subagent(agent("a").max_depth(1)).subagent(agent("b")).max_concurrent_turns(1);
    let runtime = build(builder.limits(crate::subagents::ends::generous())).await;
    let many = (0..5).map(|number| AgentRequest::text(session(&format!("p{number}")), "go"));
    for result in within(join_all(many.map(|request| runtime.run(request)))).await {
        assert_eq!(result.unwrap().response().delegated.as_ref().unwrap().sessions, 8);
    }
    let health = runtime.health().await;
    assert_eq!((health.running_turns, health.waiting_turns), (0, 0), "every place is free again");
}

/// Runs a step of six calls of this agent, and reads the results of tasks; returns the most children that ran at a time.
async fn most_at_a_time(worker: bob::Agent, most: usize, meets: usize) -> usize {
    let is_task = worker.background().is_some();
    let (builder, _) = playing(move |who, request| match (who, request.step) {
        ("root", 1) => calls((0..6).map(|number| ("agent/a", json!({"task": format!("part {number}")})))),
        ("root", 2) if is_task => {
            let asked = (1..=6).map(|number| json!({"task": format!("c{number:08}"), "wait_ms": 600_000}));
            calls(asked.map(|asked| ("agent/result", asked)))
        }
        ("a", 1) => ScriptedReply::call("own/meet", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let (now, seen, barrier) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(meets));
    let counts = Arc::new((now, seen, barrier));
    let kept = Arc::clone(&counts);
    let meet = tool("own/meet", "Meets the others.", move |_: Nothing, _: Invocation| {
        let counts = Arc::clone(&kept);
        async move {
            let (now, seen, barrier) = &*counts;
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ToolError>("met")
        }
    });
    let builder = builder.tools(Arc::new(meet)).subagent(worker).max_parallel_subagents(most);
    let runtime = build(builder.limits(crate::subagents::ends::generous())).await;
    let response = turn(&runtime, say("go")).await;
    assert_eq!(response.delegated.unwrap().sessions, 6);
    let ids: Vec<_> = response.tool_transcript.iter().map(|call| call.id.as_str().to_owned()).collect();
    assert!(ids.is_sorted(), "results are in the order of the calls: {ids:?}");
    let records = within(runtime.records(session("s"))).await.unwrap();
    assert_eq!(bob_messages::replay::replay(&records).map(|same| same.records), Ok(records.len()));
    counts.1.load(Ordering::SeqCst)
}

#[tokio::test]
async fn calls_of_agents_run_beside_each_other_and_no_more_than_so_many() {
    assert_eq!(within(Box::pin(most_at_a_time(agent("a"), 3, 3))).await, 3);
    assert_eq!(within(Box::pin(most_at_a_time(agent("a"), 1, 1))).await, 1);
}

#[tokio::test]
async fn tasks_are_no_more_than_so_many_either() {
    let worker = || agent("a").in_background(bob::sessions::OnParentEnd::Cancel);
    assert_eq!(within(Box::pin(most_at_a_time(worker(), 2, 2))).await, 2);
    assert_eq!(within(Box::pin(most_at_a_time(worker(), 1, 1))).await, 1);
}
