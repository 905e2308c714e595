//! After a crash of an actor, or of the program: a child is begun once, and goes on or ends as its parent does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bob::config::{OnRestart, TurnConfig};
use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::{FinishReason, SessionState};
use bob::store::{Fact, MemoryStore, SessionStore};
use bob::{AgentRuntime, Runtime, RuntimeBuilder, SessionId};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use serde_json::json;

use crate::subagents::stage::{Gate, agent, calls, children, last, left_of, playing};
use crate::support::runtime::{model_name, say, session, turn, within};

fn play(who: &str, request: &LlmRequest) -> ScriptedReply {
    match (who, request.step) {
        ("root", _) if last(request).contains("what happened") => ScriptedReply::text("a crash"),
        ("root", 1) => calls((0..2).map(|number| ("agent/a", json!({"task": format!("part {number}")})))),
        ("root", _) => ScriptedReply::text(format!("both: {}", last(request))),
        (_, 1) => ScriptedReply::call("own/gate", json!({})),
        _ => ScriptedReply::text("passed it"),
    }
}

fn staged(gate: &Gate, store: &Arc<MemoryStore>, on_restart: OnRestart) -> RuntimeBuilder {
    let (builder, _) = playing(play);
    let turn_config = TurnConfig { on_restart, ..TurnConfig::new(model_name()) };
    let store: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(store);
    builder
        .turn_config(turn_config)
        .store(store)
        .tools(gate.tool())
        .subagent(agent("a"))
        .limits(crate::subagents::ends::generous())
}

/// How many turns were begun in a session.
async fn begun(runtime: &Runtime, of: &SessionId) -> (usize, usize) {
    let records = within(runtime.records(of.clone())).await.unwrap();
    let inputs = records.iter().filter(|record| matches!(record.fact, Fact::Input(_))).count();
    let starts = records.iter().filter(|record| matches!(record.fact, Fact::Started { .. })).count();
    (inputs, starts)
}

#[tokio::test]
async fn a_parent_whose_actor_crashes_finds_its_children_at_work() {
    let (gate, store) = (Gate::default(), MemoryStore::new());
    let traps = Traps::default();
    let runtime = staged(&gate, &store, OnRestart::Report).hook(traps.hook()).build().await.unwrap();
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await.unwrap().response().clone() }
    });
    within(gate.entered.notified()).await;
    within(gate.entered.notified()).await;
    // The first answer ends the actor of the parent.
    traps.arm(Trap::new(Target::Turn(session("s")), Edge::Before("ToolReturned"), Fault::Kill));
    gate.opened.notify_one();
    gate.opened.notify_one();
    let outcome = within(running).await.unwrap();
    assert_eq!(outcome.finish_reason, FinishReason::Final, "{outcome:?}");
    assert!(outcome.tool_transcript.iter().all(|call| call.result == "passed it"), "{:?}", outcome.tool_transcript);
    let used = outcome.delegated.unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls), (2, 4, 2), "each child counts once");
    for child in children(&runtime, &session("s")).await {
        assert_eq!(begun(&runtime, &child.session).await, (1, 1));
    }
    assert_eq!(gate.passed.load(Ordering::SeqCst), 2);
}

/// What a kill of the program in the middle of both children leaves: the journals as they are then.
async fn left_behind() -> Arc<MemoryStore> {
    let (gate, store) = (Gate::default(), MemoryStore::new());
    let runtime = staged(&gate, &store, OnRestart::Report).build().await.unwrap();
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await.map(drop) }
    });
    within(gate.entered.notified()).await;
    within(gate.entered.notified()).await;
    assert_eq!(children(&runtime, &session("s")).await.len(), 2);
    let left = left_of(&runtime, &store, &session("s")).await;
    running.abort();
    within(runtime.shutdown()).await;
    left
}

#[tokio::test]
async fn a_turn_that_is_finished_finishes_its_children_and_begins_none_again() {
    let (gate, store) = (Gate::default(), left_behind().await);
    let runtime = staged(&gate, &store, OnRestart::Report).build().await.unwrap();
    gate.opened.notify_one();
    let finishing = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.finish(session("s")).await.unwrap() }
    });
    // One has its answer in its journal before the other goes on.
    within(gate.entered.notified()).await;
    within(gate.entered.notified()).await;
    gate.opened.notify_one();
    let ended = within(finishing).await.unwrap();
    let outcome = ended[0].response();
    assert_eq!((ended.len(), outcome.finish_reason), (1, FinishReason::Final), "{outcome:?}");
    let used = outcome.delegated.as_ref().unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls), (2, 4, 2));
    for child in children(&runtime, &session("s")).await {
        assert_eq!((begun(&runtime, &child.session).await, child.state), ((1, 1), Some(SessionState::Idle)));
    }
    assert_eq!(gate.passed.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_finished_child_gives_its_outcome_from_its_journal() {
    let store = left_behind().await;
    let gate = Gate::default();
    let runtime = staged(&gate, &store, OnRestart::Report).build().await.unwrap();
    // The children are finished by themselves first.
    for child in children(&runtime, &session("s")).await {
        gate.opened.notify_one();
        let ended = within(runtime.finish(child.session)).await.unwrap();
        assert_eq!(ended[0].response().content, "passed it");
    }
    let ended = within(runtime.finish(session("s"))).await.unwrap();
    let outcome = ended[0].response();
    assert!(outcome.tool_transcript.iter().all(|call| call.result == "passed it"), "{:?}", outcome.tool_transcript);
    assert_eq!((gate.passed.load(Ordering::SeqCst), outcome.delegated.as_ref().unwrap().steps), (2, 4));
}

#[tokio::test]
async fn a_turn_that_is_closed_closes_its_children() {
    let store = left_behind().await;
    let gate = Gate::default();
    let runtime = staged(&gate, &store, OnRestart::Report).build().await.unwrap();
    let next = turn(&runtime, say("what happened?")).await;
    assert_eq!(next.finish_reason, FinishReason::Final);
    within(async {
        loop {
            let all = children(&runtime, &session("s")).await;
            if all.len() == 2 && all.iter().all(|child| child.state == Some(SessionState::Idle)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_is_closed_has_what_its_finished_children_answered() {
    let store = left_behind().await;
    let gate = Gate::default();
    let runtime = staged(&gate, &store, OnRestart::Report).build().await.unwrap();
    // One child has ended before its caller is closed, the other one has not.
    gate.opened.notify_one();
    let first = children(&runtime, &session("s")).await.remove(0).session;
    assert_eq!(within(runtime.finish(first)).await.unwrap()[0].response().content, "passed it");
    assert_eq!(turn(&runtime, say("what happened?")).await.content, "a crash");
    let records = within(runtime.records(session("s"))).await.unwrap();
    let mut results: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::Result(result) => Some(result.output.plain()),
            _another => None,
        })
        .collect();
    results.sort();
    assert!(results.len() == 2 && results[1] == "passed it", "{results:?}");
    assert!(results[0].starts_with("outcome unknown: "), "{results:?}");
    let session = bob_messages::session_state::Session::fold(session("s"), &records);
    assert_eq!((session.turns, gate.passed.load(Ordering::SeqCst)), (2, 1));
    // What the one used is on the bill of the turn that was closed.
    let replayed = bob_messages::replay::replay(&records);
    assert!(replayed.is_ok(), "{replayed:?}");
}
