//! Actors that end before they have begun: there is no supervision event, and yet no caller waits for ever.

use super::*;
use bob_actors::watchdog::Watchdog;
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};

async fn tree_that_fails_to_start(times: u32, replies: Vec<ScriptedReply>) -> Fixture {
    let traps = Traps::default();
    let trap = Trap::new(Target::Turn(session()), Edge::Before("Starting"), Fault::Kill).times(times);
    traps.arm(trap);
    let rooms = Rooms { watchdog: Watchdog::with_hook(Some(traps.hook())), ..Rooms::default() };
    Fixture::around(rooms, model(replies, 0), MemoryStore::new(), Vec::new(), SessionRules::default()).await
}

#[tokio::test(start_paused = true)]
async fn a2_an_actor_that_dies_before_it_began_is_started_again() {
    for times in 1..=3 {
        let fixture = tree_that_fails_to_start(times, vec![ScriptedReply::text("fine")]).await;
        let outcome = paid(fixture.submit("t1", limits(90_000))).await;
        assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "fine"), "{times} times");
        assert_eq!(fixture.load().await, SessionsLoad { live: 1, running: 0, waiting: 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn a2_one_that_never_begins_is_told_of_and_the_session_is_usable_afterwards() {
    let fixture = tree_that_fails_to_start(5, vec![ScriptedReply::text("fine")]).await;
    let outcome = paid(fixture.submit("t1", limits(90_000))).await;
    assert_eq!(outcome.finish_reason, FinishReason::Error, "{outcome:?}");
    let outcome = paid(fixture.submit("t2", limits(90_000))).await;
    assert_eq!(outcome.finish_reason, FinishReason::Final, "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a2_one_that_is_stopped_before_it_began_and_never_begins_has_its_outcome() {
    let fixture = tree_that_fails_to_start(1, vec![ScriptedReply::text("fine")]).await;
    let first = fixture.submit("t1", limits(90_000));
    // Both are in the mailbox before the actor's start is looked at.
    assert!(fixture.cancel(None).await);
    let outcome = paid(first).await;
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled, "{outcome:?}");
    let outcome = paid(fixture.submit("t2", limits(90_000))).await;
    assert_eq!(outcome.finish_reason, FinishReason::Final, "{outcome:?}");
}
