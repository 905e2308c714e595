//! The file store keeps the contract, and its files survive what happens to files.

use super::*;
use crate::store::contract::{append, session};
use tempfile::TempDir;

pub(super) fn open(folder: &TempDir, owner: &str) -> Arc<FileStore> {
    let options = StoreOptions { take_over: false, owner_name: owner.to_owned() };
    FileStore::open(folder.path(), options).unwrap()
}

fn make() -> (Arc<dyn SessionStore>, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, "test"), folder)
}

crate::store_contract!(make);

/// The journals of a folder, to be used on this thread.
pub(super) fn journals(folder: &TempDir, owner: &str) -> Journals {
    let options = StoreOptions { take_over: false, owner_name: owner.to_owned() };
    Journals::new(Folder::open(folder.path()).unwrap(), options)
}

/// Stores one append.
pub(super) fn store(journals: &Journals, append: Append) -> Result<u64, StoreError> {
    let session = append.session.clone();
    journals.append_within(&session, &[append], LOCK_PATIENCE).unwrap().remove(0)
}

#[tokio::test]
async fn a_journal_can_be_read_by_people() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder, "bob in the tests");
    let one = session("Chat_42");
    let epoch = store.claim(&one).await.unwrap().epoch;
    assert_eq!(store.append(vec![append(&one, epoch, 0, 1)]).await, [Ok(1)]);
    store.release(&one, epoch).await;
    let text = std::fs::read_to_string(folder.path().join("chat_42+1.jsonl")).unwrap();
    let claim = text.lines().nth(1).unwrap();
    let (sum, lock) = (&claim[8..24], claim.rsplit('"').nth(1).unwrap());
    let told = text.replace(sum, "SUM").replace(lock, "LOCK");
    expect_test::expect![[r#"
        {"bob_journal":1,"session":"Chat_42"}
        {"sum":"SUM","claim":{"epoch":1,"owner":"bob in the tests","lock":"LOCK"}}
        {"sum":"ae34eb11b1e06301","record":{"format":1,"id":"Chat_42-1-r","session":"Chat_42","version":1,"epoch":1,"turn":null,"at":1,"kind":"started","body":{"model":"scripted:é\"\n\u0000"}}}
        {"sum":"fa604446fea7652a","release":{"epoch":1}}
    "#]]
    .assert_eq(&told);
}

#[cfg(unix)]
#[tokio::test]
async fn g4_files_and_folders_are_the_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("state").join("sessions");
    let store = FileStore::open(&path, StoreOptions::default()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    store.load(&session("one")).await.unwrap();
    store.list(&SessionFilter::default(), None).await.unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "a store that only reads writes nothing");
    store.claim(&session("one")).await.unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(store);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "only the journal stays");
}

#[tokio::test]
async fn a_flush_waits_for_appends_whose_asker_went_away() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder, "test"), session("one"));
    let epoch = store.claim(&one).await.unwrap().epoch;
    let appending = store.append(vec![append(&one, epoch, 0, 1)]);
    assert!(futures_util::FutureExt::now_or_never(appending).is_none());
    store.flush().await;
    assert_eq!(store.load(&one).await.unwrap().len(), 1);
}
