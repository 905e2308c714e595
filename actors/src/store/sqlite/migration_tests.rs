//! A database that an older program made is brought up to date, once and wholly.

use super::database::Database;
use super::statement::Value;
use super::steps::{KNOWN, Known, STEPS, Step};
use super::tests::{open, path};
use super::*;
use crate::store::contract::{append, claim, session, store_one};
use crate::store::json::bring_up_tests::{FROM_ZERO, line_of_zero};
use bob_messages::chat::FinishReason;
use bob_messages::options::SessionOptions;
use bob_messages::store::{Ended, Fact, Formats, SessionState};
use std::fs;
use tempfile::TempDir;

const NEWER_TABLES: Step =
    Step::Tables("ALTER TABLE sessions ADD COLUMN newer TEXT; UPDATE sessions SET newer = 'old'");

/// What a newer program would know: the released steps, and one more.
const NEWER: Known = Known {
    steps: &[
        STEPS[0],
        STEPS[1],
        STEPS[2],
        STEPS[3],
        STEPS[4],
        STEPS[5],
        STEPS[6],
        STEPS[7],
        STEPS[8],
        STEPS[9],
        NEWER_TABLES,
    ],
    formats: Formats::KNOWN,
};

/// The same with a step that fails after it has changed something.
const BROKEN: Known = Known {
    steps: &[
        STEPS[0],
        STEPS[1],
        STEPS[2],
        STEPS[3],
        STEPS[4],
        STEPS[5],
        STEPS[6],
        STEPS[7],
        STEPS[8],
        STEPS[9],
        Step::Tables("ALTER TABLE sessions ADD COLUMN newer TEXT; INSERT INTO nowhere VALUES (1)"),
    ],
    formats: Formats::KNOWN,
};

fn titles(database: &Database) -> Result<Vec<String>, StoreError> {
    let mut titles = Vec::new();
    database.statement("SELECT newer FROM sessions ORDER BY id")?.each(&[], |row| {
        titles.push(String::from_utf8_lossy(row.text(0)?.unwrap_or_default()).into_owned());
        Ok::<_, StoreError>(())
    })?;
    Ok(titles)
}

async fn two_sessions(folder: &TempDir) {
    let store = open(folder);
    for id in ["one", "two"] {
        let epoch = claim(&store, &session(id)).await;
        assert_eq!(store_one(&store, append(&session(id), epoch, 0, 3)).await, Ok(3));
    }
}

#[tokio::test]
async fn s14_an_older_database_is_migrated_with_all_that_is_in_it() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    let refused = Database::open_to_read_of(&path(folder.path()), NEWER).map(drop).unwrap_err();
    assert!(refused.to_string().contains("up to date"), "who only reads does not migrate: {refused}");
    for _open in 0..2 {
        let database = Database::open_of(&path(folder.path()), NEWER).unwrap();
        assert_eq!(titles(&database).unwrap(), ["old", "old"]);
        assert_eq!(database.check(), "ok");
    }
    let too_new = StoreError::TooNew { found: 11, known: 10 };
    let older = SqliteStore::open(&path(folder.path()), StoreOptions::default()).map(drop);
    assert_eq!(older, Err(too_new), "the program that made it hears that it is too new");
    // Its records are as they were, for a program that knows the step.
    let database = Database::open_of(&path(folder.path()), NEWER).unwrap();
    let mut versions = 0;
    let mut lines = database.statement("SELECT line FROM records").unwrap();
    lines.each(&[], |row| row.text(0).map(|line| versions += usize::from(line.is_some()))).unwrap();
    assert_eq!(versions, 6);
}

#[tokio::test]
async fn a_step_that_fails_leaves_the_database_as_it_was() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    let refused = Database::open_of(&path(folder.path()), BROKEN).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    let store = open(&folder);
    assert_eq!(store.load(&session("one")).await.unwrap().len(), 3);
    assert_eq!(claim(&store, &session("two")).await, 2);
    drop(store);
    assert_eq!(Database::open(&path(folder.path())).unwrap().check(), "ok");
}

#[tokio::test]
async fn many_migrate_one_database_at_once_and_it_is_done_once() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    std::thread::scope(|scope| {
        for _process in 0..6 {
            scope.spawn(|| {
                let database = Database::open_of(&path(folder.path()), NEWER).unwrap();
                assert_eq!(titles(&database).unwrap(), ["old", "old"]);
            });
        }
    });
}

#[test]
fn a_database_of_which_only_the_name_was_written_is_made_whole() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    // Marked as ours and without a single step, as an interrupted program cannot leave it but a copy might be.
    let database = Database::open_of(&path, FIRST).unwrap();
    database.tamper("DROP TABLE sessions; DROP TABLE records; PRAGMA user_version = 0");
    drop(database);
    assert!(fs::metadata(&path).unwrap().len() > 0);
    assert_eq!(Database::open(&path).unwrap().check(), "ok");
}

/// What the program before titles knew.
const FIRST: Known = Known { steps: &[STEPS[0]], formats: Formats::KNOWN };

#[tokio::test]
async fn a_session_of_before_titles_is_listed_with_its_state_when_a_turn_of_it_ends() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    drop(Database::open_of(&path, FIRST).unwrap());
    two_sessions(&folder).await;
    // As the first program left them: it knew of no title and no state.
    let database = Database::open(&path).unwrap();
    database.tamper("UPDATE sessions SET title = NULL, state = NULL, turns = NULL, parent = NULL");
    drop(database);
    let store = open(&folder);
    let look = async || store.list(&SessionFilter::default(), None).await.unwrap().sessions;
    assert!(look().await.iter().all(|one| one.title.is_none() && one.state.is_none() && one.turns.is_none()));
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let mut end = append(&one, epoch, 3, 1);
    let content = "done".to_owned();
    let finish_reason = FinishReason::Final;
    let fact = Fact::Outcome(Box::new(Ended { content, ..Ended::new(finish_reason) }));
    end.records = vec![Arc::new(Record { fact, ..(*end.records[0]).clone() })];
    assert_eq!(store_one(&store, end).await, Ok(4));
    let seen = look().await;
    let written = seen.iter().find(|seen| seen.session == one).unwrap();
    assert_eq!((written.state, written.turns), (Some(SessionState::Idle), Some(1)), "{written:?}");
    assert!(seen.iter().any(|one| one.state.is_none()), "the other was not written to: {seen:?}");
}

/// What the program before working folders knew.
const FOURTH: Known = Known { steps: &[STEPS[0], STEPS[1], STEPS[2], STEPS[3]], formats: Formats::KNOWN };

#[tokio::test]
async fn a_session_of_before_working_folders_is_listed_without_one_until_it_is_written_to() {
    let folder = TempDir::new().unwrap();
    let path = path(folder.path());
    drop(Database::open_of(&path, FOURTH).unwrap());
    two_sessions(&folder).await;
    let database = Database::open(&path).unwrap();
    database.tamper("UPDATE sessions SET cwd = NULL, created_at = NULL, state = 'idle', turns = 0");
    drop(database);
    let store = open(&folder);
    let look = async || store.list(&SessionFilter::default(), None).await.unwrap().sessions;
    let seen = look().await;
    assert!(seen.iter().all(|one| one.cwd.is_none() && one.created_at.is_none() && one.turns == Some(0)), "{seen:?}");
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let mut next = append(&one, epoch, 3, 1);
    let options = SessionOptions { cwd: Some("/work".to_owned()), ..SessionOptions::default() };
    next.records = vec![Arc::new(Record { fact: Fact::Options(Arc::new(options)), ..(*next.records[0]).clone() })];
    assert_eq!(store_one(&store, next).await, Ok(4));
    let seen = look().await;
    let written = seen.iter().find(|seen| seen.session == one).unwrap();
    assert_eq!(written.cwd.as_deref(), Some("/work"), "{written:?}");
    assert!(written.created_at.is_some(), "the journal was read whole: {written:?}");
}

/// What a program knew before records had formats that change, and what comes behind it.
const ZERO: Known = Known { steps: &[STEPS[0], STEPS[1]], formats: Formats::KNOWN };
const SINCE_ZERO: Known = Known { steps: KNOWN.steps, formats: FROM_ZERO };
const SINCE_ZERO_BROKEN: Known = Known {
    steps: &[STEPS[0], STEPS[1], STEPS[2], Step::Tables("INSERT INTO nowhere VALUES (1)")],
    formats: FROM_ZERO,
};

/// A database of two sessions whose records are of format 0, which there never was.
async fn of_format_zero(folder: &TempDir) {
    drop(Database::open_of(&path(folder.path()), ZERO).unwrap());
    two_sessions(folder).await;
    let database = Database::open(&path(folder.path())).unwrap();
    for (number, id) in [(1, "one"), (2, "two")] {
        let mut change =
            database.statement("UPDATE records SET line = ?3 WHERE session = ?1 AND version = ?2").unwrap();
        for record in append(&session(id), 1, 0, 3).records {
            let line = line_of_zero(&record);
            let version = i64::try_from(record.version).unwrap();
            let values =
                [Value::Number(number), Value::Number(version), Value::Text(line.strip_suffix(b"\n").unwrap())];
            assert_eq!(change.run(&values), Ok(1));
        }
    }
    let newer =
        ["snapshot", "cwd", "created_at", "tenant"].map(|name| format!("ALTER TABLE sessions DROP COLUMN {name};"));
    database.tamper(&format!("{} DROP TABLE deletions; DROP TABLE identity; PRAGMA user_version = 2", newer.concat()));
}

fn lines(database: &Database) -> Vec<String> {
    let mut lines = Vec::new();
    let mut read = database.statement("SELECT line FROM records ORDER BY session, version").unwrap();
    read.each(&[], |row| row.text(0).map(|line| lines.push(String::from_utf8_lossy(line.unwrap()).into_owned())))
        .unwrap();
    lines
}

#[tokio::test]
async fn records_of_an_older_format_are_written_anew_all_of_them_or_none() {
    let folder = TempDir::new().unwrap();
    of_format_zero(&folder).await;
    // One that is damaged stays as it is, and keeps no other from coming along.
    Database::open_of(&path(folder.path()), ZERO)
        .unwrap()
        .tamper("UPDATE records SET line = replace(line, 'begun', 'begxn') WHERE session = 2 AND version = 2");
    let before = lines(&Database::open_of(&path(folder.path()), ZERO).unwrap());
    assert!(before[0].contains("\"kind\":\"begun\""), "{before:?}");
    let refused = Database::open_of(&path(folder.path()), SINCE_ZERO_BROKEN).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert_eq!(lines(&Database::open_of(&path(folder.path()), ZERO).unwrap()), before, "none of them");
    let after = lines(&Database::open_of(&path(folder.path()), SINCE_ZERO).unwrap());
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        let is_damaged = at == 4;
        assert_eq!(before == after, is_damaged, "record {at}");
        assert_eq!(after.contains("\"kind\":\"started\""), !is_damaged, "record {at}");
    }
    // The sums are right: today's program, which knows no format 0, reads it.
    let store = open(&folder);
    let expected: Vec<_> =
        append(&session("one"), 1, 0, 3).records.into_iter().map(|record| record.id.clone()).collect();
    let loaded = store.load(&session("one")).await.unwrap();
    assert_eq!(loaded.into_iter().map(|record| record.id.clone()).collect::<Vec<_>>(), expected);
    assert!(matches!(store.load(&session("two")).await, Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn a_database_that_an_older_program_has_open_is_not_migrated_under_it() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    let options =
        StoreOptions { take_over: false, owner_name: "bob (process 7)".to_owned(), ..StoreOptions::default() };
    let old = SqliteStore::open(&path(folder.path()), options).unwrap() as Arc<dyn SessionStore>;
    let one = session("one");
    let epoch = claim(&old, &one).await;
    let refused = Database::open_of(&path(folder.path()), NEWER).map(drop).unwrap_err();
    let is_busy = |error: &StoreError| matches!(error, StoreError::Busy { owner } if owner.starts_with("bob (process 7), an older program"));
    assert!(is_busy(&refused), "{refused}");
    assert_eq!(store_one(&old, append(&one, epoch, 3, 1)).await, Ok(4), "it goes on");
    old.release(&one, epoch).await;
    let refused = Database::open_of(&path(folder.path()), NEWER).map(drop).unwrap_err();
    assert!(is_busy(&refused), "also between two claims: {refused}");
    drop(old);
    assert_eq!(titles(&Database::open_of(&path(folder.path()), NEWER).unwrap()).unwrap(), ["old", "old"]);
}

#[tokio::test]
async fn s14_a_program_that_had_the_database_open_writes_nothing_after_a_newer_one_migrated_it() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    let (old, one) = (open(&folder), session("one"));
    assert_eq!(old.load(&one).await.unwrap().len(), 3, "it has claimed nothing and reads");
    drop(Database::open_of(&path(folder.path()), NEWER).unwrap());
    let too_new = StoreError::TooNew { found: 11, known: 10 };
    assert_eq!(old.claim(&one).await, Err(too_new.clone()));
    assert_eq!(store_one(&old, append(&one, 1, 3, 1)).await, Err(too_new.clone()));
    assert_eq!(old.delete(&one).await, Err(too_new.clone()));
    assert_eq!(old.load(&one).await, Err(too_new.clone()));
    assert_eq!(old.list(&SessionFilter::default(), None).await, Err(too_new));
    drop(old);
    assert_eq!(lines(&Database::open_of(&path(folder.path()), NEWER).unwrap()).len(), 6);
}
