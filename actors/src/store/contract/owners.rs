//! The rules of a store that several processes may have open: who owns a session,
//! and how another becomes its owner. Two stores in one process are two owners.

use super::{append, claim, session, store_one, stored};
use crate::store::{SessionStore, StoreLease, StoreOptions};
use bob_messages::ids::SessionId;
use bob_messages::store::{Claim, StoreError};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens a store in this folder.
pub type Open = fn(&Path, StoreOptions) -> Arc<dyn SessionStore>;

pub(super) fn enter(folder: &Path, open: Open, owner: &str, take_over: bool) -> Arc<dyn SessionStore> {
    open(folder, StoreOptions { take_over, owner_name: owner.to_owned(), ..StoreOptions::default() })
}

pub(super) fn busy(owner: &str) -> StoreError {
    StoreError::Busy { owner: owner.to_owned() }
}

/// Asks until the answer is one that may stay, 60 s at most, and answers the last one: a process that has ended may be known
/// for a while.
pub(super) async fn until<T, F: Future<Output = T>>(ask: impl Fn() -> F, may_stay: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask().await;
        if may_stay(&answer) || Instant::now() > end {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Claims a session whose owner is gone. Where the operating system tells of an owner's end it is free at once; a database may
/// have the connection of that owner for a while, and with it the lock.
pub(super) async fn claim_of_the_gone(store: &Arc<dyn SessionStore>, session: &SessionId) -> Result<Claim, StoreError> {
    let is_known_at_once = store.lease(session) == StoreLease::ForEver;
    let may_stay =
        |claimed: &Result<Claim, StoreError>| is_known_at_once || !matches!(claimed, Err(StoreError::Busy { .. }));
    until(|| store.claim(session), may_stay).await
}

/// Nobody gets a session that a living owner has, and hears whose it is.
pub async fn s6_a_session_of_a_living_owner_is_refused_by_name(folder: &Path, open: Open) {
    let (ann, ben) = (enter(folder, open, "ann", false), enter(folder, open, "ben", false));
    let one = session("one");
    let epoch = claim(&ann, &one).await;
    assert_eq!(ben.claim(&one).await, Err(busy("ann")));
    assert_eq!(ben.delete(&one).await, Err(busy("ann")));
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 1)).await, Ok(1));
    assert_eq!(stored(&ben, &one).await.len(), 1, "reading is free");
    assert_eq!(claim(&ann, &one).await, epoch + 1, "an owner may claim its own again");
    claim(&ben, &session("two")).await;
}

/// A release hands a session on; who had it writes no more.
pub async fn a_released_session_goes_to_the_next_and_its_last_owner_is_fenced(folder: &Path, open: Open) {
    let (ann, ben) = (enter(folder, open, "ann", false), enter(folder, open, "ben", false));
    let one = session("one");
    let first = claim(&ann, &one).await;
    assert_eq!(store_one(&ann, append(&one, first, 0, 1)).await, Ok(1));
    ann.release(&one, first + 6).await;
    assert_eq!(ben.claim(&one).await, Err(busy("ann")), "only the owner's epoch releases");
    ben.release(&one, first).await;
    assert_eq!(ben.claim(&one).await, Err(busy("ann")), "only the owner itself releases");
    ann.release(&one, first).await;
    let claimed = ben.claim(&one).await.expect("it was released");
    let second = first + 1;
    assert_eq!((claimed.epoch, claimed.version), (second, 1));
    assert_eq!(store_one(&ann, append(&one, first, 1, 1)).await, Err(StoreError::Fenced { epoch: second }));
    assert_eq!(store_one(&ben, append(&one, second, 1, 1)).await, Ok(2));
    assert_eq!(ann.claim(&one).await, Err(busy("ben")));
}

/// An owner that is gone holds nothing.
pub async fn s7_a_dead_owners_session_is_free_at_once(folder: &Path, open: Open) {
    let (ann, one) = (enter(folder, open, "ann", false), session("one"));
    let first = claim(&ann, &one).await;
    drop(ann);
    let ben = enter(folder, open, "ben", false);
    assert_eq!(claim_of_the_gone(&ben, &one).await.expect("its owner is gone").epoch, first + 1);
}

/// Who takes over is the owner; who was writes nothing and does not hinder.
pub async fn taking_over_fences_the_living_owner(folder: &Path, open: Open) {
    let (ann, one) = (enter(folder, open, "ann", false), session("one"));
    let first = claim(&ann, &one).await;
    assert_eq!(store_one(&ann, append(&one, first, 0, 1)).await, Ok(1));
    let ben = enter(folder, open, "ben", true);
    let claimed = ben.claim(&one).await.expect("it is taken over");
    let second = first + 1;
    assert_eq!((claimed.epoch, claimed.version, claimed.records.len()), (second, 1, 1));
    assert_eq!(store_one(&ann, append(&one, first, 1, 1)).await, Err(StoreError::Fenced { epoch: second }));
    ann.release(&one, first).await;
    assert_eq!(store_one(&ben, append(&one, second, 1, 1)).await, Ok(2));
    assert_eq!(stored(&ann, &one).await.len(), 2);
    assert_eq!(ann.claim(&one).await, Err(busy("ben")));
}

/// An owner from before a deletion writes nothing into the session that has the name afterwards, even where versions are
/// equal, and whichever process claims that one.
pub async fn an_owner_from_before_a_deletion_stays_fenced(folder: &Path, open: Open) {
    let (ann, one) = (enter(folder, open, "ann", false), session("one"));
    let mut old = vec![claim(&ann, &one).await];
    for _deletion in 0..2 {
        let ben = enter(folder, open, "ben", true);
        assert_eq!(ben.delete(&one).await, Ok(true));
        let epoch = claim(&ben, &one).await;
        let fenced = Err(StoreError::Fenced { epoch });
        for version in 0..2 {
            for old in &old {
                assert!(epoch > *old, "{epoch} and {old}");
                assert_eq!(store_one(&ann, append(&one, *old, version, 1)).await, fenced);
            }
            assert_eq!(store_one(&ben, append(&one, epoch, version, 1)).await, Ok(version + 1));
        }
        // An owner that claims it again, and is deleted in its turn.
        drop(ben);
        let next = claim_of_the_gone(&ann, &one).await.expect("its owner is gone").epoch;
        old.extend([epoch, next, claim(&ann, &one).await]);
        assert_eq!(old[old.len() - 1], epoch + 2);
    }
}

/// An operator takes a session from its living owner and leaves it to whoever claims it next; who had it is told, and fenced.
pub async fn a_session_that_is_taken_is_nobodys_and_its_owner_is_fenced(folder: &Path, open: Open) {
    let (ann, ben, cyd) =
        (enter(folder, open, "ann", false), enter(folder, open, "ben", false), enter(folder, open, "cyd", false));
    let one = session("one");
    assert_eq!(cyd.take(&one).await, Ok(None), "there is no such session");
    let first = claim(&ann, &one).await;
    assert_eq!(store_one(&ann, append(&one, first, 0, 1)).await, Ok(1));
    let name = |owner: Option<crate::store::SessionOwner>| owner.map(|owner| owner.name);
    assert_eq!(ben.owner(&one).await.map(name), Ok(Some("ann".to_owned())));
    assert_eq!(cyd.take(&one).await.map(name), Ok(Some("ann".to_owned())));
    assert_eq!((ben.owner(&one).await, cyd.take(&one).await), (Ok(None), Ok(None)), "it has no owner");
    let second = first + 1;
    assert_eq!(store_one(&ann, append(&one, first, 1, 1)).await, Err(StoreError::Fenced { epoch: second }));
    ann.release(&one, first).await;
    let claimed = ben.claim(&one).await.expect("it is free");
    assert_eq!((claimed.epoch, claimed.version), (second + 1, 1));
    assert_eq!(ann.owner(&one).await.map(name), Ok(Some("ben".to_owned())));
    assert_eq!(store_one(&ben, append(&one, second + 1, 1, 1)).await, Ok(2));
    drop(ben);
    let owner = until(|| ann.owner(&one), |owner| !matches!(owner, Ok(Some(_)))).await;
    assert_eq!(owner, Ok(None), "a dead process owns nothing");
    // Whether it is named is the store's own: for a while a dead process cannot be told from one that stands still.
    let former = cyd.take(&one).await.map(name).expect("it is taken");
    assert!(former.is_none_or(|former| former == "ben"));
    claim(&ann, &one).await;
}

/// Two that were told to take over do not take a session from each other for ever.
pub async fn what_was_taken_away_is_not_taken_back(folder: &Path, open: Open) {
    let (ann, ben) = (enter(folder, open, "ann", true), enter(folder, open, "ben", true));
    let one = session("one");
    let first = claim(&ann, &one).await;
    assert_eq!(claim(&ben, &one).await, first + 1);
    assert_eq!(ann.claim(&one).await, Err(busy("ben")));
    assert_eq!(ben.claim(&one).await.expect("it is its own").epoch, first + 2);
}

/// However often a session changes hands: every accepted record is there, once.
pub async fn s6_of_many_that_take_over_none_loses_or_doubles_a_record(folder: &Path, open: Open) {
    let one = session("one");
    let mut writers = tokio::task::JoinSet::new();
    for owner in ["ann", "ben", "cyd", "dan"] {
        let (folder, one) = (folder.to_owned(), one.clone());
        writers.spawn(async move {
            let mut accepted = 0;
            while accepted < 10 {
                // Each store takes over once, so each attempt is a store of its own.
                let store = enter(&folder, open, owner, true);
                let claimed = store.claim(&one).await.expect("it is taken over");
                let mut version = claimed.version;
                while accepted < 10 {
                    match store_one(&store, append(&one, claimed.epoch, version, 1)).await {
                        Ok(new) => (version, accepted) = (new, accepted + 1),
                        Err(StoreError::Fenced { epoch }) => {
                            assert!(epoch > claimed.epoch);
                            break;
                        }
                        Err(other) => panic!("neither stored nor fenced: {other}"),
                    }
                }
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.expect("the writer ended well");
    }
    assert_eq!(stored(&enter(folder, open, "eve", false), &one).await.len(), 40);
}
