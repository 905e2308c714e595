//! A database that an older program made is brought up to date, once and wholly.

use super::database::Database;
use super::steps::{APPLICATION, STEPS, Steps};
use super::tests::{open, path};
use super::*;
use crate::store::contract::{append, claim, session, store_one};
use bob_messages::chat::FinishReason;
use bob_messages::session::SessionState;
use bob_messages::store::{Ended, Fact};
use std::fs;
use tempfile::TempDir;

/// What a newer program would know: the released steps, and one more.
const NEWER: Steps =
    &[STEPS[0], STEPS[1], "ALTER TABLE sessions ADD COLUMN newer TEXT; UPDATE sessions SET newer = 'old'"];

/// The same with a step that fails after it has changed something.
const BROKEN: Steps =
    &[STEPS[0], STEPS[1], "ALTER TABLE sessions ADD COLUMN newer TEXT; INSERT INTO nowhere VALUES (1)"];

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
async fn an_older_database_is_migrated_with_all_that_is_in_it() {
    let folder = TempDir::new().unwrap();
    two_sessions(&folder).await;
    let refused = Database::open_to_read_of(&path(folder.path()), NEWER).map(drop).unwrap_err();
    assert!(refused.to_string().contains("up to date"), "who only reads does not migrate: {refused}");
    for _open in 0..2 {
        let database = Database::open_of(&path(folder.path()), NEWER).unwrap();
        assert_eq!(titles(&database).unwrap(), ["old", "old"]);
        assert_eq!(database.check(), "ok");
    }
    let too_new = StoreError::TooNew { found: 3, known: 2 };
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
    let none: Steps = &[];
    let database = Database::open_of(&path, none).unwrap();
    database.tamper(&format!("PRAGMA application_id = {APPLICATION}"));
    drop(database);
    assert!(fs::metadata(&path).unwrap().len() > 0);
    assert_eq!(Database::open(&path).unwrap().check(), "ok");
}

/// What the program before titles knew.
const FIRST: Steps = &[STEPS[0]];

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
    let fact = Fact::Outcome(Ended { finish_reason, guard_reason: None, content, suspended: None, error: None });
    end.records = vec![Arc::new(Record { fact, ..(*end.records[0]).clone() })];
    assert_eq!(store_one(&store, end).await, Ok(4));
    let seen = look().await;
    let written = seen.iter().find(|seen| seen.session == one).unwrap();
    assert_eq!((written.state, written.turns), (Some(SessionState::Idle), Some(1)), "{written:?}");
    assert!(seen.iter().any(|one| one.state.is_none()), "the other was not written to: {seen:?}");
}
