//! A killed TurnActor restarts from its journal and finishes the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::AgentError;
use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::store::{MemoryStore, Record, SessionStore};
use bob::tools::{FnTool, ToolOutput, tool};
use bob_messages::chat::CallStatus;
use bob_messages::store::Fact;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::crash::fixture::Fixture;
use crate::support::runtime::{Nothing, session, within};

/// A tool that runs when the test lets it, and counts how often it was entered.
pub(crate) struct Gate {
    pub(crate) entered: Arc<Notify>,
    pub(crate) open: Arc<Semaphore>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { entered: Arc::default(), open: Arc::new(Semaphore::new(0)), runs: Arc::default() }
    }

    pub(crate) fn tool(&self) -> FnTool {
        let (entered, open, runs) = (Arc::clone(&self.entered), Arc::clone(&self.open), Arc::clone(&self.runs));
        tool("test/gate", "Waits to be let through.", move |_: Nothing, _| {
            runs.fetch_add(1, Ordering::SeqCst);
            entered.notify_one();
            let open = Arc::clone(&open);
            async move {
                let _let_through = open.acquire().await;
                Ok(ToolOutput::text("through"))
            }
        })
    }
}

pub(crate) fn calls_the_gate() -> ScriptedLlm {
    ScriptedLlm::replies(vec![ScriptedReply::call("test/gate", json!({})), ScriptedReply::text("done")])
}

fn restarts(fixture: &Fixture) -> usize {
    let restarted = |event: &&bob::events::Envelope| matches!(event.event, AgentEvent::ActorRestarted { .. });
    fixture.recorder.events().iter().filter(restarted).count()
}

#[tokio::test]
async fn a1_a_killed_turn_finishes_and_a_call_in_doubt_is_not_run_again() {
    let gate = Gate::new();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool()]).await;
    let owed = fixture.submit("s", "go");
    within(gate.entered.notified()).await;
    fixture.kill_turn();
    let outcome = fixture.outcome(owed).await;
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"));
    assert_eq!(outcome.tool_transcript.len(), 1);
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown);
    assert!(outcome.tool_transcript[0].result.contains("outcome unknown"));
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1, "a side effect never happens twice");
    assert_eq!(restarts(&fixture), 1);
    assert_eq!(fixture.recorder.ends(&outcome.turn_id), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn a1_a_killed_turn_runs_a_harmless_call_again() {
    let gate = Gate::new();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool().read_only()]).await;
    let owed = fixture.submit("s", "go");
    within(gate.entered.notified()).await;
    fixture.kill_turn();
    within(gate.entered.notified()).await;
    gate.open.close();
    let outcome = fixture.outcome(owed).await;
    assert_eq!((outcome.content.as_str(), outcome.tool_transcript[0].result.as_str()), ("done", "through"));
    assert_eq!(gate.runs.load(Ordering::SeqCst), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn a1_a_turn_whose_actor_dies_again_and_again_ends_in_a_clear_error() {
    let gate = Gate::new();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool().read_only()]).await;
    let owed = fixture.submit("s", "go");
    for crash in 1..=4 {
        within(gate.entered.notified()).await;
        fixture.kill_turn();
        fixture.recorder.seen_times(crash, |event| matches!(event, AgentEvent::ActorRestarted { .. })).await;
    }
    let outcome = fixture.outcome(owed).await;
    assert_eq!(outcome.finish_reason, FinishReason::Error);
    assert!(matches!(&outcome.error, Some(AgentError::Internal(why)) if why.contains("crashed")), "{outcome:?}");
    assert_eq!(gate.runs.load(Ordering::SeqCst), 4, "started again three times");
    gate.open.close();
    assert_eq!(fixture.run("again").await.content, "done", "the session is usable");
    fixture.stop().await;
}

#[tokio::test]
async fn an_input_that_waited_in_an_earlier_process_has_its_one_end_for_whoever_watches() {
    let (gate, store) = (Gate::new(), MemoryStore::new());
    let before = Fixture::over(calls_the_gate(), vec![gate.tool()], store.clone()).await;
    let _never_paid = (before.submit("s", "first"), before.submit("s", "second"));
    within(gate.entered.notified()).await;
    within(async {
        let inputs = |records: &[Arc<Record>]| records.iter().filter(|r| matches!(r.fact, Fact::Input(_))).count();
        while inputs(&store.load(&session("s")).await.unwrap()) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(before);

    gate.open.close();
    let after = Fixture::over(calls_the_gate(), vec![gate.tool()], store).await;
    assert_eq!(after.run("third").await.content, "done");
    let started = after.recorder.events().into_iter().filter_map(|event| match event.event {
        AgentEvent::TurnStarted { .. } => event.turn_id,
        _ => None,
    });
    let started: Vec<_> = started.collect();
    assert_eq!(started.len(), 2, "the one that waited, and the new one");
    for turn in started {
        assert_eq!(after.recorder.ends(&turn), 1);
    }
    after.stop().await;
}

#[tokio::test]
async fn a1_a_turn_killed_at_any_event_ends_once() {
    let quick = || tool("test/gate", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) });
    let whole = Fixture::new(calls_the_gate(), vec![quick()]).await;
    whole.run("how many events has a turn?").await;
    let events = whole.recorder.events().len();
    whole.stop().await;
    let mut restarted = 0;
    for at in 1..=events {
        let fixture = Fixture::killing(calls_the_gate(), vec![quick()], MemoryStore::new(), at).await;
        let outcome = fixture.run("go").await;
        assert_eq!(outcome.finish_reason, FinishReason::Final, "killed at event {at}: {outcome:?}");
        assert_eq!((outcome.tool_transcript.len(), outcome.saved), (1, true), "killed at event {at}: {outcome:?}");
        assert_eq!(fixture.recorder.ends(&outcome.turn_id), 1, "killed at event {at}");
        restarted += restarts(&fixture);
        assert_eq!(fixture.run("again").await.content, "done", "killed at event {at}");
        fixture.stop().await;
    }
    assert!(restarted >= events - 2, "nearly every kill hit a running turn: {restarted} of {events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_many_turns_killed_at_once_all_end() {
    const SESSIONS: usize = 200;
    let gate = Gate::new();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool().read_only()]).await;
    let owed: Vec<_> = (0..SESSIONS).map(|number| fixture.submit(&format!("s{number}"), "go")).collect();
    within(async {
        while gate.runs.load(Ordering::SeqCst) < SESSIONS {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for actor in fixture.turn_actors() {
        actor.kill();
    }
    gate.open.close();
    for owed in owed {
        let outcome = fixture.outcome(owed).await;
        assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Final, true));
        assert_eq!(fixture.recorder.ends(&outcome.turn_id), 1);
    }
    assert!(fixture.tree.ended().borrow().is_none(), "the root lives");
    fixture.stop().await;
}
