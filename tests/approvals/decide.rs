//! Decisions by the port or by `decide`: the first one wins, wherever the turn is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bob::approvals::{ApprovalId, ApprovalsMode, Decision};
use bob::events::AgentStreamEvent;
use bob::sessions::{FinishReason, SuspendReason};
use bob::store::Record;
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, Runtime, RuntimeBuilder};
use bob_messages::store::Fact;
use serde_json::json;
use tokio::task::JoinHandle;

use super::fixture::{Ran, builder, deny, edit, person, question, waiting};
use crate::support::runtime::{Recorder, build, ended, file_store, say, session, turn, within};
use crate::support::scratch::Scratch;

#[tokio::test]
async fn the_port_decides_and_sees_exactly_what_runs() {
    let ran = Ran::default();
    let (port, mut questions) = person(&[Decision::AllowOnce, deny("too much"), edit(json!({"a": 5}))]);
    let runtime = build(builder(&[1, 2, 3], &ran).approvals(port)).await;
    let outcome = turn(&runtime, waiting("pay")).await;
    assert_eq!((outcome.finish_reason, ran.with()), (FinishReason::Final, vec![1, 5]));
    assert_eq!(outcome.denied[0].reason, "denied: too much");
    let first = questions.recv().await.unwrap();
    assert_eq!((first.call.name.as_str(), &*first.call.arguments), ("test/pay", &json!({"a": 1})));
    assert_eq!((first.title.as_str(), first.timeout_ms, first.exact), ("Pay", 600_000, false));
    assert_eq!(first.turn, outcome.turn_id);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_stream_shows_that_a_call_waits_for_a_person() {
    let ran = Ran::default();
    let (port, _questions) = person(&[Decision::AllowOnce]);
    let runtime = build(builder(&[1], &ran).approvals(port)).await;
    let mut stream = within(runtime.run_stream(waiting("pay"))).await.unwrap();
    let mut states = Vec::new();
    while let Some(item) = within(stream.next()).await {
        match item.event {
            AgentStreamEvent::ToolCall { state, .. } => states.push(serde_json::to_value(state).unwrap()),
            AgentStreamEvent::ApprovalRequested { reason, .. } => {
                assert!(!reason.is_empty(), "it says why");
                states.push(json!("asked"));
            }
            _ => {}
        }
    }
    assert_eq!(states, ["proposed", "awaiting_approval", "asked", "running", "finished"]);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn decide_is_heard_while_the_port_is_asked_and_counts_once() {
    let (ran, seen) = (Ran::default(), Recorder::new());
    let (port, mut questions) = person(&[]);
    let runtime = build(builder(&[1], &ran).approvals(port).sink(seen.clone())).await;
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
    impl bob::approvals::ApprovalPort for Panics {
        fn approve(&self, _: bob::approvals::ApprovalQuestion) -> futures_util::future::BoxFuture<'_, Decision> {
            panic!("nobody is at home")
        }
    }
    struct Default;
    impl bob::approvals::ApprovalPort for Default {}
    let ran = Ran::default();
    for (port, reason) in [
        (
            std::sync::Arc::new(Panics) as std::sync::Arc<dyn bob::approvals::ApprovalPort>,
            "denied: the approval could not be requested",
        ),
        (std::sync::Arc::new(Default), "denied: no approval is possible here"),
    ] {
        let runtime = build(builder(&[1], &ran).approvals(port)).await;
        let outcome = turn(&runtime, waiting("pay")).await;
        assert_eq!((outcome.denied[0].reason.as_str(), ran.with()), (reason, vec![]));
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn a_suspended_turn_is_decided_by_its_question_too() {
    let ran = Ran::default();
    let seen = Recorder::new();
    let runtime = build(builder(&[1], &ran).sink(seen.clone())).await;
    let request = AgentRequest { approvals: ApprovalsMode::Suspend, ..say("pay") };
    let suspended = within(runtime.run(request)).await.unwrap();
    assert!(matches!(suspended, AgentRunResult::Suspended { reason: SuspendReason::ApprovalRequired, .. }));
    let asked = question(&seen, 1).await;
    assert!(within(runtime.close(session("s"))).await, "its actor is let go");
    assert!(within(runtime.decide(session("s"), asked.clone(), Decision::AllowOnce)).await.unwrap());
    seen.seen_times(2, |event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [1]);
    assert!(!within(runtime.decide(session("s"), asked, Decision::AllowOnce)).await.unwrap());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_suspended_turn_hears_about_the_call_that_is_named_and_no_other() {
    let (ran, seen) = (Ran::default(), Recorder::new());
    let calls = [1, 2].map(|a| bob::model::ScriptedCall { name: "test/pay".to_owned(), arguments: json!({"a": a}) });
    let model = bob::model::ScriptedLlm::replies(vec![
        bob::model::ScriptedReply::Calls(calls.to_vec()),
        bob::model::ScriptedReply::text("done"),
    ]);
    let tools = std::sync::Arc::new(super::fixture::pay(&ran, "Pays."));
    let runtime =
        build(crate::support::runtime::asking(model).local_tools(false).tools(tools).sink(seen.clone())).await;
    let request = AgentRequest { approvals: ApprovalsMode::Suspend, ..say("pay both") };
    within(runtime.run(request)).await.unwrap();
    let second = question(&seen, 2).await;
    assert!(within(runtime.decide(session("s"), second.clone(), Decision::AllowOnce)).await.unwrap());
    seen.seen_times(2, |event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [2], "the first one is asked about still");
    assert!(!within(runtime.decide(session("s"), second, Decision::AllowOnce)).await.unwrap());
    assert!(within(runtime.decide(session("s"), question(&seen, 1).await, Decision::AllowOnce)).await.unwrap());
    seen.seen_times(3, |event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [2, 1]);
    within(runtime.shutdown()).await;
}

/// A runtime whose turn waits at a question, with its answer and the question's name; the journal has it.
async fn left_at_its_question(
    ran: &Ran,
    folder: &Path,
) -> (Runtime, JoinHandle<Result<AgentRunResult, AgentError>>, ApprovalId) {
    let (seen, store) = (Recorder::new(), file_store(folder));
    let runtime = build(builder(&[1], ran).store(Arc::clone(&store) as _).sink(seen.clone())).await;
    let running = runtime.clone();
    let owed = tokio::spawn(async move { running.run(waiting("pay")).await });
    let asked = question(&seen, 1).await;
    // The event precedes the write to disk.
    within(async {
        let is_it = |record: &Arc<Record>| matches!(record.fact, Fact::ApprovalAsked { .. });
        while !store.load(&session("s")).await.unwrap().iter().any(is_it) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    (runtime, owed, asked)
}

/// The next one, which takes the session from it as it would from one that was killed.
async fn next_process(builder: RuntimeBuilder, folder: &Path) -> (Runtime, Arc<Recorder>) {
    let takes_over = bob::store::StoreOptions { take_over: true, ..bob::store::StoreOptions::default() };
    let store = bob::store::SqliteStore::open(&folder.join("sessions.db"), takes_over).unwrap();
    let seen = Recorder::new();
    (build(builder.store(store).sink(seen.clone())).await, seen)
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_turn_outlives_its_process() {
    for allowed in [true, false] {
        let (ran, folder) = (Ran::default(), Scratch::new());
        let (before, lost, asked) = left_at_its_question(&ran, folder.path()).await;

        let (after, again) = next_process(builder(&[1], &ran), folder.path()).await;
        let decision = if allowed { Decision::AllowOnce } else { deny("not now") };
        assert!(within(after.decide(session("s"), asked, decision)).await.unwrap());
        again.seen(|event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
        assert_eq!(ran.with(), if allowed { vec![1] } else { vec![] }, "as it was decided, and once");
        within(before.shutdown()).await;
        within(lost).await.unwrap().unwrap();
        within(after.shutdown()).await;
    }
}

#[tokio::test]
async fn a_decision_counts_also_when_its_turn_has_ended_before_its_caller_looks() {
    for allowed in [true, false] {
        let (ran, folder) = (Ran::default(), Scratch::new());
        let (before, lost, asked) = left_at_its_question(&ran, folder.path()).await;
        let (after, again) = next_process(builder(&[1], &ran), folder.path()).await;
        let decision = if allowed { Decision::AllowOnce } else { deny("not now") };
        let mut decided = std::pin::pin!(after.decide(session("s"), asked, decision));
        // It is on its way when the turn is taken up, and is not polled again until the turn has ended.
        tokio::select! {
            biased;
            () = again.seen(|event| matches!(event, bob::events::AgentEvent::TurnStarted { .. })) => {}
            early = &mut decided => assert!(early.unwrap()),
        }
        again.seen(|event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
        assert!(within(decided).await.unwrap(), "the turn went by it");
        assert_eq!(ran.with(), if allowed { vec![1] } else { vec![] });
        within(before.shutdown()).await;
        within(lost).await.unwrap().unwrap();
        within(after.shutdown()).await;
    }
}

#[tokio::test]
async fn a_change_of_the_options_before_does_not_swallow_the_decision() {
    let (ran, folder) = (Ran::default(), Scratch::new());
    let (before, lost, asked) = left_at_its_question(&ran, folder.path()).await;
    let (after, again) = next_process(builder(&[1], &ran), folder.path()).await;
    // Its actor has read the journal and left the open turn unchanged.
    let patch = bob::sessions::OptionsPatch {
        agent: bob::sessions::Change::Set("new".to_owned()),
        ..bob::sessions::OptionsPatch::default()
    };
    within(after.configure(session("s"), patch, None)).await.unwrap();
    // Two decide at once, and each takes the turn up.
    let decide = || within(after.decide(session("s"), asked.clone(), Decision::AllowOnce));
    let (one, other) = tokio::join!(decide(), decide());
    assert_eq!(usize::from(one.unwrap()) + usize::from(other.unwrap()), 1, "one of them counts");
    again.seen(|event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [1], "the turn went on with it");
    assert!(within(after.close(session("s"))).await, "nothing of it runs any more");
    within(before.shutdown()).await;
    within(lost).await.unwrap().unwrap();
    within(after.shutdown()).await;
}

#[tokio::test]
async fn a_decision_waits_for_the_place_of_a_turn_that_is_taken_up() {
    let (ran, folder) = (Ran::default(), Scratch::new());
    let (before, lost, asked) = left_at_its_question(&ran, folder.path()).await;
    let (after, again) = next_process(builder(&[1], &ran).max_concurrent_turns(1), folder.path()).await;
    // The only place is taken by a turn that waits for a person, too.
    let other = after.clone();
    let request = AgentRequest { approvals: ApprovalsMode::Wait, ..AgentRequest::text(session("other"), "pay") };
    let busy = tokio::spawn(async move { other.run(request).await });
    let others = question(&again, 1).await;
    let decider = after.clone();
    let decided = tokio::spawn(async move { decider.decide(session("s"), asked, Decision::AllowOnce).await });
    let is_waiting = async {
        while after.metrics().await.sessions.waiting == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    within(is_waiting).await;
    assert!(!decided.is_finished(), "it is not lost");
    assert!(within(after.decide(session("other"), others, deny("not now"))).await.unwrap());
    assert!(within(decided).await.unwrap().unwrap(), "it was heard when the turn had its place");
    again.seen_times(2, |event| matches!(event, bob::events::AgentEvent::TurnFinished { .. })).await;
    assert_eq!(ran.with(), [1]);
    within(busy).await.unwrap().unwrap();
    within(before.shutdown()).await;
    within(lost).await.unwrap().unwrap();
    within(after.shutdown()).await;
}

#[tokio::test]
async fn g12_a_flood_of_questions_is_bounded_and_nobody_says_yes_by_default() {
    let ran = Ran::default();
    let (port, mut questions) = person(&vec![deny("no"); 200]);
    let calls = (0..100)
        .map(|a| bob::model::ScriptedCall { name: "test/pay".to_owned(), arguments: json!({"a": a}) })
        .collect();
    let model = bob::model::ScriptedLlm::replies(vec![
        bob::model::ScriptedReply::Calls(calls),
        bob::model::ScriptedReply::text("done"),
    ]);
    let tools = std::sync::Arc::new(super::fixture::pay(&ran, "Pays."));
    let runtime = build(crate::support::runtime::asking(model).local_tools(false).tools(tools).approvals(port)).await;
    let outcome = turn(&runtime, waiting("pay a hundred times")).await;
    questions.close();
    let mut asked = 0;
    while questions.recv().await.is_some() {
        asked += 1;
    }
    assert_eq!((asked, ran.with()), (8, vec![]), "as many as calls may run in a turn: {outcome:?}");
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_question_nobody_answers_is_denied_when_its_time_is_over() {
    let ran = Ran::default();
    let (port, _questions) = person(&[]);
    let limits = bob::config::Limits { approval_timeout_ms: 50, ..bob::config::Limits::default() };
    let runtime = build(builder(&[1], &ran).approvals(port).limits(limits)).await;
    let outcome = turn(&runtime, waiting("pay")).await;
    assert_eq!((outcome.denied[0].reason.as_str(), ran.with()), ("denied: the approval timed out", vec![]));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_decision_for_the_session_holds_in_its_next_turns_and_processes_and_nowhere_else() {
    let (ran, folder) = (Ran::default(), Scratch::new());
    let (port, mut questions) = person(&[Decision::AllowSession]);
    let before = build(builder(&[1, 2], &ran).approvals(port).store(file_store(folder.path()))).await;
    assert_eq!(turn(&before, waiting("pay")).await.finish_reason, FinishReason::Final);
    assert_eq!((questions.recv().await.is_some(), questions.try_recv().is_err()), (true, true), "asked once");
    ended(before).await;

    let (port, mut questions) = person(&[deny("not there"), deny("not there")]);
    let after = build(builder(&[3], &ran).approvals(port).store(file_store(folder.path()))).await;
    turn(&after, waiting("pay again")).await;
    assert_eq!((ran.with(), questions.try_recv().is_err()), (vec![1, 2, 3], true), "nobody is asked");
    turn(&after, AgentRequest { session: session("other"), ..waiting("pay there") }).await;
    assert_eq!((ran.with().len(), questions.try_recv().is_ok()), (3, true));
    within(after.shutdown()).await;

    // The tool is another one now.
    let (port, mut questions) = person(&[deny("it changed"), deny("it changed")]);
    let store = file_store(folder.path());
    let tool = std::sync::Arc::new(super::fixture::pay(&ran, "Pays somebody else."));
    let model = super::fixture::paying(&[4]);
    let changed = crate::support::runtime::asking(model).local_tools(false).tools(tool).approvals(port).store(store);
    let changed = build(changed).await;
    turn(&changed, waiting("and again")).await;
    let question = questions.recv().await.unwrap();
    let changes = question.changes.unwrap();
    assert!(changes.contains("-Pays.") && changes.contains("+Pays somebody else."), "{changes}");
    assert_eq!(ran.with(), [1, 2, 3]);
    within(changed.shutdown()).await;
}
