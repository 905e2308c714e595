//! Who may decide: the port, or `decide`, whoever is first, wherever the turn is.

use bob::{
    AgentRequest, AgentRunResult, AgentRuntime, ApprovalId, ApprovalsMode, Decision, FinishReason, SuspendReason,
};
use serde_json::json;

use super::house::{Ran, deny, edit, house, person, question, waiting};
use crate::support::runtime::{Recorder, build, file_store, say, session, turn, within};
use crate::support::scratch::Scratch;

#[tokio::test]
async fn the_port_decides_and_sees_exactly_what_runs() {
    let ran = Ran::default();
    let (port, mut questions) = person(&[Decision::AllowOnce, deny("too much"), edit(json!({"a": 5}))]);
    let runtime = build(house(&[1, 2, 3], &ran).approvals(port)).await;
    let outcome = turn(&runtime, waiting("pay")).await;
    assert_eq!((outcome.finish_reason, ran.with()), (FinishReason::Final, vec![1, 5]));
    assert_eq!(outcome.denied[0].reason, "denied: too much");
    let first = questions.recv().await.unwrap();
    assert_eq!((first.call.name.as_str(), &first.call.arguments), ("test/pay", &json!({"a": 1})));
    assert_eq!((first.title.as_str(), first.timeout_ms, first.exact), ("Pay", 600_000, false));
    assert_eq!(first.turn, outcome.turn_id);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn decide_is_heard_while_the_port_is_asked_and_counts_once() {
    let (ran, seen) = (Ran::default(), Recorder::new());
    let (port, mut questions) = person(&[]);
    let runtime = build(house(&[1], &ran).approvals(port).sink(seen.clone())).await;
    let running = runtime.clone();
    let owed = tokio::spawn(async move { turn(&running, waiting("pay")).await });
    let asked = within(questions.recv()).await.unwrap();
    let decide = |approval: &ApprovalId, decision| within(runtime.decide(session("s"), approval.clone(), decision));
    assert!(!decide(&ApprovalId::new("foreign"), Decision::AllowOnce).await.unwrap(), "nobody asked that");
    assert_eq!(question(&seen, 1).await, asked.approval_id);
    assert!(decide(&asked.approval_id, Decision::AllowOnce).await.unwrap());
    let outcome = within(owed).await.unwrap();
    assert_eq!((outcome.finish_reason, ran.with()), (FinishReason::Final, vec![1]));
    assert!(!decide(&asked.approval_id, deny("late")).await.unwrap(), "it was decided already");
    assert!(!within(runtime.decide(session("other"), asked.approval_id, Decision::AllowOnce)).await.unwrap());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_port_that_panics_denies() {
    struct Panics;
    impl bob::ApprovalPort for Panics {
        fn approve(&self, _: bob::ApprovalQuestion) -> futures_util::future::BoxFuture<'_, Decision> {
            panic!("nobody is at home")
        }
    }
    struct Default;
    impl bob::ApprovalPort for Default {}
    let ran = Ran::default();
    for (port, reason) in [
        (std::sync::Arc::new(Panics) as std::sync::Arc<dyn bob::ApprovalPort>, "denied: nobody could be asked"),
        (std::sync::Arc::new(Default), "denied: nobody can be asked here"),
    ] {
        let runtime = build(house(&[1], &ran).approvals(port)).await;
        let outcome = turn(&runtime, waiting("pay")).await;
        assert_eq!((outcome.denied[0].reason.as_str(), ran.with()), (reason, vec![]));
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn a_suspended_turn_is_decided_by_its_question_too() {
    let ran = Ran::default();
    let seen = Recorder::new();
    let runtime = build(house(&[1], &ran).sink(seen.clone())).await;
    let request = AgentRequest { approvals: ApprovalsMode::Suspend, ..say("pay") };
    let suspended = within(runtime.run(request)).await.unwrap();
    assert!(matches!(suspended, AgentRunResult::Suspended { reason: SuspendReason::ApprovalRequired, .. }));
    let asked = question(&seen, 1).await;
    assert!(within(runtime.close(session("s"))).await, "its actor is let go");
    assert!(within(runtime.decide(session("s"), asked.clone(), Decision::AllowOnce)).await.unwrap());
    seen.seen_times(2, |event| matches!(event, bob::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [1]);
    assert!(!within(runtime.decide(session("s"), asked, Decision::AllowOnce)).await.unwrap());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_turn_outlives_its_process() {
    for allowed in [true, false] {
        let (ran, seen, folder) = (Ran::default(), Recorder::new(), Scratch::new());
        let before = build(house(&[1], &ran).store(file_store(folder.path())).sink(seen.clone())).await;
        let running = before.clone();
        let lost = tokio::spawn(async move { running.run(waiting("pay")).await });
        let asked = question(&seen, 1).await;

        // The next one takes the session from it, as it would from one that was killed.
        let takes_over = bob::StoreOptions { take_over: true, ..bob::StoreOptions::default() };
        let store = bob::FileStore::open(folder.path(), takes_over).unwrap();
        let again = Recorder::new();
        let after = build(house(&[1], &ran).store(store).sink(again.clone())).await;
        let decision = if allowed { Decision::AllowOnce } else { deny("not now") };
        assert!(within(after.decide(session("s"), asked, decision)).await.unwrap());
        again.seen(|event| matches!(event, bob::AgentEvent::TurnFinished { .. })).await;
        assert_eq!(ran.with(), if allowed { vec![1] } else { vec![] }, "as it was decided, and once");
        within(before.shutdown()).await;
        within(lost).await.unwrap().unwrap();
        within(after.shutdown()).await;
    }
}
