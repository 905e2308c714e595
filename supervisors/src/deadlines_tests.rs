//! The queue of deadlines: which are due, and when.

use super::*;
use ractor::{Actor, ActorProcessingErr};
use std::time::Duration;
use tokio::sync::mpsc;

/// Records when something is due.
struct Told;

impl Actor for Told {
    type Msg = SessionsMessage;
    type State = mpsc::UnboundedSender<Instant>;
    type Arguments = mpsc::UnboundedSender<Instant>;

    async fn pre_start(
        &self,
        _: ActorRef<SessionsMessage>,
        tell: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(tell)
    }

    async fn handle(
        &self,
        _: ActorRef<SessionsMessage>,
        message: SessionsMessage,
        tell: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        assert!(matches!(message, SessionsMessage::Due));
        tell.send(Instant::now())?;
        Ok(())
    }
}

async fn told() -> (ActorRef<SessionsMessage>, mpsc::UnboundedReceiver<Instant>) {
    let (tell, times) = mpsc::unbounded_channel();
    let (actor, _ends) = Actor::spawn(None, Told, tell).await.unwrap();
    (actor, times)
}

fn turn(name: &str) -> Due {
    Due::Turn(SessionId::parse("s").unwrap(), TurnId::new(name))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn the_earliest_is_told_first_whatever_the_order_of_entry() {
    let (actor, mut times) = told().await;
    let (mut deadlines, now) = (Deadlines::default(), Instant::now());
    deadlines.insert(now + ms(300), turn("late"), &actor);
    deadlines.insert(now + ms(100), turn("early"), &actor);
    deadlines.insert(now + ms(200), turn("middle"), &actor);
    for (after, name) in [(100, "early"), (200, "middle"), (300, "late")] {
        let at = times.recv().await.unwrap();
        assert!((ms(after)..=ms(after + 1)).contains(&(at - now)), "{name} at {:?}", at - now);
        assert_eq!(deadlines.take_due(now + ms(after), &actor), [turn(name)]);
    }
    assert!(deadlines.queue.is_empty() && deadlines.timer.is_none());
}

#[tokio::test(start_paused = true)]
async fn two_at_the_same_moment_are_both_due() {
    let (actor, _times) = told().await;
    let (mut deadlines, at) = (Deadlines::default(), Instant::now() + ms(50));
    deadlines.insert(at, turn("one"), &actor);
    deadlines.insert(at, turn("two"), &actor);
    assert_eq!(deadlines.take_due(at - ms(1), &actor), []);
    assert_eq!(deadlines.take_due(at, &actor), [turn("one"), turn("two")]);
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_is_never_due() {
    let (actor, mut times) = told().await;
    let (mut deadlines, now) = (Deadlines::default(), Instant::now());
    let gone = deadlines.insert(now + ms(100), turn("gone"), &actor);
    deadlines.insert(now + ms(200), turn("stays"), &actor);
    deadlines.remove(gone);
    // The timer may fire for it; it then finds nothing and sleeps on.
    let first = times.recv().await.unwrap();
    assert_eq!(deadlines.take_due(first, &actor), []);
    let second = times.recv().await.unwrap();
    assert!(second - now >= ms(200));
    assert_eq!(deadlines.take_due(second, &actor), [turn("stays")]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_dropped_tells_nobody() {
    let (actor, mut times) = told().await;
    let mut deadlines = Deadlines::default();
    deadlines.insert(Instant::now() + ms(10), turn("never"), &actor);
    drop(deadlines);
    assert!(tokio::time::timeout(ms(1_000), times.recv()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_word_that_comes_early_leaves_one_timer() {
    let (actor, mut times) = told().await;
    let (mut deadlines, now) = (Deadlines::default(), Instant::now());
    deadlines.insert(now + ms(100), turn("t"), &actor);
    for early in 0..3 {
        assert_eq!(deadlines.take_due(now + ms(early), &actor), []);
    }
    deadlines.insert(now + ms(200), turn("later"), &actor);
    let at = times.recv().await.unwrap();
    assert_eq!(deadlines.take_due(at, &actor), [turn("t")]);
    assert!(times.recv().await.unwrap() - now >= ms(200), "it was told once of the first");
}
