//! Metrics of sessions.

use super::*;
use bob_actors::metrics::MetricsSnapshot;

impl Fixture {
    /// The metrics after the supervisor has handled all messages.
    async fn counted(&self) -> MetricsSnapshot {
        self.load().await;
        self.tree.rooms.metrics.snapshot()
    }
}

#[tokio::test(start_paused = true)]
async fn every_submission_is_counted_with_its_end_and_its_time() {
    let rules = SessionRules { max_running_turns: 1, max_waiting_turns: 1, ..SessionRules::default() };
    let fixture = Fixture::with(echo(), MemoryStore::new(), Vec::new(), rules).await;
    let stalls = fixture.submit("stall", limits(90_000));
    let other = SessionId::parse("other").unwrap();
    let waits = fixture.say(&other, "waits", limits(90_000), &turn_config());
    let too_many = fixture.say(&SessionId::parse("third").unwrap(), "too many", limits(90_000), &turn_config());
    assert!(too_many.await.unwrap().is_err());
    fixture.until(2, 1, 1).await;
    let seen = fixture.counted().await;
    assert_eq!((seen.turns.submitted, seen.turns.refused, seen.turns.ended()), (3, 1, 0));
    assert_eq!(seen.sessions, SessionsLoad { live: 2, running: 1, waiting: 1 });

    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(fixture.cancel(None).await);
    assert_eq!(paid(stalls).await.finish_reason, FinishReason::Cancelled);
    assert_eq!(paid(waits).await.finish_reason, FinishReason::Final);
    fixture.until(1, 0, 0).await;
    let seen = fixture.counted().await;
    let ends = &seen.turns.ends;
    assert_eq!((ends[FinishReason::Cancelled], ends[FinishReason::Final], seen.turns.unsaved), (1, 1, 0));
    assert_eq!(seen.steps, 1, "the cancelled one had no answer of the model");
    assert_eq!(seen.sessions, SessionsLoad { live: 1, running: 0, waiting: 0 });
    assert_eq!((seen.turn_latency.all.count, seen.cancel_latency.all.count, seen.queue_wait.all.count), (2, 1, 2));
    let seconds = |us: u64| us / 1_000_000;
    assert_eq!(seconds(seen.turn_latency.all.p50_us), 7, "waiting counts: {:?}", seen.turn_latency);
    assert_eq!(seconds(seen.queue_wait.all.max_us), 7, "{:?}", seen.queue_wait);
    assert!(seen.cancel_latency.all.max_us < 50_000, "{:?}", seen.cancel_latency);
}

#[tokio::test(start_paused = true)]
async fn a_guard_and_a_restart_are_counted() {
    let fixture = Fixture::new(echo()).await;
    let outcome = paid(fixture.submit("stall", limits(200))).await;
    assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout));
    assert!(fixture.tree.restart("store").await);
    let restarted = async {
        while fixture.counted().await.restarts.children == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, restarted).await.unwrap();
    let seen = fixture.counted().await;
    let (ends, guards) = (seen.turns.ends, seen.guards);
    assert_eq!((ends[FinishReason::GuardExceeded], guards[GuardReason::TurnTimeout]), (1, 1));
    assert_eq!((seen.cancel_latency.all.count, seen.restarts.sessions, seen.restarts.gave_up), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_the_tree_is_told_that_it_changed() {
    let fixture = Fixture::new(echo()).await;
    let mut changes = fixture.tree.rooms.metrics.changes();
    assert!(!changes.has_changed().unwrap());
    paid(fixture.submit("hi", limits(90_000))).await;
    fixture.load().await;
    assert!(changes.has_changed().unwrap(), "a turn began and ended");
    changes.mark_unchanged();
    fixture.load().await;
    assert!(!changes.has_changed().unwrap(), "a question is no change");
    assert!(fixture.tree.restart("store").await);
    tokio::time::timeout(DEADLINE, changes.changed()).await.expect("a restart is a change").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_too_many_for_one_submission_counts_as_refused() {
    let fixture = Fixture::new(echo()).await;
    let _all: Vec<_> = (0..70).map(|_| fixture.submit("stall", limits(90_000))).collect();
    let turns = fixture.counted().await.turns;
    assert_eq!((turns.submitted, turns.refused), (70, 5), "the first one and 64 more wait");
}
