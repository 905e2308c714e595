//! A cancel in each state of a turn and in each of its waits: one outcome, everything kept, the session usable at once.

use std::sync::Arc;

use bob::sessions::{FinishReason, TurnId};
use bob::store::{MemoryStore, Record, SessionStore};
use bob::{AgentResponse, AgentRuntime, Runtime};
use bob_messages::store::Fact;
use futures_util::future::join_all;

use crate::cancel::waits::{ANSWERED_WITHIN, spawned};
use crate::support::runtime::{Recorder, build, session, turn, within};
use crate::support::stopwatch::Stopwatch;
use crate::support::stuck::{Places, Wait};

/// Cancels in each wait, here; a benchmark takes thousands.
const ROUNDS: usize = 12;

/// The journal of one turn.
struct Kept {
    inputs: usize,
    answers: usize,
    results: usize,
    outcomes: Vec<FinishReason>,
}

fn kept(records: &[Arc<Record>], turn: &TurnId) -> Kept {
    let mut kept = Kept { inputs: 0, answers: 0, results: 0, outcomes: Vec::new() };
    for record in records.iter().filter(|record| record.turn.as_ref() == Some(turn)) {
        match &record.fact {
            Fact::Input(_) => kept.inputs += 1,
            Fact::Answered(_) => kept.answers += 1,
            Fact::Result(_) => kept.results += 1,
            Fact::Outcome(ended) => kept.outcomes.push(ended.finish_reason),
            _ => {}
        }
    }
    kept
}

/// Checks a turn that was cancelled in this state, once the store accepts its records.
async fn assert_kept(store: &MemoryStore, recorder: &Recorder, wait: Wait, number: usize, outcome: &AgentResponse) {
    let records = store.load(&wait.session(number)).await.expect("the journal");
    let kept = kept(&records, &outcome.turn_id);
    let ends = if wait == Wait::Outcome { FinishReason::Final } else { FinishReason::Cancelled };
    assert_eq!(recorder.ends(&outcome.turn_id), 1, "{wait:?}: one terminal event");
    if wait == Wait::Claim {
        // The session was never read, so nothing could be written.
        assert_eq!((kept.inputs, kept.outcomes.len()), (0, 0), "{wait:?}");
        return;
    }
    assert_eq!((kept.inputs, kept.outcomes), (1, vec![ends]), "{wait:?}: the prefix is kept, and one outcome");
    assert_eq!(kept.results, wait.calls(), "{wait:?}: every call has its result");
}

async fn stuck(
    places: &Places,
    runtime: &Runtime,
    wait: Wait,
    number: usize,
) -> tokio::task::JoinHandle<AgentResponse> {
    let running = spawned(runtime, wait.request(number));
    within(places.until(&wait.session(number))).await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_a_cancel_in_each_state_and_each_wait_ends_the_turn_once_and_keeps_it() {
    for wait in Wait::ALL {
        let (places, store, recorder) = (Places::new(), MemoryStore::new(), Recorder::new());
        let runtime = build(places.builder(store.clone()).sink(recorder.clone())).await;
        let mut cancelled = Vec::new();
        let mut took = Vec::new();
        for number in 0..ROUNDS {
            let running = stuck(&places, &runtime, wait, number).await;
            let began = Stopwatch::start();
            assert!(within(runtime.cancel(wait.session(number))).await, "{wait:?}: there was something to cancel");
            let outcome = within(running).await.expect("the caller is answered");
            took.push(began.elapsed());
            // An unconfirmed save is not reported as saved. Its outcome was already being written.
            let ends = if wait == Wait::Outcome { FinishReason::Final } else { FinishReason::Cancelled };
            assert_eq!(outcome.finish_reason, ends, "{wait:?}");
            assert!(!outcome.saved || !wait.is_of_store(), "{wait:?}: {outcome:?}");
            assert_eq!(outcome.tool_transcript.len(), wait.calls(), "{wait:?}");
            cancelled.push(outcome);
        }
        took.sort_unstable();
        assert!(took[ROUNDS / 2] < ANSWERED_WITHIN, "{wait:?}: half of them took longer than {:?}", took[ROUNDS / 2]);
        places.open(true);
        for (number, outcome) in cancelled.iter().enumerate() {
            let next = turn(&runtime, wait.next(number)).await;
            assert_eq!((next.content.as_str(), next.saved), ("fine", true), "{wait:?}: the session goes on");
            assert_kept(&store, &recorder, wait, number, outcome).await;
        }
        within(runtime.shutdown()).await;
        recorder.assert_in_order();
    }
}

/// All places at once, and all waits beside each other in one runtime.
#[tokio::test(flavor = "multi_thread")]
async fn c6_many_cancels_at_once_in_every_wait_are_many_outcomes() {
    const EACH: usize = 20;
    let (places, store, recorder) = (Places::new(), MemoryStore::new(), Recorder::new());
    let runtime = build(places.builder(store.clone()).sink(recorder.clone())).await;
    let all = || Wait::ALL.into_iter().flat_map(|wait| (0..EACH).map(move |number| (wait, number)));
    let mut running = Vec::new();
    for (wait, number) in all() {
        running.push(stuck(&places, &runtime, wait, number).await);
    }
    let stopped = within(join_all(all().map(|(wait, number)| runtime.cancel(wait.session(number))))).await;
    assert!(stopped.into_iter().all(|stopped| stopped));
    let outcomes = within(join_all(running)).await;
    places.open(true);
    for ((wait, number), outcome) in all().zip(outcomes) {
        let outcome = outcome.expect("each caller is answered");
        assert_eq!(turn(&runtime, wait.next(number)).await.content, "fine", "{wait:?}");
        assert_kept(&store, &recorder, wait, number, &outcome).await;
    }
    within(runtime.shutdown()).await;
}

/// A queued submission has begun nothing and left no record; no other caller waits for it.
#[tokio::test]
async fn c1_a_cancel_at_the_door_is_answered_there() {
    let (places, recorder) = (Places::new(), Recorder::new());
    let runtime = build(places.in_memory().max_concurrent_turns(1).sink(recorder.clone())).await;
    let running = stuck(&places, &runtime, Wait::Headers, 0).await;
    let waiting = spawned(&runtime, Wait::Headers.request(1));
    within(async {
        while runtime.health().await.waiting_turns != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(within(runtime.cancel(Wait::Headers.session(1))).await);
    let outcome = within(waiting).await.expect("the caller is answered");
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Cancelled, false));
    assert_eq!(recorder.ends(&outcome.turn_id), 1);
    assert!(within(runtime.records(Wait::Headers.session(1))).await.expect("a store").is_empty());
    assert!(!running.is_finished());
    assert!(within(runtime.cancel(Wait::Headers.session(0))).await);
    assert_eq!(within(running).await.expect("answered").finish_reason, FinishReason::Cancelled);
    assert_eq!(turn(&runtime, Wait::Headers.next(1)).await.content, "fine");
    let unknown = within(runtime.cancel(session("nobody"))).await;
    assert!(!unknown);
}
