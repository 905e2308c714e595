//! The actor of a session is hurt at every edge of a turn: before and after each message, and between any two effects.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bob::AgentError;
use bob::events::AgentEvent;
use bob::sessions::FinishReason;
use bob_drill::traps::{Edge, Fault, Target, Trap};
use bob_messages::chat::CallStatus;

use crate::crash::fixture::Fixture;
use crate::crash::turns::{Gate, calls_the_gate};
use crate::support::runtime::{session, within};

/// The messages of a turn with one call: its states, and the answers that come between them.
const STATES: [&str; 6] = ["Start", "BuildPrompt", "LlmInfer", "ParseAction", "CallTool", "Done"];
const ANSWERS: [&str; 5] = ["Loaded", "ToolsListed", "Profiled", "Checked", "ToolReturned"];

/// More effects than any message has.
const MOST_EFFECTS: usize = 12;

fn edges() -> Vec<Edge> {
    let kinds = STATES.into_iter().chain(ANSWERS).chain(["Saved"]);
    kinds
        .flat_map(|of| {
            let between = (0..MOST_EFFECTS).map(move |performed| Edge::Effect { of, performed });
            [Edge::Before(of), Edge::After(of)].into_iter().chain(between)
        })
        .collect()
}

fn restarts_of(fixture: &Fixture, name: &str) -> usize {
    let session = session(name);
    let restarted = |event: &AgentEvent| matches!(event, AgentEvent::ActorRestarted { .. });
    fixture.recorder.count(|event| restarted(&event.event) && event.session_id.as_ref() == Some(&session))
}

/// One turn whose actor steps on this trap, beside another session. Whether it did.
async fn ordeal(fixture: &Fixture, gate: &Gate, number: u32, trap: impl FnOnce(Target) -> Trap) -> bool {
    let (name, neighbour) = (format!("s{number}"), format!("n{number}"));
    let runs_before = gate.runs.load(Ordering::SeqCst);
    let trap = trap(Target::Turn(session(&name)));
    let what = format!("{:?} at {:?} + {}", trap.fault, trap.edge, trap.skip);
    let traps = &fixture.traps;
    let id = traps.arm(trap);
    let (owed, beside) = (fixture.submit(&name, "go"), fixture.submit(&neighbour, "go"));
    let (outcome, beside) = (fixture.outcome(owed).await, fixture.outcome(beside).await);
    assert_eq!((beside.content.as_str(), restarts_of(fixture, &neighbour)), ("done", 0), "the neighbour of {what}");
    assert_eq!(
        (outcome.finish_reason, outcome.content.as_str(), outcome.saved),
        (FinishReason::Final, "done", true),
        "{what}: {outcome:?}"
    );
    let transcript = &outcome.tool_transcript;
    assert!(transcript.len() == 1 && [CallStatus::Ok, CallStatus::Unknown].contains(&transcript[0].status), "{what}");
    let runs = gate.runs.load(Ordering::SeqCst) - runs_before - 1;
    assert!(runs <= 1, "{what}: a side effect happened {runs} times");
    let again = fixture.outcome(fixture.submit(&name, "again")).await;
    assert_eq!((again.content.as_str(), again.saved), ("done", true), "{what}: the session is usable");
    assert_eq!(fixture.recorder.ends(&outcome.turn_id), 1, "{what}: one terminal event");
    let restarts = restarts_of(fixture, &name);
    let has_sprung = traps.triggered(id) == 1;
    assert!(restarts <= usize::from(has_sprung), "{what}: {restarts} restarts");
    traps.disarm(id);
    has_sprung
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_turn_goes_on_whatever_happens_to_its_actor_at_any_edge() {
    let gate = Gate::new();
    gate.open.close();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool()]).await;
    let mut number = 0;
    for fault in [Fault::Panic, Fault::Kill] {
        let mut triggered = Vec::new();
        for edge in edges() {
            for passages in 0.. {
                number += 1;
                let trap = |target| Trap::new(target, edge, fault).after(passages);
                if !ordeal(&fixture, &gate, number, trap).await {
                    break;
                }
                triggered.push(edge);
            }
        }
        println!("{fault:?}: {} edges of a turn", triggered.len());
        for of in STATES.into_iter().chain(["Loaded", "Saved", "Checked"]) {
            for edge in [Edge::Before(of), Edge::After(of), Edge::Effect { of, performed: 0 }] {
                assert!(triggered.contains(&edge), "{fault:?} at {edge:?} was tried");
            }
        }
        assert!(triggered.len() >= 50, "{}", triggered.len());
    }
    assert!(fixture.tree.ended().borrow().is_none(), "the root lives");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_an_actor_that_dies_wherever_it_is_started_again_has_three_restarts_and_then_a_clear_error() {
    let gate = Gate::new();
    gate.open.close();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool()]).await;
    let traps = &fixture.traps;
    for (number, (edge, deaths)) in [
        (Edge::Before("BuildPrompt"), 4),
        (Edge::After("BuildPrompt"), 4),
        (Edge::Effect { of: "LlmInfer", performed: 1 }, 4),
        // Not even its end can be written then.
        (Edge::Before("Loaded"), 5),
        (Edge::Before("Wake"), 4),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("s{number}");
        let target = || Target::Turn(session(&name));
        let first = traps.arm(
            Trap::new(target(), Edge::Before("Start"), Fault::Panic).times(u32::from(edge == Edge::Before("Wake"))),
        );
        let id = traps.arm(Trap::new(target(), edge, Fault::Panic).times(100));
        let outcome = fixture.outcome(fixture.submit(&name, "go")).await;
        assert_eq!(outcome.finish_reason, FinishReason::Error, "{edge:?}: {outcome:?}");
        let why = match &outcome.error {
            Some(AgentError::Internal(why)) => why.clone(),
            other => panic!("{edge:?}: {other:?}"),
        };
        assert!(why.contains("crashed"), "{edge:?}: {why}");
        assert_eq!(traps.triggered(id), deaths, "{edge:?}");
        traps.disarm(first);
        traps.disarm(id);
        let again = fixture.outcome(fixture.submit(&name, "again")).await;
        assert_eq!((again.content.as_str(), again.saved), ("done", true), "{edge:?}: the session is usable");
        assert!(fixture.recorder.ends(&outcome.turn_id) <= 1, "{edge:?}: at most one terminal event");
    }
    fixture.stop().await;
}

/// How many sessions the storm affects; configurable by the environment.
fn storm() -> usize {
    std::env::var("BOB_TEST_STORM").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_storm_of_panics_leaves_every_turn_its_end() {
    let gate = Gate::new();
    let fixture = Fixture::new(calls_the_gate(), vec![gate.tool().read_only()]).await;
    let names: Vec<_> = (0..storm()).map(|number| format!("s{number}")).collect();
    let owed: Vec<_> = names.iter().map(|name| fixture.submit(name, "go")).collect();
    within(async {
        while gate.runs.load(Ordering::SeqCst) < names.len() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let traps = &fixture.traps;
    for name in &names {
        traps.arm(Trap::new(Target::Turn(session(name)), Edge::Next, Fault::Panic));
    }
    let begun = Instant::now();
    gate.open.close();
    let mut outcomes = Vec::with_capacity(names.len());
    for owed in owed {
        outcomes.push(fixture.outcome(owed).await);
    }
    let took = begun.elapsed();
    println!("{} panics at once, {} turns settled in {took:?}", traps.triggered_in_all(), outcomes.len());
    assert_eq!(traps.triggered_in_all(), names.len(), "each of them panicked");
    for outcome in outcomes {
        assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Final, true));
        assert_eq!(fixture.recorder.ends(&outcome.turn_id), 1);
    }
    assert!(fixture.tree.ended().borrow().is_none(), "the root lives");
    fixture.stop().await;
}
