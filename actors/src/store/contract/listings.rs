//! The rules of loads, listings, releases and deletes.

use super::{append, claim, session, store_one, stored};
use crate::store::SessionStore;
use bob_messages::store::{SessionFilter, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reading what is not there is no error and makes nothing.
pub async fn a_load_of_an_unknown_session_is_empty(store: Arc<dyn SessionStore>) {
    assert_eq!(store.load(&session("nobody")).await, Ok(Vec::new()));
    let page = store.list(&SessionFilter::default(), None).await.expect("an empty store lists");
    assert!(page.sessions.is_empty() && page.cursor.is_none() && page.quarantined.is_empty());
}

/// A reader does not disturb the owner.
pub async fn a_load_changes_nothing(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let epoch = claim(&store, &one).await;
    for version in 0..4 {
        assert_eq!(store_one(&store, append(&one, epoch, version, 1)).await, Ok(version + 1));
        assert_eq!(stored(&store, &one).await.len() as u64, version + 1);
    }
    assert_eq!(claim(&store, &one).await, epoch + 1);
}

/// A release ends nothing but the ownership; a late one is harmless.
pub async fn a_released_session_can_be_claimed(store: Arc<dyn SessionStore>) {
    let one = session("one");
    let first = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, first, 0, 1)).await, Ok(1));
    store.release(&one, first).await;
    let second = claim(&store, &one).await;
    assert_eq!(second, first + 1);
    store.release(&one, first).await;
    store.release(&session("nobody"), 1).await;
    assert_eq!(store_one(&store, append(&one, second, 1, 1)).await, Ok(2));
    assert_eq!(store.load(&session("nobody")).await, Ok(Vec::new()));
}

/// Pages together hold every wanted session once; the last has no cursor.
pub async fn a_listing_is_filtered_and_cut_into_pages(store: Arc<dyn SessionStore>) {
    let mut expected = BTreeSet::new();
    for index in 0..25 {
        let one = session(&format!("{}-{index:02}", if index % 5 == 0 { "Chat" } else { "chat" }));
        let epoch = claim(&store, &one).await;
        store_one(&store, append(&one, epoch, 0, 1 + index)).await.expect("it is stored");
        if index % 5 != 0 {
            expected.insert(one);
        }
    }
    for limit in [1, 7, 19, 20, 21, 0] {
        let filter = SessionFilter { prefix: Some("chat-".to_owned()), limit, ..SessionFilter::default() };
        let (mut found, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = store.list(&filter, cursor.as_deref()).await.expect("it lists");
            assert!(limit == 0 || page.sessions.len() <= limit);
            found.extend(page.sessions);
            cursor = page.cursor;
            pages += 1;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, if limit == 0 { 1 } else { 20_usize.div_ceil(limit) }, "pages of {limit}");
        assert!(found.is_sorted_by(|a, b| a.updated_at >= b.updated_at), "the last written first");
        assert_eq!(found.len(), 20);
        assert_eq!(found.into_iter().map(|one| one.session).collect::<BTreeSet<_>>(), expected);
    }
    let all = store.list(&SessionFilter::default(), None).await.expect("it lists");
    assert_eq!(all.sessions.len(), 25);
}

/// A cursor that is no cursor is an error, not the first page.
pub async fn a_cursor_of_nobody_is_refused(store: Arc<dyn SessionStore>) {
    let answer = store.list(&SessionFilter::default(), Some("rubbish")).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
}

/// Nothing of a deleted session is left, and a late append does not bring it back.
pub async fn a_deleted_session_is_gone_and_its_owner_fenced(store: Arc<dyn SessionStore>) {
    let (one, other) = (session("one"), session("other"));
    let (epoch, other_epoch) = (claim(&store, &one).await, claim(&store, &other).await);
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    assert_eq!(store_one(&store, append(&other, other_epoch, 0, 1)).await, Ok(1));
    assert_eq!(store.delete(&one).await, Ok(true));
    assert_eq!(store.delete(&one).await, Ok(false));
    assert_eq!(store_one(&store, append(&one, epoch, 2, 1)).await, Err(StoreError::Fenced { epoch: 0 }));
    assert!(stored(&store, &one).await.is_empty());
    let page = store.list(&SessionFilter::default(), None).await.expect("it lists");
    assert_eq!(page.sessions.into_iter().map(|one| one.session).collect::<Vec<_>>(), [other]);
    let claimed = store.claim(&one).await.expect("it can begin anew");
    assert_eq!((claimed.version, claimed.records.len()), (0, 0));
    assert!(claimed.epoch > epoch, "an epoch that was given before is not given again");
    let fenced = Err(StoreError::Fenced { epoch: claimed.epoch });
    assert_eq!(store_one(&store, append(&one, epoch, 0, 1)).await, fenced, "also when it begins anew");
    assert_eq!(store_one(&store, append(&one, claimed.epoch, 0, 1)).await, Ok(1));
    assert_eq!(store_one(&store, append(&one, epoch, 1, 1)).await, fenced);
}
