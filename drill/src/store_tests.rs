//! The n-th operation meets its fault, and no other does.

use super::*;
use bob_actors::store::MemoryStore;
use bob_actors::store::contract::{append, session};
use futures_util::FutureExt;

fn faulty() -> Arc<FaultStore> {
    FaultStore::new(MemoryStore::new())
}

fn down() -> StoreError {
    StoreError::Unavailable("as planned".to_owned())
}

fn make() -> (Arc<dyn SessionStore>, ()) {
    (faulty(), ())
}

bob_actors::store_contract!(make);

#[tokio::test]
async fn a_refused_append_is_not_done_and_a_lost_answer_is() {
    let (store, one) = (faulty(), session("one"));
    store.plan(Some(Operation::Append), 1, Fault::Refuse(down()));
    store.plan(Some(Operation::Append), 2, Fault::LoseAnswer(down()));
    store.claim(&one).await.unwrap();
    assert_eq!(store.append(vec![append(&one, 1, 0, 1), append(&one, 1, 1, 1)]).await, [Err(down()), Err(down())]);
    assert!(store.load(&one).await.unwrap().is_empty());
    assert_eq!(store.append(vec![append(&one, 1, 0, 1)]).await, [Err(down())]);
    assert_eq!(store.load(&one).await.unwrap().len(), 1);
    assert_eq!(store.append(vec![append(&one, 1, 0, 1)]).await, [Ok(1)]);
}

#[tokio::test(start_paused = true)]
async fn operations_wait_as_long_as_they_are_told_to() {
    let (store, one) = (faulty(), session("one"));
    let permits = Arc::new(Semaphore::new(0));
    store.plan(None, 1, Fault::Delay(Duration::from_secs(2)));
    store.plan(None, 2, Fault::Hold(Arc::clone(&permits)));
    store.plan(None, 3, Fault::Drop);
    let started = tokio::time::Instant::now();
    store.claim(&one).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 2);
    let mut held = store.load(&one);
    assert!(held.as_mut().now_or_never().is_none());
    permits.add_permits(1);
    assert!(held.now_or_never().is_some());
    assert!(store.append(vec![append(&one, 1, 0, 1)]).now_or_never().is_none());
    assert_eq!(store.load(&one).await.unwrap().len(), 1, "what was dropped is the answer");
    assert_eq!(store.asked().len(), 4);
}
