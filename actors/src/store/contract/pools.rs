//! The rules of a store whose sessions may be bound to pools of machines.

use super::owners::{Open, until};
use super::{append, claim, record, session, store_one};
use crate::store::StoreOptions;
use bob_messages::ids::{PoolName, RequestId};
use bob_messages::options::SessionOptions;
use bob_messages::store::{Append, Claim, Fact, Pools, Record, StoreError};
use std::path::Path;
use std::sync::Arc;

fn gpu() -> PoolName {
    named("gpu")
}

/// An append behind this version that binds the session to a pool, or to none.
fn bound(append: &Append, pool: Option<PoolName>) -> Append {
    let options = Arc::new(SessionOptions { pool, ..SessionOptions::default() });
    let version = append.expected_version + 1;
    let made = record(&append.session, append.epoch, version, "pool");
    let request_id = RequestId::new(format!("pool-{version}"));
    let fact = Fact::Configured { request_id, options, notice: None };
    Append { records: vec![Arc::new(Record { fact, ..(*made).clone() })], ..append.clone() }
}

/// A session that is bound to a pool is given to the processes of that pool alone, and to others when it is bound no more. Each
/// process ends before the next one begins.
pub async fn a_session_of_a_pool_is_given_to_its_processes_alone(folder: &Path, open: Open) {
    let enter = |pools: Pools, take_over| open(folder, StoreOptions { take_over, pools, ..StoreOptions::default() });
    let ours: Pools = [gpu()].into_iter().collect();
    let one = session("one");
    let inside = enter(ours.clone(), false);
    if inside.pools() != ours {
        // A store of a program that knows none.
        return;
    }
    let first = claim(&inside, &one).await;
    let begun = bound(&append(&one, first, 0, 0), Some(gpu()));
    assert_eq!(store_one(&inside, begun).await, Ok(1));
    assert_eq!(store_one(&inside, append(&one, first, 1, 2)).await, Ok(3));
    inside.release(&one, first).await;
    drop(inside);

    for (pools, take_over) in [(Pools::default(), false), (["big"].map(named).into_iter().collect(), true)] {
        let outside = enter(pools, take_over);
        let names_none = |refused: &Result<Claim, StoreError>| match refused {
            Err(StoreError::Unreachable { processes, .. }) => processes.is_empty(),
            _other => true,
        };
        let refusals =
            [until(|| outside.claim(&one), names_none).await, until(|| outside.claim_latest(&one), names_none).await];
        for refused in refusals {
            let Err(StoreError::Unreachable { pool, processes }) = refused else { panic!("{refused:?}") };
            assert_eq!((pool, processes.len()), (gpu(), 0));
        }
        assert_eq!(outside.load(&one).await.map(|records| records.len()), Ok(3), "reading is free");
        claim(&outside, &session("another")).await;
        drop(outside);
    }

    let operator = enter(Pools::All, false);
    let claimed = operator.claim_latest(&one).await.expect("it may change every session");
    assert_eq!((claimed.epoch, claimed.version), (first + 1, 3), "a claim that was refused changed nothing");
    let unbound = bound(&append(&one, claimed.epoch, 3, 0), None);
    assert_eq!(store_one(&operator, unbound).await, Ok(4));
    operator.release(&one, claimed.epoch).await;
    drop(operator);
    claim(&enter(Pools::default(), false), &one).await;
}

fn named(name: &str) -> PoolName {
    PoolName::parse(name).expect("it is a name")
}
