//! Two processes at one folder; two stores in one process are the same to it.

use super::tests::{journals, open, store};
use super::{FileStore, FileStoreOptions};
use crate::store::SessionStore;
use crate::store::contract::{append, session};
use bob_messages::store::StoreError;
use tempfile::TempDir;

fn busy(owner: &str) -> StoreError {
    StoreError::Busy { owner: owner.to_owned() }
}

#[test]
fn a_session_of_a_living_owner_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (journals(&folder, "ann"), journals(&folder, "ben"), session("one"));
    let epoch = ann.claim(&one).unwrap().epoch;
    assert_eq!(ben.claim(&one).unwrap_err(), busy("ann"));
    assert_eq!(ben.delete(&one).unwrap_err(), busy("ann"));
    assert_eq!(store(&ann, append(&one, epoch, 0, 1)), Ok(1));
    assert_eq!(ben.load(&one).unwrap().len(), 1, "reading is free");
    assert_eq!(ann.claim(&one).unwrap().epoch, epoch + 1, "an owner may claim its own again");
    assert_eq!(ben.claim(&session("two")).unwrap().epoch, 1);
}

#[test]
fn a_damaged_journal_is_not_set_aside_under_its_living_owner() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (journals(&folder, "ann"), journals(&folder, "ben"), session("one"));
    ann.claim(&one).unwrap();
    assert_eq!(store(&ann, append(&one, 1, 0, 1)), Ok(1));
    let path = folder.path().join("one.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() - 20;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(ben.claim(&one).unwrap_err(), busy("ann"));
    assert!(matches!(ben.load(&one), Err(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(matches!(ann.claim(&one), Err(StoreError::Corrupt(_))), "the owner itself may");
    assert!(!path.exists());
}

#[test]
fn a_released_session_goes_to_the_next_and_its_last_owner_is_fenced() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (journals(&folder, "ann"), journals(&folder, "ben"), session("one"));
    ann.claim(&one).unwrap();
    assert_eq!(store(&ann, append(&one, 1, 0, 1)), Ok(1));
    ann.release(&one, 7);
    assert_eq!(ben.claim(&one).unwrap_err(), busy("ann"), "only the owner's epoch releases");
    ann.release(&one, 1);
    let claim = ben.claim(&one).unwrap();
    assert_eq!((claim.epoch, claim.version), (2, 1));
    assert_eq!(store(&ann, append(&one, 1, 1, 1)), Err(StoreError::Fenced { epoch: 2 }));
    assert_eq!(store(&ben, append(&one, 2, 1, 1)), Ok(2));
    assert_eq!(ann.claim(&one).unwrap_err(), busy("ben"));
}

#[test]
fn a_dead_owners_session_is_free_at_once() {
    let folder = TempDir::new().unwrap();
    let (ann, one) = (journals(&folder, "ann"), session("one"));
    ann.claim(&one).unwrap();
    drop(ann);
    let ben = journals(&folder, "ben");
    assert_eq!(ben.claim(&one).unwrap().epoch, 2);

    // One that was killed leaves its file, unlocked.
    let left = folder.path().join("0190-left.owner");
    std::fs::write(&left, "cyd\n").unwrap();
    let dan = journals(&folder, "dan");
    assert_eq!(dan.claim(&one).unwrap_err(), busy("ben"));
    assert!(!left.exists(), "and whoever comes next sweeps it");
}

#[tokio::test]
async fn taking_over_fences_the_living_owner() {
    let folder = TempDir::new().unwrap();
    let (ann, one) = (open(&folder, "ann"), session("one"));
    ann.claim(&one).await.unwrap();
    assert_eq!(ann.append(vec![append(&one, 1, 0, 1)]).await, [Ok(1)]);
    let options = FileStoreOptions { take_over: true, owner_name: "ben".to_owned() };
    let ben = FileStore::open(folder.path(), options).unwrap();
    assert_eq!(ben.claim(&one).await.unwrap().epoch, 2);
    assert_eq!(ann.append(vec![append(&one, 1, 1, 1)]).await, [Err(StoreError::Fenced { epoch: 2 })]);
    ann.release(&one, 1).await;
    assert_eq!(ben.append(vec![append(&one, 2, 1, 1)]).await, [Ok(2)]);
    assert_eq!(ann.load(&one).await.unwrap().len(), 2);
    assert_eq!(ann.claim(&one).await.unwrap_err(), busy("ben"));
}

#[test]
fn two_that_take_over_from_each_other_lose_and_double_nothing() {
    let folder = TempDir::new().unwrap();
    let one = session("one");
    std::thread::scope(|scope| {
        for owner in ["ann", "ben", "cyd", "dan"] {
            let (folder, one) = (&folder, &one);
            scope.spawn(move || {
                let mut journals = journals(folder, owner);
                journals.take_over = true;
                let mut accepted = 0;
                while accepted < 10 {
                    let claim = journals.claim(one).unwrap();
                    let mut version = claim.version;
                    while accepted < 10 {
                        match store(&journals, append(one, claim.epoch, version, 1)) {
                            Ok(new) => (version, accepted) = (new, accepted + 1),
                            Err(StoreError::Fenced { epoch }) => {
                                assert!(epoch > claim.epoch);
                                break;
                            }
                            Err(other) => panic!("neither stored nor fenced: {other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(journals(&folder, "eve").load(&one).unwrap().len(), 40);
}
