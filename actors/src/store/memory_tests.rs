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
