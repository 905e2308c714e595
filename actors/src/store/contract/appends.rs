//! The rules of claims and appends of one session.

use super::{append, claim, record, session, store_one, stored};
use crate::store::SessionStore;
use bob_messages::store::{Append, StoreError};
use std::sync::Arc;

/// Epochs count claims, also over many, and the last one is the one that writes.
pub async fn a_claim_raises_the_epoch_by_one(store: Arc<dyn SessionStore>) {
    let (one, other) = (session("one"), session("other"));
    let (first, of_other) = (claim(&store, &one).await, claim(&store, &other).await);
    assert!(first > 0 && of_other > 0, "0 is no epoch");
    for epoch in first + 1..first + 5 {
        let claimed = store.claim(&one).await.expect("it can be claimed again");
        assert_eq!((claimed.epoch, claimed.version, claimed.records.len()), (epoch, 0, 0));
        assert_eq!(store_one(&store, append(&one, epoch, 0, 0)).await, Ok(0));
    }
    assert_eq!(claim(&store, &other).await, of_other + 1, "each session counts its own");
}

/// A round trip gives the very records back, in order.
pub async fn what_was_appended_is_loaded_and_claimed(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let (first, second) = (append(&one, epoch, 0, 3), append(&one, epoch, 3, 1));
    assert_eq!(store_one(&store, first.clone()).await, Ok(3));
    assert_eq!(store_one(&store, second.clone()).await, Ok(4));
    let all = [first.records, second.records].concat();
    assert_eq!(store.load(&one).await, Ok(all.clone()));
    let claimed = store.claim(&one).await.expect("it can be claimed again");
    assert_eq!((claimed.epoch, claimed.version, claimed.records), (epoch + 1, 4, all));
}

/// An older owner writes nothing, nor does one with an epoch nobody was given.
pub async fn an_append_under_another_epoch_is_fenced(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let old = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, old, 0, 1)).await, Ok(1));
    let new = claim(&store, &one).await;
    let fenced = Err(StoreError::Fenced { epoch: new });
    assert_eq!(store_one(&store, append(&one, old, 1, 1)).await, fenced);
    assert_eq!(store_one(&store, append(&one, old, 0, 1)).await, fenced, "even what is stored already");
    assert_eq!(store_one(&store, append(&one, new + 1, 1, 1)).await, fenced);
    assert_eq!(stored(&store, &one).await.len(), 1);
    assert_eq!(store_one(&store, append(&one, new, 1, 1)).await, Ok(2));
}

/// Only who claimed may write.
pub async fn an_append_without_a_claim_is_fenced(store: Arc<dyn SessionStore>) {
    let one = session("one");
    for epoch in [0, 1] {
        let answer = store_one(&store, append(&one, epoch, 0, 1)).await;
        assert_eq!(answer, Err(StoreError::Fenced { epoch: 0 }));
    }
    assert!(stored(&store, &one).await.is_empty());
}

/// A writer that believes in another version hears the true one.
pub async fn a_wrong_version_is_a_conflict(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 1, 1)).await, Err(StoreError::Conflict { version: 0 }));
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    let mut other = append(&one, epoch, 1, 1);
    other.records = vec![record(&one, epoch, 2, "other")];
    assert_eq!(store_one(&store, other).await, Err(StoreError::Conflict { version: 2 }));
    assert_eq!(stored(&store, &one).await, ["one-1-r", "one-2-r"]);
}

/// A retry stores nothing twice and hears what the first attempt would have heard.
pub async fn the_same_append_again_is_a_success(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let first = append(&one, epoch, 0, 2);
    for _attempt in 0..3 {
        assert_eq!(store_one(&store, first.clone()).await, Ok(2));
    }
    assert_eq!(store_one(&store, append(&one, epoch, 2, 1)).await, Ok(3));
    assert_eq!(store_one(&store, first.clone()).await, Ok(2), "also when more has followed");
    let twice = store.append(vec![append(&one, epoch, 3, 1), append(&one, epoch, 3, 1)]).await;
    assert_eq!(twice, [Ok(4), Ok(4)], "also within one batch");
    assert_eq!(stored(&store, &one).await.len(), 4);
}

/// An append of which the first records are stored is completed.
pub async fn the_rest_of_an_append_is_stored_behind_its_stored_prefix(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    assert_eq!(store_one(&store, append(&one, epoch, 0, 5)).await, Ok(5));
    assert_eq!(stored(&store, &one).await, ["one-1-r", "one-2-r", "one-3-r", "one-4-r", "one-5-r"]);
    let mut fork = append(&one, epoch, 0, 2);
    fork.records.push(record(&one, epoch, 3, "fork"));
    let answer = store_one(&store, fork).await;
    assert_eq!(answer, Err(StoreError::Conflict { version: 5 }), "a prefix that does not end the journal");
    assert_eq!(stored(&store, &one).await.len(), 5);
}

/// Record ids decide, not where their writer believes them to be.
pub async fn stored_records_are_known_whatever_version_is_expected(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let first = append(&one, epoch, 0, 2);
    assert_eq!(store_one(&store, first.clone()).await, Ok(2));
    let epoch = claim(&store, &one).await;
    let again = Append { epoch, expected_version: 2, ..first };
    assert_eq!(store_one(&store, again).await, Ok(2));
    assert_eq!(stored(&store, &one).await.len(), 2);
}

/// A journal never gets a gap, a record twice, or another session's record.
pub async fn records_that_do_not_follow_are_refused(store: Arc<dyn SessionStore>) {
    let (one, other) = (session("one"), session("other"));
    let epoch = claim(&store, &one).await;
    let with = |records| Append { session: one.clone(), epoch, expected_version: 0, records };
    let conflict = Err(StoreError::Conflict { version: 0 });
    assert_eq!(store_one(&store, with(vec![record(&one, epoch, 2, "r")])).await, conflict);
    let mut twice = record(&one, epoch, 1, "r").as_ref().clone();
    twice.version = 2;
    assert_eq!(store_one(&store, with(vec![record(&one, epoch, 1, "r"), Arc::new(twice)])).await, conflict);
    let foreign = store_one(&store, with(vec![record(&other, epoch, 1, "r")])).await;
    assert!(matches!(foreign, Err(StoreError::Corrupt(_))), "{foreign:?}");
    assert!(stored(&store, &one).await.is_empty());
}

/// An append without records tells whether one would be accepted.
pub async fn an_append_without_records_only_asks(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 0)).await, Ok(0));
    assert_eq!(store_one(&store, append(&one, epoch, 1, 0)).await, Err(StoreError::Conflict { version: 0 }));
    assert_eq!(store_one(&store, append(&one, epoch + 1, 0, 0)).await, Err(StoreError::Fenced { epoch }));
}

/// Each append of a batch stands for itself, in order.
pub async fn one_that_fails_does_not_touch_the_others_of_its_batch(store: Arc<dyn SessionStore>) {
    let (one, two, three) = (session("one"), session("two"), session("three"));
    let (first, second) = (claim(&store, &one).await, claim(&store, &two).await);
    let batch = vec![
        append(&one, first, 0, 1),
        append(&two, second, 7, 1),
        append(&three, 1, 0, 1),
        append(&one, first, 1, 2),
        append(&one, first + 1, 3, 1),
        append(&two, second, 0, 1),
    ];
    let fenced = |epoch| Err(StoreError::Fenced { epoch });
    let conflict = Err(StoreError::Conflict { version: 0 });
    assert_eq!(store.append(batch).await, [Ok(1), conflict, fenced(0), Ok(3), fenced(first), Ok(1)]);
    assert_eq!(stored(&store, &one).await.len(), 3);
    assert_eq!(stored(&store, &two).await.len(), 1);
    // Those of one session go on behind each other, as far as they are in order.
    let mut twice = record(&two, second, 3, "again").as_ref().clone();
    twice.version = 4;
    let batch = vec![
        append(&two, second, 1, 1),
        append(&one, first, 3, 1),
        Append { records: vec![record(&two, second, 3, "again"), Arc::new(twice)], ..append(&two, second, 2, 0) },
        append(&two, second, 2, 1),
        append(&one, first, 4, 2),
        append(&two, second, 4, 1),
        append(&two, second, 3, 1),
        append(&one, first, 3, 3),
        append(&one, first, 6, 0),
        append(&one, first, 6, 1),
    ];
    let conflict = |version| Err(StoreError::Conflict { version });
    let expected = [Ok(2), Ok(4), conflict(2), Ok(3), Ok(6), conflict(3), Ok(4), Ok(6), Ok(6), Ok(7)];
    assert_eq!(store.append(batch).await, expected);
    assert_eq!(stored(&store, &one).await.len(), 7);
    assert_eq!(stored(&store, &two).await.len(), 4);
    assert!(store.append(Vec::new()).await.is_empty());
}
