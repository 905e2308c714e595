//! The log of a database is told from those of others at any moment, and nothing of another one is used.

use super::database::Database;
use super::steps::{Known, STEPS};
use super::tests::path;
use super::*;
use crate::store::contract::{append, claim, session, store_one};
use bob_messages::store::Formats;
use std::fs;
use tempfile::TempDir;

/// What an older program knew.
const OLDER: Known = Known {
    steps: &[STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4], STEPS[5], STEPS[6], STEPS[7], STEPS[8]],
    formats: Formats::KNOWN,
};

fn log_of(path: &Path) -> PathBuf {
    path.with_file_name("sessions.db-wal")
}

/// A database with its log as a process leaves them that is killed now.
fn killed(database: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in [database, &log_of(database)] {
        fs::copy(file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    folder
}

/// A database that was closed, with one session.
async fn closed(folder: &TempDir) -> PathBuf {
    let path = path(folder.path());
    let store: Arc<dyn SessionStore> = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    let epoch = claim(&store, &session("mine")).await;
    assert_eq!(store_one(&store, append(&session("mine"), epoch, 0, 3)).await, Ok(3));
    drop(store);
    while log_of(&path).exists() {
        std::thread::yield_now();
    }
    path
}

/// A connection that leaves its log behind.
fn leaving(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    connection
}

/// A log that changes rows of a database in place, made without knowing its identity, which it does not touch.
fn crafted(path: &Path) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let theirs = folder.path().join("sessions.db");
    fs::copy(path, &theirs).unwrap();
    leaving(&theirs).execute("UPDATE sessions SET title = 'theirs'", []).unwrap();
    let log = fs::read(log_of(&theirs)).unwrap();
    assert!(!log.is_empty());
    log
}

#[track_caller]
fn is_refused(path: &Path, named: &str) {
    for refused in [
        SqliteStore::open(path, StoreOptions::default()).map(drop),
        Database::open_to_read(path).map(drop),
        SqliteStore::mark_of(path).map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Corrupt(why)) if why.contains(named)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_log_of_somebody_else_is_neither_read_nor_folded_into_the_database() {
    let folder = TempDir::new().unwrap();
    let path = closed(&folder).await;
    let before = fs::read(&path).unwrap();
    fs::write(log_of(&path), crafted(&path)).unwrap();
    is_refused(&path, "sessions.db-wal");
    assert!(fs::read(&path).unwrap() == before, "nothing was folded into it");
    for end in ["-wal", "-shm"] {
        fs::remove_file(folder.path().join(format!("sessions.db{end}"))).unwrap();
    }
    let store: Arc<dyn SessionStore> = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    assert_eq!(store.load(&session("mine")).await.unwrap().len(), 3);
}

/// What the log says of the database it would make: its identity is another one, or it has none as that of an older program.
#[tokio::test]
async fn a_log_does_not_vouch_for_itself() {
    for changes in ["UPDATE identity SET transactions = transactions + 1", "PRAGMA user_version = 9"] {
        let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (path, theirs) = (closed(&folder).await, closed(&other).await);
        let before = fs::read(&path).unwrap();
        // So that each page is in the log, the first one among them.
        leaving(&theirs).execute_batch(&format!("UPDATE sessions SET title = 'theirs'; {changes}; VACUUM")).unwrap();
        fs::copy(log_of(&theirs), log_of(&path)).unwrap();
        is_refused(&path, "sessions.db-wal");
        assert!(fs::read(&path).unwrap() == before, "nothing was folded into it");
    }
}

#[tokio::test]
async fn a_rollback_journal_beside_a_database_is_not_rolled_back() {
    let folder = TempDir::new().unwrap();
    let path = closed(&folder).await;
    let before = fs::read(&path).unwrap();
    fs::write(folder.path().join("sessions.db-journal"), [0xd9; 512]).unwrap();
    is_refused(&path, "sessions.db-journal");
    assert!(fs::read(&path).unwrap() == before && folder.path().join("sessions.db-journal").exists());
}

#[tokio::test]
async fn whenever_a_process_is_killed_its_log_is_its_own() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    let store: Arc<dyn SessionStore> = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    let epoch = claim(&store, &session("one")).await;
    let is_own = |sessions: usize| {
        let copy = killed(&path);
        let database = Database::open(&copy.path().join("sessions.db")).unwrap();
        assert_eq!((database.check(), database.count("sessions")), ("ok".to_owned(), sessions));
    };
    is_own(1);
    for version in 0..3 {
        // The log begins anew with what is written next, in a page that has no identity in it.
        let mode = "PRAGMA wal_checkpoint(RESTART)";
        let folded: i64 = rusqlite::Connection::open(&path).unwrap().query_row(mode, [], |row| row.get(0)).unwrap();
        assert_eq!(folded, 0, "all of it was folded into the database");
        is_own(1);
        assert_eq!(store_one(&store, append(&session("one"), epoch, version, 1)).await, Ok(version + 1));
        is_own(1);
    }
    store.release(&session("one"), epoch).await;
    is_own(1);
    assert_eq!(store.delete(&session("one")).await, Ok(true));
    is_own(0);
    let length = fs::metadata(log_of(&path)).unwrap().len();
    assert_eq!(store.delete(&session("one")).await, Ok(false));
    assert_eq!(fs::metadata(log_of(&path)).unwrap().len(), length, "what changes nothing writes nothing");
}

#[tokio::test]
async fn the_log_of_an_older_program_is_taken_once_with_its_database() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    drop(Database::open_of(&path, OLDER).unwrap());
    assert_eq!(SqliteStore::mark_of(&path), Ok(None));
    leaving(&path).execute("INSERT INTO deletions VALUES (1, 7)", []).unwrap();
    let (once, kept) = (killed(&path), path.clone());
    let path = once.path().join("sessions.db");
    let open = Database::open(&path).unwrap();
    assert_eq!(open.count("deletions"), 1);
    // Killed as soon as it is up to date: both programs have written the log.
    let twice = killed(&path);
    assert_eq!(Database::open(&twice.path().join("sessions.db")).unwrap().count("deletions"), 1);
    let mark = SqliteStore::mark_of(&path).unwrap();
    assert!(mark.is_some() && SqliteStore::mark_of(&twice.path().join("sessions.db")).unwrap() == mark);
    drop(Database::open(&kept).unwrap());
    assert_ne!(SqliteStore::mark_of(&kept).unwrap(), mark, "each gets one of its own");
}

#[tokio::test]
async fn what_sqlite_does_not_take_for_a_transaction_is_none() {
    let folder = TempDir::new().unwrap();
    let log = crafted(&closed(&folder).await);
    let file = folder.path().join("log");
    let has_none_or = |bytes: &[u8], wanted: &[u8]| {
        fs::write(&file, bytes).unwrap();
        log::has_none_or(&file, wanted).unwrap()
    };
    assert!(!has_none_or(&log, b"not in there") && has_none_or(&log, b"theirs"));
    assert!(log::has_none_or(&folder.path().join("nothing"), b"x").unwrap());
    let page = 4096 + 24;
    let frames = (log.len() - 32) / page;
    assert!(frames > 0 && log.len() == 32 + frames * page, "{}", log.len());
    for torn in [0, 31, 32, 32 + page - 1, log.len() - 1] {
        assert!(has_none_or(&log[..torn], b"not in there"), "{torn}");
    }
    let changed = |at: usize| {
        let mut log = log.clone();
        log[at] ^= 1;
        log
    };
    // The magic number, the size of a page, the salt, the sum; and of the last frame its size, salt, sum and content.
    let last = log.len() - page;
    for at in [0, 8, 16, 24, last + 4, last + 8, last + 16, last + 24] {
        assert!(has_none_or(&changed(at), b"not in there"), "{at}");
    }
}
