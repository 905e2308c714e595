//! The memory store keeps the contract.

use super::*;
use crate::store::contract::{append, session};

fn make() -> (Arc<dyn SessionStore>, ()) {
    (MemoryStore::new(), ())
}

crate::store_contract!(make);
crate::store_inbox_contract!(make);

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
    assert!(!store.sessions().of.get(&one).unwrap().ledger.is_resting(), "that was not its owner");
    store.release(&one, owner.epoch).await;
    assert!(store.sessions().of.get(&one).unwrap().ledger.is_resting());
    tokio::task::yield_now().await;
    assert!(store.sessions().of.get(&one).unwrap().records.loose.is_empty());
    assert_eq!(store.append(vec![first.clone()]).await, vec![Ok(3)], "what is stored already is known again");
    let owner = store.claim(&one).await.unwrap();
    assert_eq!(owner.records, first.records);
    store.release(&one, owner.epoch).await;
    let fresh = append(&one, owner.epoch, 3, 2);
    assert_eq!(store.append(vec![fresh]).await, vec![Ok(5)]);
}

#[tokio::test]
async fn a_session_that_was_deleted_does_not_come_back_packed() {
    use crate::store::contract::{append, record, session};
    let (store, one) = (MemoryStore::new(), session("one"));
    let first = store.claim(&one).await.unwrap();
    assert_eq!(store.append(vec![append(&one, first.epoch, 0, 2)]).await, vec![Ok(2)]);
    store.release(&one, first.epoch).await;
    // What is to be packed is still on its way while another session of this name rests.
    assert!(store.delete(&one).await.unwrap());
    let second = store.claim(&one).await.unwrap();
    let fresh = Append {
        records: vec![record(&one, second.epoch, 1, "other"), record(&one, second.epoch, 2, "other")],
        ..append(&one, second.epoch, 0, 2)
    };
    assert_eq!(store.append(vec![fresh.clone()]).await, vec![Ok(2)]);
    store.release(&one, second.epoch).await;
    while !store.sessions().of.get(&one).unwrap().records.loose.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.load(&one).await.unwrap(), fresh.records, "the records of the one that is there");
}

#[test]
fn packed_records_read_back_whoever_they_are_of() {
    use bob_messages::ids::TurnId;
    use bob_messages::store::FORMAT;
    let one = crate::store::contract::session("one");
    let turns = [None, Some("t1"), Some("t1"), None, Some("t1"), Some("t2"), None, None];
    let record = |(version, turn): (u64, &Option<&str>)| {
        let record = crate::store::contract::record(&one, 1 + version / 3, version, "r");
        Arc::new(Record {
            turn: turn.map(TurnId::new),
            at: 1_000 + i64::try_from(version).unwrap(),
            ..(*record).clone()
        })
    };
    let mut records: Vec<_> = (1..).zip(&turns).map(record).collect();
    let packed = Packed::pack(&records).expect("they are packed");
    assert_eq!(packed.unpack(&one).unwrap(), records);
    assert_eq!(Packed::pack(&[]).expect("nothing packs, too").unpack(&one).unwrap(), []);
    records[2] = Arc::new(Record { format: FORMAT + 1, ..(*records[2]).clone() });
    assert!(Packed::pack(&records).is_none(), "a foreign format stays as it is");
}

#[tokio::test]
async fn an_owner_reads_nothing_before_the_last_snapshot() {
    let (store, _guard) = make();
    crate::store::contract::nothing_before_the_last_snapshot_is_read(store).await;
}

#[tokio::test]
async fn a_session_of_another_pool_is_refused() {
    let gpu = || bob_messages::ids::PoolName::parse("gpu").unwrap();
    let (store, one) = (MemoryStore::in_pools([gpu()].into_iter().collect()), session("one"));
    let claimed = store.claim(&one).await.unwrap();
    let options = bob_messages::options::SessionOptions { pool: Some(gpu()), ..Default::default() };
    let mut append = append(&one, claimed.epoch, 0, 1);
    let first = (*append.records[0]).clone();
    append.records = vec![Arc::new(Record { fact: bob_messages::store::Fact::Options(options.into()), ..first })];
    assert_eq!(store.append(vec![append]).await, [Ok(1)]);
    store.release(&one, claimed.epoch).await;
    assert!(store.claim(&one).await.is_ok());
    let Ok(mut elsewhere) = Arc::try_unwrap(store) else { panic!("it is shared") };
    elsewhere.pools = Pools::default();
    let refused = elsewhere.claim(&one).await;
    assert!(matches!(&refused, Err(StoreError::Unreachable { pool, .. }) if *pool == gpu()), "{refused:?}");
    assert!(elsewhere.claim(&session("two")).await.is_ok());
}
