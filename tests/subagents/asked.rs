//! What a child needs a person's word for is asked where its parent's questions are asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bob::approvals::{ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision, PermissionMode};
use bob::config::Limits;
use bob::model::ScriptedReply;
use bob::sessions::{FinishReason, OnParentEnd};
use bob::tools::CallStatus;
use bob::{AgentRequest, AgentRuntime, BoxFuture};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use serde_json::json;

use crate::subagents::stage::{agent, asks, calls, change, playing};
use crate::support::runtime::{build, say, session, turn, within};

/// A person who takes some time and keeps the questions.
struct Person {
    takes: Duration,
    asked: Arc<Mutex<Vec<ApprovalQuestion>>>,
}

impl ApprovalPort for Person {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        self.asked.lock().unwrap().push(question);
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            Decision::AllowOnce
        })
    }
}

#[tokio::test]
async fn a_question_of_a_child_names_the_agents_and_stops_the_time_of_all_above() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("a", 1) => calls([("agent/b", json!({"task": "one"})), ("agent/b", json!({"task": "two"}))]),
        ("b", 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let asked = Arc::default();
    let person = Person { takes: Duration::from_millis(1_500), asked: Arc::clone(&asked) };
    let builder = builder.tools(change("own/change")).approvals(Arc::new(person)).permission_mode(PermissionMode::Ask);
    let builder = builder.subagent(agent("a").max_depth(1)).subagent(agent("b"));
    // Less than the person takes, at each level.
    let limits = Limits { turn_timeout_ms: 1_200, progress_timeout_ms: 700, ..crate::subagents::ends::generous() };
    let runtime = build(builder.limits(limits)).await;
    let response = turn(&runtime, AgentRequest { approvals: ApprovalsMode::Wait, ..say("go") }).await;
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"), "{response:?}");
    assert_eq!(response.tool_transcript[0].status, CallStatus::Ok, "{response:?}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|question| question.agents == ["a", "b"] && question.call.name.as_str() == "own/change"));
}

#[tokio::test]
async fn a_caller_whose_actor_crashes_while_its_child_asks_has_its_whole_time() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("a", 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let asked = Arc::<Mutex<Vec<_>>>::default();
    let person = Person { takes: Duration::from_millis(2_000), asked: Arc::clone(&asked) };
    let builder = builder.tools(change("own/change")).approvals(Arc::new(person)).permission_mode(PermissionMode::Ask);
    let traps = Traps::default();
    // Less than the person takes.
    let limits = Limits { turn_timeout_ms: 1_500, ..crate::subagents::ends::generous() };
    let builder = builder.subagent(agent("a").budget_ratio(1.0)).limits(limits).hook(traps.hook());
    let runtime = builder.build().await.unwrap();
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, AgentRequest { approvals: ApprovalsMode::Wait, ..say("go") }).await }
    });
    within(async {
        while asked.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    traps.arm(Trap::new(Target::Turn(session("s")), Edge::Next, Fault::Kill));
    // A reader has the actor send what it has written.
    within(runtime.records(session("s"))).await.unwrap();
    let response = within(running).await.unwrap();
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"), "{response:?}");
    assert_eq!(traps.triggered_in_all(), 1);
}

#[tokio::test]
async fn what_would_suspend_a_child_in_the_background_is_denied() {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("root", 2) => ScriptedReply::call("agent/result", json!({"task": "c00000001", "wait_ms": 60_000})),
        ("a", 1) => ScriptedReply::call("own/change", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let agent = agent("a").in_background(OnParentEnd::Cancel);
    let builder = builder.tools(change("own/change")).permission_mode(PermissionMode::Ask).subagent(agent);
    let runtime = build(builder).await;
    let response = turn(&runtime, AgentRequest { approvals: ApprovalsMode::Suspend, ..say("go") }).await;
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"), "{response:?}");
    let child = &crate::subagents::stage::children(&runtime, &crate::support::runtime::session("s")).await[0];
    let look = bob::AgentRuntime::session(&runtime, child.session.clone()).await.unwrap().unwrap();
    assert_eq!(look.last.unwrap().denied.len(), 1);
}
