//! Databases that are damaged, foreign, newer, locked, full, or went away.

use super::tests::{on, open, path};
use super::*;
use crate::store::contract::{append, claim, record, session, store_one, stored};
use bob_messages::store::Fact;
use std::fs;
use tempfile::TempDir;

fn refused(path: &Path) -> StoreError {
    let error = SqliteStore::open(path, StoreOptions::default()).map(drop).unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains(&*path.to_string_lossy())),
        "{error} names the path"
    );
    error
}

#[test]
fn s2_what_is_no_database_is_refused_and_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    for content in [b"garbage".to_vec(), b"{\"bob_journal\":1}\n".to_vec(), vec![7; 8192]] {
        fs::write(&path, &content).unwrap();
        assert!(refused(&path).to_string().contains("is no database"));
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was made beside it");
}

#[test]
fn s2_another_programs_database_is_refused_and_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let (ours, path) = (folder.path().join("made.db"), path(folder.path()));
    for change in ["PRAGMA application_id = 7", "PRAGMA application_id = 0; PRAGMA user_version = 0"] {
        let database = Database::open(&ours).unwrap();
        database.tamper(change);
        drop(database);
        let content = fs::read(&ours).unwrap();
        fs::write(&path, &content).unwrap();
        assert!(refused(&path).to_string().contains("another program"));
        assert_eq!(fs::read(&path).unwrap(), content);
        fs::remove_file(&ours).unwrap();
    }
}

#[test]
fn s2_a_newer_database_is_refused_and_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    Database::open(&path).unwrap().tamper("PRAGMA user_version = 11");
    let content = fs::read(&path).unwrap();
    let answer = SqliteStore::open(&path, StoreOptions::default()).map(drop);
    assert_eq!(answer, Err(StoreError::TooNew { found: 11, known: 10 }));
    assert_eq!(fs::read(&path).unwrap(), content);
}

#[test]
fn s2_tables_of_another_version_are_told_without_statements_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    for version in [0, 1, 3] {
        Database::open(&path).unwrap().tamper(&format!("PRAGMA user_version = {version}"));
        let told = refused(&path).to_string();
        assert!(told.contains("does not have the tables of its version ("), "{told}");
        assert!(!told.contains("CREATE") && !told.contains("ALTER") && !told.contains('\n'), "{told}");
        // Nothing was changed: with its version it is whole.
        let known = rusqlite::Connection::open(&path).unwrap();
        known.pragma_update(None, "user_version", super::steps::STEPS.len() as i64).unwrap();
        drop(known);
        assert_eq!(Database::open(&path).unwrap().check(), "ok");
    }
}

#[test]
fn s9_a_folder_a_link_and_a_pipe_are_refused() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(at("precious"), at("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (name, what) in [("folder", "a folder"), ("link", "a symbolic link"), ("pipe", "no file")] {
        assert!(refused(&at(name)).to_string().contains(what));
    }
    assert_eq!(fs::read_to_string(at("precious")).unwrap(), "precious");
    refused(&at("precious").join("sessions.db"));
}

#[tokio::test]
async fn s9_a_link_beside_a_database_or_in_its_place_leads_nowhere_else() {
    for end in ["db-wal", "db-shm", "db-journal"] {
        let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let precious = elsewhere.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, path(folder.path()).with_extension(end)).unwrap();
        let store = open(&folder);
        let answer = store.claim(&session("one")).await.map(drop);
        assert!(matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains(end)), "{answer:?}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
    // Swapped in while the database is open.
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let target = elsewhere.path().join("sessions.db");
    fs::write(&target, "").unwrap();
    fs::rename(path(folder.path()), folder.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&target, path(folder.path())).unwrap();
    let answer = store_one(&store, append(&one, epoch, 0, 1)).await;
    assert!(matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains("replaced")), "{answer:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[tokio::test]
async fn s9_a_folder_in_which_nothing_can_be_made_is_named() {
    let path = Path::new("/proc/self/sessions.db");
    let store = SqliteStore::open(path, StoreOptions::default()).unwrap();
    let claim = store.claim(&session("one")).await.map(drop);
    assert!(matches!(&claim, Err(StoreError::Unavailable(text)) if text.contains("/proc/self")), "{claim:?}");
    assert_eq!(store.load(&session("one")).await, Ok(Vec::new()));
}

/// A session with records, damaged by this statement, and one beside it.
async fn damaged_by(change: &str) -> (TempDir, Arc<dyn SessionStore>) {
    let folder = TempDir::new().unwrap();
    let store = open(&folder);
    for id in ["one", "two"] {
        let epoch = claim(&store, &session(id)).await;
        assert_eq!(store_one(&store, append(&session(id), epoch, 0, 3)).await, Ok(3));
    }
    drop(store);
    let store = on(&folder, |database| database.tamper(change));
    (folder, store)
}

#[tokio::test]
async fn s2_a_damaged_session_is_set_aside_and_blocks_only_itself() {
    for change in [
        "UPDATE records SET line = replace(line, 'started', 'startad') WHERE session = 1 AND version = 2",
        "UPDATE records SET line = 'garbage' WHERE session = 1 AND version = 1",
        "DELETE FROM records WHERE session = 1 AND version = 2",
        "DELETE FROM records WHERE session = 1 AND version = 3",
        "UPDATE sessions SET version = 2 WHERE id = 'one'",
        "UPDATE records SET line = (SELECT line FROM records WHERE session = 2 AND version = 1) \
         WHERE session = 1 AND version = 1",
    ] {
        let (folder, store) = damaged_by(change).await;
        let (one, two) = (session("one"), session("two"));
        assert!(matches!(store.load(&one).await, Err(StoreError::Corrupt(_))), "{change}");
        for _claim in 0..2 {
            let error = store.claim(&one).await.unwrap_err();
            let names = [path(folder.path()).display().to_string(), "session one".to_owned()];
            assert!(
                matches!(&error, StoreError::Corrupt(text) if names.iter().all(|name| text.contains(name))),
                "{change}: {error}"
            );
        }
        assert!(matches!(store_one(&store, append(&one, 1, 3, 1)).await, Err(StoreError::Corrupt(_))), "{change}");
        assert!(matches!(store.load(&one).await, Err(StoreError::Corrupt(_))));
        let epoch = claim(&store, &two).await;
        assert_eq!(store_one(&store, append(&two, epoch, 3, 1)).await, Ok(4));
        let page = store.list(&SessionFilter::default(), None).await.unwrap();
        assert_eq!(page.sessions.len(), 1);
        assert_eq!(page.quarantined.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["one"]);
        assert_eq!(store.delete(&one).await, Ok(true));
        assert_eq!(store.claim(&one).await.unwrap().version, 0);
    }
}

#[tokio::test]
async fn s2_a_newer_record_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let mut newer = record(&one, epoch, 1, "r").as_ref().clone();
    newer.format = bob_messages::store::FORMAT + 1;
    let records = vec![Arc::new(newer)];
    let stored = store_one(&store, Append { session: one.clone(), epoch, expected_version: 0, records }).await;
    assert_eq!(stored, Ok(1));
    let is_too_new = |answer: &StoreError| matches!(answer, StoreError::TooNew { found: 5, known: 4 });
    assert!(store.load(&one).await.is_err_and(|error| is_too_new(&error)));
    assert!(store.claim(&one).await.is_err_and(|error| is_too_new(&error)));
    let page = store.list(&SessionFilter::default(), None).await.unwrap();
    assert_eq!((page.sessions.len(), page.quarantined.len()), (1, 0));
}

#[tokio::test]
async fn s3_a_disk_that_is_full_stores_nothing_of_an_append_and_everything_of_the_next() {
    let folder = TempDir::new().unwrap();
    let one = session("one");
    let epoch = claim(&open(&folder), &one).await;
    let store = on(&folder, |database| database.fill(true));
    let attempt = append(&one, epoch, 0, 100);
    let small = append(&session("nobody"), 1, 0, 1);
    let answers = store.append(vec![attempt.clone(), small]).await;
    assert!(matches!(&answers[0], Err(StoreError::Unavailable(text)) if text.contains("full")), "{answers:?}");
    assert_eq!(stored(&store, &one).await.len(), 0);
    drop(store);
    let store = open(&folder);
    assert_eq!(store_one(&store, attempt).await, Ok(100));
}

#[tokio::test]
async fn s4_a_commit_of_which_nobody_knows_is_in_doubt_and_may_be_sent_again() {
    let folder = TempDir::new().unwrap();
    let one = session("one");
    let epoch = claim(&open(&folder), &one).await;
    let store = on(&folder, |database| database.loses_commit.set(true));
    let attempt = append(&one, epoch, 0, 2);
    let batch = store.append(vec![attempt.clone(), append(&one, epoch, 9, 1)]).await;
    assert!(
        matches!(batch.as_slice(), [Err(StoreError::InDoubt(_)), Err(StoreError::Conflict { version: 2 })]),
        "{batch:?}"
    );
    assert_eq!(store_one(&store, attempt).await, Ok(2));
    assert_eq!(stored(&store, &one).await.len(), 2);
}

#[tokio::test]
async fn a_panic_of_the_writer_costs_what_it_wrote_and_no_more() {
    let folder = TempDir::new().unwrap();
    let one = session("one");
    let epoch = claim(&open(&folder), &one).await;
    let store = on(&folder, |database| database.panics.set(true));
    let attempt = append(&one, epoch, 0, 2);
    let refused = store_one(&store, attempt.clone()).await;
    assert!(matches!(refused, Err(StoreError::InDoubt(_))), "{refused:?}");
    assert_eq!(stored(&store, &one).await.len(), 0, "nothing of it is seen");
    assert_eq!(store_one(&store, attempt).await, Ok(2));
    assert_eq!(claim(&store, &session("two")).await, 1);
}

#[tokio::test]
async fn s3_an_append_that_fails_in_the_middle_of_a_batch_takes_no_other_with_it_or_all_and_says_so() {
    for (end, others_are_kept) in [("ABORT", true), ("FAIL", true), ("ROLLBACK", false)] {
        let folder = TempDir::new().unwrap();
        let sessions = ["one", "two", "six"].map(session);
        let store = open(&folder);
        for one in &sessions {
            claim(&store, one).await;
        }
        drop(store);
        // The second record of the second session cannot be written.
        let trigger = format!(
            "CREATE TRIGGER refuses BEFORE INSERT ON records
             WHEN new.version = 2 AND new.session = (SELECT number FROM sessions WHERE id = 'two')
             BEGIN SELECT RAISE({end}, 'sabotaged'); END"
        );
        let store = on(&folder, |database| database.tamper(&trigger));
        let batch: Vec<_> = sessions.iter().map(|one| append(one, 1, 0, 3)).collect();
        let answers = store.append(batch.clone()).await;
        assert!(matches!(answers[1], Err(StoreError::Unavailable(_))), "{end}: {answers:?}");
        for (at, one) in sessions.iter().enumerate() {
            assert_eq!(answers[at].is_ok(), others_are_kept && at != 1, "{end}: {answers:?}");
            let kept = stored(&store, one).await.len();
            assert_eq!(kept, if answers[at].is_ok() { 3 } else { 0 }, "{end}: {one}");
        }
        drop(store);
        let store = on(&folder, |database| database.tamper("DROP TRIGGER refuses"));
        assert_eq!(store.append(batch).await, vec![Ok(3); 3], "{end}: all of it may be sent again");
    }
}

#[tokio::test]
async fn s3_an_append_that_fails_takes_back_only_its_own_records() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    // A record that the row does not count, in the way of the second of the next two.
    let other = Database::open(&path(folder.path())).unwrap();
    other.tamper("INSERT INTO records SELECT number, 4, 'left as it is' FROM sessions");
    let refused = store_one(&store, append(&one, epoch, 2, 2)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let mut versions = Vec::new();
    let mut read = other.statement("SELECT version FROM records ORDER BY version").unwrap();
    read.each(&[], |row| {
        versions.push(row.number(0)?);
        Ok::<_, StoreError>(())
    })
    .unwrap();
    assert_eq!(versions, [1, 2, 4]);
}

#[tokio::test]
async fn s2_an_owner_writes_nothing_more_once_another_claim_found_damage() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    for version in 0..3 {
        assert_eq!(store_one(&store, append(&one, epoch, version, 1)).await, Ok(version + 1));
    }
    // In the log, so that no connection is told of a change.
    let log = path(folder.path()).with_extension("db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let found: Vec<_> =
        bytes.windows(6).enumerate().filter(|(_, word)| *word == b"\"kind\"").map(|(at, _)| at).collect();
    found.iter().for_each(|at| bytes[at + 1] = b'K');
    assert!(!found.is_empty());
    fs::write(&log, &bytes).unwrap();
    assert!(matches!(store.claim(&one).await, Err(StoreError::Corrupt(_))));
    let refused = store_one(&store, append(&one, epoch, 3, 1)).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
}

#[tokio::test]
async fn s11_a_database_that_another_program_keeps_locked_is_unavailable_and_then_usable() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let other = Database::open(&path(folder.path())).unwrap();
    let held = other.write().unwrap();
    let attempt = append(&one, epoch, 0, 1);
    let refused = store_one(&store, attempt.clone()).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(text)) if text.contains("locked")), "{refused:?}");
    assert_eq!(stored(&store, &one).await.len(), 0, "reading goes on");
    drop(held);
    assert_eq!(store_one(&store, attempt).await, Ok(1));
}

#[tokio::test]
async fn s9_a_database_that_went_away_is_named() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    fs::remove_file(path(folder.path())).unwrap();
    for answer in [store_one(&store, append(&one, epoch, 0, 1)).await, store.claim(&one).await.map(|claim| claim.epoch)]
    {
        let named = path(folder.path()).display().to_string();
        assert!(matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains(&named)), "{answer:?}");
    }
    assert!(!path(folder.path()).exists(), "it is not made anew behind its owner's back");
}

#[tokio::test]
async fn a_record_that_could_not_be_read_back_is_not_stored() {
    let folder = TempDir::new().unwrap();
    let (store, one) = (open(&folder), session("one"));
    let epoch = claim(&store, &one).await;
    let nested = (0..200).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    let mut deep = record(&one, epoch, 1, "deep").as_ref().clone();
    deep.fact = Fact::ApprovalDecided {
        approval: bob_messages::ids::ApprovalId::new("a"),
        allowed: true,
        arguments: Some(Box::new(nested)),
        reason: String::new(),
        scope: None,
    };
    let records = vec![Arc::new(deep)];
    let refused = store_one(&store, Append { session: one.clone(), epoch, expected_version: 0, records }).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    assert_eq!(store_one(&store, append(&one, epoch, 0, 1)).await, Ok(1));
}

#[test]
fn whoever_looks_while_a_database_is_made_does_not_take_it_for_another_programs() {
    for _ in 0..50 {
        let folder = TempDir::new().unwrap();
        let path = path(folder.path());
        let made = std::thread::spawn({
            let path = path.clone();
            move || database::Database::open(&path).map(drop)
        });
        loop {
            match database::Database::open_to_read(&path) {
                Ok(None) => {}
                Ok(Some(_ready)) => break,
                Err(error) => assert!(!error.to_string().contains("another program"), "{error}"),
            }
        }
        made.join().unwrap().unwrap();
    }
}
