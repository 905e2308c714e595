//! The actor of a session is hurt at every edge of a turn: before and after each message, and between any two effects.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bob::{AgentError, AgentEvent, FinishReason};
use bob_drill::traps::{Edge, Harm, Trap, Victim};
use bob_messages::chat::CallStatus;

use crate::house::House;
use crate::support::runtime::{session, within};
use crate::turns::{Gate, calls_the_gate};

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

fn restarts_of(house: &House, name: &str) -> usize {
    let session = session(name);
    let restarted = |event: &AgentEvent| matches!(event, AgentEvent::ActorRestarted { .. });
    house.recorder.count(|event| restarted(&event.event) && event.session_id.as_ref() == Some(&session))
}

/// One turn whose actor steps on this trap, beside another session. Whether it did.
async fn ordeal(house: &House, gate: &Gate, number: u32, trap: impl FnOnce(Victim) -> Trap) -> bool {
    let (name, neighbour) = (format!("s{number}"), format!("n{number}"));
    let runs_before = gate.runs.load(Ordering::SeqCst);
    let trap = trap(Victim::Turn(session(&name)));
    let what = format!("{:?} at {:?} + {}", trap.harm, trap.edge, trap.lets_by);
    let traps = &house.traps;
    let id = traps.arm(trap);
    let (owed, beside) = (house.submit(&name, "go"), house.submit(&neighbour, "go"));
    let (outcome, beside) = (house.outcome(owed).await, house.outcome(beside).await);
    assert_eq!((beside.content.as_str(), restarts_of(house, &neighbour)), ("done", 0), "the neighbour of {what}");
    assert_eq!(
        (outcome.finish_reason, outcome.content.as_str(), outcome.saved),
        (FinishReason::Final, "done", true),
        "{what}: {outcome:?}"
    );
    let transcript = &outcome.tool_transcript;
    assert!(transcript.len() == 1 && [CallStatus::Ok, CallStatus::Unknown].contains(&transcript[0].status), "{what}");
    let runs = gate.runs.load(Ordering::SeqCst) - runs_before - 1;
    assert!(runs <= 1, "{what}: a side effect happened {runs} times");
    let again = house.outcome(house.submit(&name, "again")).await;
    assert_eq!((again.content.as_str(), again.saved), ("done", true), "{what}: the session is usable");
    assert_eq!(house.recorder.ends(&outcome.turn_id), 1, "{what}: one terminal event");
    let restarts = restarts_of(house, &name);
    let has_sprung = traps.sprung(id) == 1;
    assert!(restarts <= usize::from(has_sprung), "{what}: {restarts} restarts");
    traps.disarm(id);
    has_sprung
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_turn_goes_on_whatever_happens_to_its_actor_at_any_edge() {
    let gate = Gate::new();
    gate.open.close();
    let house = House::new(calls_the_gate(), vec![gate.tool()]).await;
    let mut number = 0;
    for harm in [Harm::Panic, Harm::Kill] {
        let mut sprung = Vec::new();
        for edge in edges() {
            for passages in 0.. {
                number += 1;
                let trap = |victim| Trap::new(victim, edge, harm).after(passages);
                if !ordeal(&house, &gate, number, trap).await {
                    break;
                }
                sprung.push(edge);
            }
        }
        println!("{harm:?}: {} edges of a turn", sprung.len());
        for of in STATES.into_iter().chain(["Loaded", "Saved", "Checked"]) {
            for edge in [Edge::Before(of), Edge::After(of), Edge::Effect { of, performed: 0 }] {
                assert!(sprung.contains(&edge), "{harm:?} at {edge:?} was tried");
            }
        }
        assert!(sprung.len() >= 50, "{}", sprung.len());
    }
    assert!(house.tree.ended().borrow().is_none(), "the root lives");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_an_actor_that_dies_wherever_it_is_started_again_has_three_restarts_and_then_a_clear_error() {
    let gate = Gate::new();
    gate.open.close();
    let house = House::new(calls_the_gate(), vec![gate.tool()]).await;
    let traps = &house.traps;
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
        let victim = || Victim::Turn(session(&name));
        let first = traps.arm(
            Trap::new(victim(), Edge::Before("Start"), Harm::Panic).times(u32::from(edge == Edge::Before("Wake"))),
        );
        let id = traps.arm(Trap::new(victim(), edge, Harm::Panic).times(100));
        let outcome = house.outcome(house.submit(&name, "go")).await;
        assert_eq!(outcome.finish_reason, FinishReason::Error, "{edge:?}: {outcome:?}");
        let why = match &outcome.error {
            Some(AgentError::Internal(why)) => why.clone(),
            other => panic!("{edge:?}: {other:?}"),
        };
        assert!(why.contains("crashed"), "{edge:?}: {why}");
        assert_eq!(traps.sprung(id), deaths, "{edge:?}");
        traps.disarm(first);
        traps.disarm(id);
        let again = house.outcome(house.submit(&name, "again")).await;
        assert_eq!((again.content.as_str(), again.saved), ("done", true), "{edge:?}: the session is usable");
        assert!(house.recorder.ends(&outcome.turn_id) <= 1, "{edge:?}: at most one terminal event");
    }
    house.stop().await;
}

/// How many sessions the storm hits, unless the environment says otherwise.
fn storm() -> usize {
    std::env::var("BOB_TEST_STORM").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_a_storm_of_panics_leaves_every_turn_its_end() {
    let gate = Gate::new();
    let house = House::new(calls_the_gate(), vec![gate.tool().read_only()]).await;
    let names: Vec<_> = (0..storm()).map(|number| format!("s{number}")).collect();
    let owed: Vec<_> = names.iter().map(|name| house.submit(name, "go")).collect();
    within(async {
        while gate.runs.load(Ordering::SeqCst) < names.len() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let traps = &house.traps;
    for name in &names {
        traps.arm(Trap::new(Victim::Turn(session(name)), Edge::Next, Harm::Panic));
    }
    let begun = Instant::now();
    gate.open.close();
    let mut outcomes = Vec::with_capacity(names.len());
    for owed in owed {
        outcomes.push(house.outcome(owed).await);
    }
    let took = begun.elapsed();
    println!("{} panics at once, {} turns settled in {took:?}", traps.sprung_in_all(), outcomes.len());
    assert_eq!(traps.sprung_in_all(), names.len(), "each of them panicked");
    for outcome in outcomes {
        assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Final, true));
        assert_eq!(house.recorder.ends(&outcome.turn_id), 1);
    }
    assert!(house.tree.ended().borrow().is_none(), "the root lives");
    house.stop().await;
}
