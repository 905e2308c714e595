//! Two processes at one folder; two stores in one process are the same to it.

use super::tests::{journals, store};
use super::{FileStore, StoreOptions};
use crate::store::SessionStore;
use crate::store::contract::{append, session};
use bob_messages::store::StoreError;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn open(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
    FileStore::open(folder, options).unwrap()
}

fn examine(folder: &Path) {
    let left = std::fs::read_dir(folder).unwrap();
    let owners = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "owner"));
    assert!(owners.count() <= 1, "each writer swept what the one before it left");
}

crate::store_owners_contract!(open, examine);

#[test]
fn s2_a_damaged_journal_is_not_set_aside_under_its_living_owner() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (journals(&folder, "ann"), journals(&folder, "ben"), session("one"));
    ann.claim(&one).unwrap();
    assert_eq!(store(&ann, append(&one, 1, 0, 1)), Ok(1));
    let path = folder.path().join("one.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() - 20;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(ben.claim(&one).unwrap_err(), StoreError::Busy { owner: "ann".to_owned() });
    assert!(matches!(ben.load(&one), Err(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(matches!(ann.claim(&one), Err(StoreError::Corrupt(_))), "the owner itself may");
    assert!(!path.exists());
}

#[test]
fn s7_what_a_killed_owner_left_is_swept_by_the_next() {
    let folder = TempDir::new().unwrap();
    let (ann, one) = (journals(&folder, "ann"), session("one"));
    ann.claim(&one).unwrap();
    let left = folder.path().join("0190-left.owner");
    std::fs::write(&left, "cyd\n").unwrap();
    let ben = journals(&folder, "ben");
    assert_eq!(ben.claim(&one).unwrap_err(), StoreError::Busy { owner: "ann".to_owned() });
    assert!(!left.exists());
}

#[tokio::test]
async fn s10_a_journal_that_a_paused_process_keeps_locked_holds_no_other_session_up() {
    let folder = TempDir::new().unwrap();
    let (ann, one, two) = (super::tests::open(&folder, "ann"), session("one"), session("two"));
    for session in [&one, &two] {
        ann.claim(session).await.unwrap();
    }
    let paused = std::fs::File::options().append(true).open(folder.path().join("one.jsonl")).unwrap();
    paused.lock().unwrap();
    let mut answers = ann.append_apart(vec![append(&one, 1, 0, 1), append(&two, 1, 0, 1), append(&one, 1, 1, 1)]).await;
    let (third, second, first) = (answers.remove(2), answers.remove(1), answers.remove(0));
    assert!(matches!(second, super::Stored::Now(Ok(1))), "{second:?}");
    let (super::Stored::Later(mut first), super::Stored::Later(third)) = (first, third) else {
        panic!("a locked journal cannot have been written");
    };
    assert!(futures_util::FutureExt::now_or_never(&mut first).is_none());
    assert_eq!(ann.append(vec![append(&two, 1, 1, 1)]).await, [Ok(2)], "and goes on");
    paused.unlock().unwrap();
    assert_eq!((first.await, third.await), (Some(Ok(1)), Some(Ok(2))));
}
