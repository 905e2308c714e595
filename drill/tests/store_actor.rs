//! Order, batches and lost answers of the StoreActor, over stores that wait.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob_actors::store::contract::{append, session};
use bob_actors::store::{MemoryStore, SessionStore, StoreActor};
use bob_drill::store::{Fault, FaultStore, Operation};
use bob_messages::ids::SessionId;
use bob_messages::reply::{Answer, Reply};
use bob_messages::store::{Append, Claim, StoreError, StoreMessage};
use futures_util::FutureExt;
use ractor::{Actor, ActorRef};
use tokio::sync::Semaphore;

/// The most appends in one batch of the actor.
const MAX_BATCH: usize = 4096;

async fn start(store: Arc<dyn SessionStore>) -> ActorRef<StoreMessage> {
    Actor::spawn(None, StoreActor::default(), store).await.unwrap().0
}

/// A store of which the first append waits for a permit, and the actor before it, with these sessions claimed.
async fn held(sessions: &[&str]) -> (Arc<FaultStore>, Arc<Semaphore>, ActorRef<StoreMessage>) {
    let store = FaultStore::new(MemoryStore::new());
    let permits = Arc::new(Semaphore::new(0));
    store.plan(Some(Operation::Append), 1, Fault::Hold(Arc::clone(&permits)));
    for id in sessions {
        store.claim(&session(id)).await.unwrap();
    }
    let actor = start(Arc::clone(&store) as Arc<dyn SessionStore>).await;
    (store, permits, actor)
}

fn ask<T: Send + 'static>(actor: &ActorRef<StoreMessage>, message: impl FnOnce(Reply<T>) -> StoreMessage) -> Answer<T> {
    let (reply, answer) = Reply::channel();
    actor.send_message(message(reply)).unwrap();
    answer
}

fn claim(actor: &ActorRef<StoreMessage>, session: &SessionId) -> Answer<Result<Claim, StoreError>> {
    ask(actor, |reply| StoreMessage::Claim { session: session.clone(), whole: false, reply })
}

fn store(actor: &ActorRef<StoreMessage>, append: Append) -> Answer<Result<u64, StoreError>> {
    ask(actor, |reply| StoreMessage::Append { append, reply })
}

/// Returns when the actor has handled everything sent before: a listing waits for nothing.
async fn handled(actor: &ActorRef<StoreMessage>) {
    ask(actor, |reply| StoreMessage::List { filter: Default::default(), cursor: None, reply }).await.unwrap().unwrap();
}

/// The operations of the store since its claims, without the listings of the test.
fn asked(store: &FaultStore) -> Vec<(Operation, Vec<String>)> {
    let mut asked = store.asked();
    asked.retain(|(operation, _)| *operation != Operation::List);
    let names = |sessions: Vec<SessionId>| sessions.iter().map(ToString::to_string).collect();
    asked.into_iter().map(|(operation, sessions)| (operation, names(sessions))).collect()
}

#[tokio::test]
async fn a_session_is_claimed_written_and_read() {
    let actor = start(MemoryStore::new()).await;
    let one = session("one");
    assert_eq!(claim(&actor, &one).await.unwrap().unwrap().epoch, 1);
    assert_eq!(store(&actor, append(&one, 1, 0, 2)).await, Some(Ok(2)));
    assert_eq!(store(&actor, append(&one, 1, 0, 2)).await, Some(Ok(2)));
    let loaded = ask(&actor, |reply| StoreMessage::Load { session: one.clone(), reply }).await;
    assert_eq!(loaded.unwrap().unwrap().len(), 2);
    ask(&actor, |reply| StoreMessage::Ping { reply }).await.unwrap();
    let deleted = ask(&actor, |reply| StoreMessage::Delete { session: one.clone(), reply }).await;
    assert_eq!(deleted, Some(Ok(true)));
}

#[tokio::test]
async fn what_arrives_while_a_batch_is_in_flight_goes_together_in_the_next() {
    let (faults, permits, actor) = held(&["a", "b", "c"]).await;
    let (a, b, c) = (session("a"), session("b"), session("c"));
    let first = store(&actor, append(&a, 1, 0, 1));
    let waiting = [
        store(&actor, append(&b, 1, 0, 1)),
        store(&actor, append(&a, 1, 1, 1)),
        store(&actor, append(&c, 1, 0, 1)),
        store(&actor, append(&b, 1, 1, 1)),
    ];
    handled(&actor).await;
    assert_eq!(asked(&faults).len(), 4, "three claims and the batch in flight");
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    let mut answers = Vec::new();
    for answer in waiting {
        answers.push(answer.await.unwrap().unwrap());
    }
    assert_eq!(answers, [1, 2, 1, 2]);
    let (operation, mut sessions) = asked(&faults).pop().unwrap();
    sessions.sort_unstable();
    assert_eq!((operation, sessions.join("")), (Operation::Append, "abbc".to_owned()));
}

#[tokio::test]
async fn s10_a_session_keeps_its_order_and_holds_no_other_up() {
    let (faults, permits, actor) = held(&["a", "b"]).await;
    let (a, b) = (session("a"), session("b"));
    let first = store(&actor, append(&a, 1, 0, 1));
    let second = claim(&actor, &a);
    let third = store(&actor, append(&a, 2, 1, 1));
    let fourth = ask(&actor, |reply| StoreMessage::Load { session: a.clone(), reply });
    let other = claim(&actor, &b);
    assert_eq!(other.await.unwrap().unwrap().epoch, 2, "another session's claim does not wait for the batch");
    assert_eq!(faults.asked().len(), 4, "and this session's does");
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    assert_eq!(second.await.unwrap().unwrap().version, 1);
    assert_eq!(third.await, Some(Ok(2)));
    assert_eq!(fourth.await.unwrap().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s10_a_disk_that_takes_two_seconds_for_a_sync_keeps_what_is_not_written_waiting_for_nobody() {
    const SLOW: std::time::Duration = std::time::Duration::from_secs(2);
    let faults = FaultStore::new(MemoryStore::new());
    let (a, b, c) = (session("a"), session("b"), session("c"));
    for one in [&a, &b, &c] {
        faults.claim(one).await.unwrap();
    }
    faults.plan(Some(Operation::Append), 1, Fault::Delay(SLOW));
    let actor = start(Arc::clone(&faults) as Arc<dyn SessionStore>).await;
    let began = tokio::time::Instant::now();
    let slow = store(&actor, append(&a, 1, 0, 1));
    let behind = [store(&actor, append(&b, 1, 0, 1)), store(&actor, append(&c, 1, 0, 1))];
    assert_eq!(claim(&actor, &session("d")).await.unwrap().unwrap().epoch, 1);
    let loaded = ask(&actor, |reply| StoreMessage::Load { session: session("d"), reply }).await;
    assert!(loaded.unwrap().unwrap().is_empty());
    handled(&actor).await;
    assert_eq!(began.elapsed(), std::time::Duration::ZERO, "claims, loads and listings do not wait for a sync");
    for answer in behind {
        assert_eq!(answer.await, Some(Ok(1)));
    }
    assert_eq!(slow.await, Some(Ok(1)));
    assert_eq!(began.elapsed(), SLOW, "an append waits for the sync that is under way and for no further one");
    assert_eq!(asked(&faults).iter().filter(|(operation, _)| *operation == Operation::Append).count(), 2);
}

#[tokio::test]
async fn a_ping_is_answered_whatever_waits_and_a_load_waits_for_its_own_session() {
    let (_faults, permits, actor) = held(&["a", "b"]).await;
    let (a, b) = (session("a"), session("b"));
    let first = store(&actor, append(&a, 1, 0, 1));
    let load = |one: &SessionId| ask(&actor, |reply| StoreMessage::Load { session: one.clone(), reply });
    let mut own = load(&a);
    assert_eq!(load(&b).await.unwrap().unwrap().len(), 0, "of another session");
    assert_eq!(ask(&actor, |reply| StoreMessage::Ping { reply }).await, Some(()));
    assert!((&mut own).now_or_never().is_none(), "what was accepted of it is before it");
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    assert_eq!(own.await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn a_release_is_answered_when_it_is_done_and_comes_back_when_it_is_not() {
    let (faults, permits, actor) = held(&["a"]).await;
    let a = session("a");
    let release = || ask(&actor, |reply| StoreMessage::Release { session: a.clone(), epoch: 1, reply });
    faults.plan(Some(Operation::Release), 1, Fault::Panic);
    let first = store(&actor, append(&a, 1, 0, 1));
    let mut lost = release();
    handled(&actor).await;
    assert!((&mut lost).now_or_never().is_none(), "it waits for the append before it");
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    assert_eq!(lost.await, None);
    assert_eq!(release().await, Some(()));
}

#[tokio::test]
async fn a_store_that_panics_costs_its_askers_the_answer_and_nobody_else() {
    let (faults, permits, actor) = held(&["a", "b"]).await;
    let (a, b) = (session("a"), session("b"));
    faults.plan(Some(Operation::Append), 2, Fault::Panic);
    faults.plan(Some(Operation::Append), 3, Fault::Panic);
    let first = store(&actor, append(&a, 1, 0, 1));
    let lost = store(&actor, append(&b, 1, 0, 1));
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    assert_eq!(lost.await, None);
    assert_eq!(store(&actor, append(&b, 1, 0, 1)).await, None, "also when nothing waits");
    assert_eq!(store(&actor, append(&b, 1, 0, 1)).await, Some(Ok(1)));
}

#[tokio::test]
async fn a_panic_in_a_task_ends_its_batch() {
    let faults = FaultStore::new(MemoryStore::new());
    faults.plan(Some(Operation::Append), 1, Fault::PanicLater);
    faults.plan(Some(Operation::Append), 2, Fault::PanicLater);
    let actor = start(faults).await;
    let a = session("a");
    let lost = [store(&actor, append(&a, 1, 0, 1)), store(&actor, append(&a, 1, 0, 1))];
    for answer in lost {
        assert_eq!(answer.await, None);
    }
    assert_eq!(claim(&actor, &a).await.unwrap().unwrap().epoch, 1, "the session's lane goes on");
}

#[tokio::test]
async fn the_gauge_counts_what_is_not_answered_and_a_stop_answers_it() {
    let store_port = FaultStore::new(MemoryStore::new());
    store_port.plan(Some(Operation::Append), 1, Fault::Drop);
    let gauge = Arc::new(AtomicUsize::new(7));
    let room = StoreActor::with(Arc::clone(&gauge));
    let (actor, ended) = Actor::spawn(None, room, store_port as Arc<dyn SessionStore>).await.unwrap();
    assert_eq!(gauge.load(Ordering::Relaxed), 0);
    let a = session("a");
    claim(&actor, &a).await.unwrap().unwrap();
    let _in_flight = store(&actor, append(&a, 1, 0, 1));
    let waiting = [store(&actor, append(&a, 1, 1, 1)), store(&actor, append(&a, 1, 2, 1))];
    handled(&actor).await;
    // The listing's own handler has ended when the next message is handled.
    handled(&actor).await;
    assert_eq!(gauge.load(Ordering::Relaxed), 3);
    actor.stop(None);
    ended.await.unwrap();
    for answer in waiting {
        assert_eq!(answer.await, None);
    }
    assert_eq!(gauge.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_stop_lets_what_was_accepted_be_done() {
    let (faulty, permits, actor) = held(&["a", "b"]).await;
    let (a, b) = (session("a"), session("b"));
    let in_flight = store(&actor, append(&a, 1, 0, 1));
    let waiting = [store(&actor, append(&a, 1, 1, 1)), store(&actor, append(&b, 1, 0, 2))];
    handled(&actor).await;
    actor.stop(None);
    permits.close();
    assert_eq!(in_flight.await, Some(Ok(1)));
    let answers = futures_util::future::join_all(waiting).await;
    assert_eq!(answers, [Some(Ok(2)), Some(Ok(2))]);
    assert_eq!(faulty.asked().last().map(|(asked, _)| *asked), Some(Operation::Append));
}

#[tokio::test]
async fn a_batch_has_a_bound() {
    let (faults, permits, actor) = held(&["a", "b"]).await;
    let (a, b) = (session("a"), session("b"));
    let first = store(&actor, append(&a, 1, 0, 1));
    let many: Vec<_> = (0..MAX_BATCH as u64 + 1).map(|version| store(&actor, append(&b, 1, version, 1))).collect();
    handled(&actor).await;
    permits.add_permits(1);
    assert_eq!(first.await, Some(Ok(1)));
    for (version, answer) in (1..).zip(many) {
        assert_eq!(answer.await, Some(Ok(version)));
    }
    let sizes: Vec<_> = asked(&faults).into_iter().skip(2).map(|(_, sessions)| sessions.len()).collect();
    assert_eq!(sizes, [1, MAX_BATCH, 1]);
}
