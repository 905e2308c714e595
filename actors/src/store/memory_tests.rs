//! The memory store keeps the contract.

use super::*;

fn make() -> (Arc<dyn SessionStore>, ()) {
    (MemoryStore::new(), ())
}

crate::store_contract!(make);

#[test]
fn every_operation_is_ready_at_once() {
    use futures_util::FutureExt;
    let store = MemoryStore::new();
    let one = crate::store::contract::session("one");
    assert!(store.claim(&one).now_or_never().is_some());
    let batch = vec![crate::store::contract::append(&one, 1, 0, 1)];
    assert_eq!(store.append(batch).now_or_never(), Some(vec![Ok(1)]));
}

#[tokio::test]
async fn a_session_that_rests_keeps_its_rules() {
    use crate::store::contract::{append, session};
    let (store, one) = (MemoryStore::new(), session("one"));
    let owner = store.claim(&one).await.unwrap();
    let first = append(&one, owner.epoch, 0, 3);
    assert_eq!(store.append(vec![first.clone()]).await, vec![Ok(3)]);
    store.release(&one, owner.epoch + 1).await;
    assert!(!store.sessions().get(&one).unwrap().ledger.is_resting(), "that was not its owner");
    store.release(&one, owner.epoch).await;
    assert!(store.sessions().get(&one).unwrap().ledger.is_resting());
    assert_eq!(store.append(vec![first.clone()]).await, vec![Ok(3)], "what is stored already is known again");
    let owner = store.claim(&one).await.unwrap();
    assert_eq!(owner.records, first.records);
    store.release(&one, owner.epoch).await;
    let fresh = append(&one, owner.epoch, 3, 2);
    assert_eq!(store.append(vec![fresh]).await, vec![Ok(5)]);
}
