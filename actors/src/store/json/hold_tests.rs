//! A folder is one process's at a time; two stores in one process are the same to it.

use super::hold::Hold;
use super::tests::{journals, store};
use super::{FileStore, StoreOptions};
use crate::store::contract::{self, append, claim, session, store_one, stored};
use crate::store::folder::Folder;
use crate::store::{SessionOwner, SessionStore, owners};
use bob_messages::store::{SessionFilter, StoreError};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn open(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
    FileStore::open(folder, options).unwrap()
}

fn enter(folder: &TempDir, owner: &str, take_over: bool) -> Arc<dyn SessionStore> {
    open(folder.path(), StoreOptions { take_over, owner_name: owner.to_owned(), ..StoreOptions::default() })
}

fn busy(owner: &str) -> StoreError {
    StoreError::Busy { owner: owner.to_owned() }
}

fn examine(folder: &Path) {
    let left = std::fs::read_dir(folder).unwrap();
    let owners = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "owner"));
    assert!(owners.count() <= 1, "there is one lock");
}

#[tokio::test]
async fn s6_a_folder_of_a_living_process_is_busy_by_name_and_can_be_read() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (enter(&folder, "ann", false), enter(&folder, "ben", false), session("one"));
    let epoch = claim(&ann, &one).await;
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 1)).await, Ok(1));
    for _again in 0..2 {
        assert_eq!(ben.claim(&one).await, Err(busy("ann")));
        assert_eq!(ben.claim(&session("two")).await, Err(busy("ann")), "any session of the folder");
        assert_eq!(ben.delete(&one).await, Err(busy("ann")));
        assert_eq!(store_one(&ben, append(&one, epoch, 1, 1)).await, Err(busy("ann")));
        // A session that is given back stays in a folder that is not.
        ann.release(&one, epoch).await;
    }
    assert_eq!(stored(&ben, &one).await.len(), 1, "reading is free");
    assert_eq!(ben.list(&SessionFilter::default(), None).await.unwrap().sessions.len(), 1);
    assert_eq!(claim(&ann, &one).await, epoch + 1);
    drop(ann);
    assert_eq!(claim(&ben, &one).await, epoch + 2, "it is free at once when its owner is gone");
}

#[tokio::test]
async fn the_owner_of_a_session_is_the_living_process_that_claimed_it() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (session("one"), session("two"));
    let (ann, reader) = (enter(&folder, "ann", false), enter(&folder, "reader", false));
    let name = |owner: Result<Option<SessionOwner>, StoreError>| owner.map(|owner| owner.map(|owner| owner.name));
    assert_eq!(name(reader.owner(&one).await), Ok(None), "there is no such session");
    claim(&ann, &one).await;
    let ann_has_it = Ok(Some("ann".to_owned()));
    assert_eq!((name(reader.owner(&one).await), name(ann.owner(&one).await)), (ann_has_it.clone(), ann_has_it));
    drop(ann);
    assert_eq!(name(reader.owner(&one).await), Ok(None), "its owner is gone");
    // The next owner of the folder has not claimed it.
    let ben = enter(&folder, "ben", false);
    claim(&ben, &two).await;
    assert_eq!(name(reader.owner(&one).await), Ok(None));
    assert_eq!(name(reader.owner(&two).await), Ok(Some("ben".to_owned())));
}

#[tokio::test]
async fn a_folder_is_not_taken_over_and_whoever_tries_is_told() {
    let folder = TempDir::new().unwrap();
    let (ann, ben, one) = (enter(&folder, "ann", false), enter(&folder, "ben", true), session("one"));
    let epoch = claim(&ann, &one).await;
    let refused = ben.claim(&one).await.unwrap_err();
    let StoreError::Busy { owner } = &refused else { panic!("{refused}") };
    assert!(owner.starts_with("ann,") && owner.contains("json is not taken over"), "{owner}");
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 1)).await, Ok(1), "its owner goes on");
}

#[tokio::test]
async fn s7_what_a_killed_owner_left_holds_nobody_up_and_many_become_one_owner() {
    let folder = TempDir::new().unwrap();
    for left in ["folder.owner", "0190-left.owner"] {
        std::fs::write(folder.path().join(left), "cyd\n").unwrap();
    }
    let stores: Vec<_> = (0..8).map(|index| enter(&folder, &format!("owner {index}"), false)).collect();
    let one = session("one");
    let claims = futures_util::future::join_all(stores.iter().map(|store| store.claim(&one))).await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    assert!(!folder.path().join("0190-left.owner").exists(), "a dead owner's file is swept");
    assert_eq!(std::fs::read_to_string(folder.path().join("folder.owner")).unwrap().len(), "owner 0\n".len());
}

/// Programs of format 1 have a file each, and share the folder session by session.
#[test]
fn a_folder_in_which_an_older_program_lives_is_its_own() {
    let folder = TempDir::new().unwrap();
    let file = std::fs::File::create(folder.path().join("0190.owner")).unwrap();
    std::fs::write(folder.path().join("0190.owner"), "bob (process 7)\n").unwrap();
    file.lock().unwrap();
    let (ann, one) = (journals(&folder, "ann"), session("one"));
    assert_eq!(ann.claim(&one), Err(busy("bob (process 7), an older program")));
    drop(file);
    assert_eq!(ann.claim(&one).unwrap().epoch, 1);
    // And it takes ours for one of its own kind: a living one.
    let opened = Folder::open(folder.path()).unwrap();
    assert_eq!(owners::living(&opened, "").unwrap().as_deref(), Some("ann"));
    assert!(folder.path().join("folder.owner").exists());
}

#[test]
fn a_lock_that_was_removed_while_it_was_taken_is_made_anew() {
    let folder = TempDir::new().unwrap();
    let opened = Arc::new(Folder::open(folder.path()).unwrap());
    std::thread::scope(|scope| {
        for _thread in 0..4 {
            scope.spawn(|| {
                for _round in 0..200 {
                    let hold = Hold::new(Arc::clone(&opened), StoreOptions::default());
                    if hold.take().is_ok() {
                        let other = Hold::new(Arc::clone(&opened), StoreOptions::default());
                        assert!(matches!(other.take(), Err(StoreError::Busy { .. })), "two have it");
                    }
                }
            });
        }
    });
}

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
    assert_eq!(ben.claim(&one).unwrap_err(), busy("ann"));
    assert!(matches!(ben.load(&one), Err(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(matches!(ann.claim(&one), Err(StoreError::Corrupt(_))), "the owner itself may");
    assert!(!path.exists());
}

#[tokio::test]
async fn s1_what_was_acknowledged_survives_a_kill_at_any_time() {
    let folder = TempDir::new().unwrap();
    let test = concat!(module_path!(), "::s1_what_was_acknowledged_survives_a_kill_at_any_time");
    contract::s1_what_was_acknowledged_survives_a_kill_at_any_time(test, folder.path(), open, examine).await;
}

#[tokio::test]
async fn s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged() {
    let folder = TempDir::new().unwrap();
    let test = concat!(module_path!(), "::s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged");
    contract::s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged(test, folder.path(), open).await;
}

#[tokio::test]
async fn s7_a_killed_owners_folder_is_free_at_once_and_its_file_swept() {
    let folder = TempDir::new().unwrap();
    let test = concat!(module_path!(), "::s7_a_killed_owners_folder_is_free_at_once_and_its_file_swept");
    contract::s7_a_killed_owners_session_is_free_at_once_and_its_file_swept(test, folder.path(), open).await;
}
