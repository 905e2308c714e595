//! A database has its name only when it is whole, so that an empty one was emptied.

use super::tests::path;
use super::*;
use crate::store::contract::{claim, session};
use bob_messages::store::SessionFilter;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use tempfile::TempDir;

#[tokio::test]
async fn s15_an_emptied_database_is_reported_and_never_taken_for_a_new_one() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    claim(&(store as Arc<dyn SessionStore>), &session("one")).await;
    for end in ["-wal", "-shm"] {
        let _folded_in_already = fs::remove_file(folder.path().join(format!("sessions.db{end}")));
    }
    let emptied = |how: &str, answer: Result<(), StoreError>| {
        assert!(matches!(&answer, Err(StoreError::Corrupt(text)) if text.contains("truncated")), "{how}: {answer:?}");
    };
    fs::write(&path, "").unwrap();
    emptied("open", SqliteStore::open(&path, StoreOptions::default()).map(drop));
    emptied("read", Database::open_to_read(&path).map(drop));
    assert_eq!(fs::read(&path).unwrap(), b"", "it is left as it is");
    // One that is emptied while a store that has not used it yet is open.
    let other = folder.path().join("other.db");
    let late = SqliteStore::open(&other, StoreOptions::default()).unwrap();
    fs::write(&other, "").unwrap();
    emptied("list", late.list(&SessionFilter::default(), None).await.map(drop));
    emptied("claim", late.claim(&session("one")).await.map(drop));
}

#[tokio::test]
async fn a_database_that_nothing_can_change_is_read_without_files_beside_it() {
    let folder = TempDir::new().unwrap();
    // Signs that mean something in the name by which it is opened.
    let path = path(&folder.path().join("50%3f? #1"));
    fs::create_dir(path.parent().unwrap()).unwrap();
    let store: Arc<dyn SessionStore> = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    claim(&store, &session("one")).await;
    drop(store);
    let beside = |end: &str| path.with_file_name(format!("sessions.db{end}"));
    let inode = file::look(&path).unwrap().unwrap();
    let unchanging = || Database::connect_unchanging(&path, inode, KNOWN);
    until_merged(&beside("-wal"));
    let database = unchanging().unwrap();
    assert_eq!(database.check(), "ok");
    assert!(matches!(database.nature(), Ok(database::Nature::Ours(steps)) if steps == KNOWN.steps.len()));
    assert!(!beside("-shm").exists() && !beside("-wal").exists(), "nothing was made beside it");
    fs::write(beside("-wal"), "what was not merged").unwrap();
    let refused = unchanging().map(drop).unwrap_err().to_string();
    assert!(refused.contains("-wal") && refused.contains("store.path"), "{refused}");
}

/// The threads of a store end behind it.
fn until_merged(log: &std::path::Path) {
    while log.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn those_who_make_one_database_at_once_all_get_the_same() {
    let folder = TempDir::new().unwrap();
    let path = path(&folder.path().join(".bob"));
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let made: Made = {
        let told = Arc::clone(&told);
        Arc::new(move |path| told.lock().unwrap().push(fs::metadata(path).unwrap().ino()))
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| Database::open_telling(&path, KNOWN, Some(&made)).map(drop).unwrap());
        }
    });
    let inode = fs::metadata(&path).unwrap().ino();
    // What is recorded last is what a later program takes for the store that was used here.
    let told = told.lock().unwrap();
    assert!(
        !told.is_empty() && told.iter().all(|of| *of == inode),
        "none of them told of another one: {told:?}, {inode}"
    );
    assert_eq!(Database::open(&path).unwrap().check(), "ok");
    let mut names: Vec<_> =
        fs::read_dir(folder.path().join(".bob")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".gitignore", "sessions.db"], "nothing is left beside it");
}

#[tokio::test]
async fn no_database_is_made_beside_the_log_or_the_messages_of_another() {
    for part in ["-wal", "-journal", "-inbox"] {
        let folder = TempDir::new().unwrap();
        let path = path(folder.path());
        let part = folder.path().join(format!("sessions.db{part}"));
        match part.extension().unwrap().to_str().unwrap().ends_with("inbox") {
            true => {
                fs::create_dir(&part).unwrap();
                fs::write(part.join("one~0"), "theirs").unwrap();
            }
            false => fs::write(&part, "theirs").unwrap(),
        }
        let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
        let page = store.list(&SessionFilter::default(), None).await.unwrap();
        assert_eq!(page, SessionPage::default());
        let named = part.display().to_string();
        let refused = store.claim(&session("one")).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Corrupt(text) if text.contains(&named)), "{refused:?}");
        assert!(!path.exists() && part.exists());
        match part.is_dir() {
            true => fs::remove_file(part.join("one~0")).unwrap(),
            false => fs::write(&part, "").unwrap(),
        }
        // Empty, they hold nothing.
        assert!(store.claim(&session("one")).await.is_ok());
    }
}
