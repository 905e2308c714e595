//! The store keeps the contract, survives what happens to databases, and says so in a sentence.

#[path = "postgres/artifacts_tests.rs"]
mod artifacts_tests;
#[path = "postgres/database_tests.rs"]
mod database;
#[path = "postgres/fixtures_tests.rs"]
mod fixtures;
#[path = "postgres/inbox_tests.rs"]
mod inbox_tests;
#[path = "postgres/listing_tests.rs"]
mod listing;
#[path = "postgres/migration_tests.rs"]
mod migration;
#[path = "postgres/node_tests.rs"]
mod node_tests;
#[path = "postgres/outage_tests.rs"]
mod outage;
#[path = "postgres/plans_tests.rs"]
mod plans;
#[path = "postgres/pooler_tests.rs"]
mod pooler;
#[path = "postgres/pools_tests.rs"]
mod pools;
#[path = "postgres/refused_tests.rs"]
mod refused;
#[path = "postgres/waits_tests.rs"]
mod waits;

use super::*;
use crate::store::contract::{append, claim, session, store_one, stored};
use database::{Schema, is_there, open_in, schema};
use tempfile::TempDir;

fn make(rule: &str) -> Option<(Arc<dyn SessionStore>, Schema)> {
    let schema = schema(rule)?;
    Some((schema.open("test", false), schema))
}

crate::store_contract!(@each where_there make);
crate::store_inbox_contract!(@each where_there make);
crate::store_owners_contract!(@each where_there (open_in, is_there));

#[tokio::test]
async fn nothing_before_the_last_snapshot_is_read() {
    let Some((store, _guard)) = make("nothing_before_the_last_snapshot_is_read") else { return };
    crate::store::contract::nothing_before_the_last_snapshot_is_read(store).await;
}

#[tokio::test]
async fn a_paused_owner_is_busy_and_fenced_when_it_goes_on() {
    let test = concat!(module_path!(), "::a_paused_owner_is_busy_and_fenced_when_it_goes_on");
    if is_there(test) {
        let folder = TempDir::new().unwrap();
        crate::store::contract::a_paused_owner_is_busy_and_fenced_when_it_goes_on(test, folder.path(), open_in).await;
    }
}

#[tokio::test]
async fn s1_what_was_acknowledged_survives_a_kill_at_any_time() {
    let test = concat!(module_path!(), "::s1_what_was_acknowledged_survives_a_kill_at_any_time");
    if is_there(test) {
        let folder = TempDir::new().unwrap();
        let kill = crate::store::contract::s1_what_was_acknowledged_survives_a_kill_at_any_time;
        kill(test, folder.path(), open_in, |_folder| {}).await;
    }
}

#[tokio::test]
async fn a_store_that_only_reads_creates_no_tables() {
    let Some(schema) = schema("a_store_that_only_reads_creates_no_tables") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    assert_eq!(store.load(&one).await, Ok(Vec::new()));
    assert_eq!(store.list(&SessionFilter::default(), None).await, Ok(SessionPage::default()));
    assert_eq!(store.delete(&one).await, Ok(false));
    store.release(&one, 1).await;
    assert_eq!(store_one(&store, append(&one, 1, 0, 1)).await, Err(StoreError::Fenced { epoch: 0 }));
    assert_eq!(schema.tables(), "");
    claim(&store, &one).await;
    assert_eq!(
        schema.tables(),
        "bob_artifact_holders bob_artifact_pieces bob_artifacts bob_inbox bob_meta bob_nodes bob_records bob_sessions"
    );
    let reader = schema.open("ben", false);
    assert_eq!(reader.list(&SessionFilter::default(), None).await.unwrap().sessions.len(), 1);
}

#[tokio::test]
async fn a_reader_that_was_first_sees_the_tables_that_another_process_creates() {
    let Some(schema) = schema("a_reader_that_was_first") else { return };
    let (reader, one) = (schema.open("ann", false), session("one"));
    assert_eq!(reader.load(&one).await, Ok(Vec::new()));
    let writer = schema.open("ben", false);
    let first = append(&one, claim(&writer, &one).await, 0, 2);
    assert_eq!(store_one(&writer, first.clone()).await, Ok(2));
    assert_eq!(reader.load(&one).await, Ok(first.records));
}

#[tokio::test]
async fn processes_that_begin_at_once_create_the_tables_once() {
    let Some(schema) = schema("processes_that_begin_at_once") else { return };
    let opened = (0..8).map(|number| schema.open(&format!("p{number}"), false)).collect::<Vec<_>>();
    let claimed =
        opened.iter().enumerate().map(async |(number, store)| store.claim(&session(&format!("s{number}"))).await);
    for claimed in join_all(claimed).await {
        assert_eq!(claimed.unwrap().version, 0);
    }
    assert_eq!(schema.one("SELECT count(*)::text FROM bob_nodes"), "8");
}

#[tokio::test]
async fn what_another_owner_wrote_meanwhile_is_looked_at_again() {
    let Some(schema) = schema("what_another_owner_wrote_meanwhile") else { return };
    let (ann, one) = (schema.open("ann", false), session("one"));
    let epoch = claim(&ann, &one).await;
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 2)).await, Ok(2));
    // A second connection of the same owner: what the first one knows of the session is old.
    schema.run("UPDATE bob_sessions SET version = version + 1; INSERT INTO bob_records SELECT session, 3, line FROM bob_records WHERE version = 2");
    let conflict = Err(StoreError::Conflict { version: 3 });
    let answer = store_one(&ann, append(&one, epoch, 2, 0)).await;
    assert_eq!(answer, conflict);
    schema.run("UPDATE bob_sessions SET version = 2; DELETE FROM bob_records WHERE version = 3");
    assert_eq!(store_one(&ann, append(&one, epoch, 2, 1)).await, Ok(3));
}

#[tokio::test]
async fn damage_sets_one_session_aside_and_blocks_no_other() {
    let Some(schema) = schema("damage_sets_one_session_aside") else { return };
    let (store, one, two) = (schema.open("ann", false), session("one"), session("two"));
    for session in [&one, &two] {
        let epoch = claim(&store, session).await;
        assert_eq!(store_one(&store, append(session, epoch, 0, 3)).await, Ok(3));
        store.release(session, epoch).await;
    }
    schema.run("UPDATE bob_records SET line = replace(line, 'scripted', 'scribbled') WHERE version = 2 AND session = (SELECT number FROM bob_sessions WHERE id = 'one')");
    let what = store.load(&one).await.unwrap_err().to_string();
    assert!(what.contains("session one in") && what.contains("record 2: its checksum does not match"), "{what}");
    assert!(matches!(store.claim(&one).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(store.claim(&one).await, Err(StoreError::Corrupt(_))), "it stays so");
    let page = store.list(&SessionFilter::default(), None).await.unwrap();
    assert_eq!(page.quarantined.len(), 1);
    assert_eq!(page.quarantined[0].0, "one");
    assert_eq!(page.sessions.len(), 1);
    assert_eq!(stored(&store, &two).await.len(), 3);
    schema.run(
        "DELETE FROM bob_records WHERE version = 1 AND session = (SELECT number FROM bob_sessions WHERE id = 'two')",
    );
    let what = store.load(&two).await.unwrap_err().to_string();
    assert!(what.contains("record 1: it is record 2 of two"), "{what}");
    assert_eq!(store.delete(&one).await, Ok(true), "a damaged session can be deleted");
    assert_eq!(store.claim(&one).await.unwrap().version, 0);
}
