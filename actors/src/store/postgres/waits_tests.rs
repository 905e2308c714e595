//! What another transaction has locked or deletes at the same time.

use super::database::{Schema, connected, schema, within};
use super::*;
use tokio_postgres::Client;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_another_transaction_has_locked_holds_up_no_other() {
    let Some(schema) = schema("a_session_that_another_transaction_has_locked") else { return };
    let store = schema.open("ann", false);
    let sessions: Vec<_> = (0..8).map(|number| session(&format!("s{number}"))).collect();
    let mut batch = Vec::new();
    for one in &sessions {
        batch.push(append(one, claim(&store, one).await, 0, 1));
    }
    let first = batch[0].clone();
    let other = connected(&schema.url()).await;
    other.batch_execute("BEGIN; UPDATE bob_sessions SET node = node WHERE id = 's0'").await.unwrap();
    let mut answers = within(store.append(batch)).await;
    let why = answers.remove(0).unwrap_err();
    assert!(matches!(why, StoreError::Unavailable(_)), "nothing was stored: {why:?}");
    assert!(why.to_string().contains("has session s0 locked by another transaction; try again"), "{why}");
    assert_eq!(answers, vec![Ok(1); 7]);
    let why = within(store.claim(&sessions[0])).await.unwrap_err().to_string();
    assert!(why.contains("lock timeout"), "{why}");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store_one(&store, first).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_another_transaction_has_locked_end_an_append() {
    let Some(schema) = schema("tables_that_another_transaction_has_locked") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    let first = append(&one, claim(&store, &one).await, 0, 1);
    let other = connected(&schema.url()).await;
    other.batch_execute("BEGIN; LOCK TABLE bob_sessions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let answer = within(store_one(&store, first.clone())).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store_one(&store, first).await, Ok(1));
}

/// Deletes all sessions while something else reads the records of one: it has read the row.
async fn delete_meanwhile(schema: &Schema, other: &Client) {
    let waiting = "SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'bob_records'::regclass";
    schema.until(waiting, |count| count != "0").await;
    other.batch_execute("DELETE FROM bob_records; DELETE FROM bob_sessions; COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_while_the_records_are_read_is_no_damage() {
    let Some(schema) = schema("a_deletion_while_the_records_are_read") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    let other = connected(&schema.url()).await;
    let lock = "BEGIN; LOCK TABLE bob_records IN ACCESS EXCLUSIVE MODE";

    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 3)).await, Ok(3));
    other.batch_execute(lock).await.unwrap();
    let (loaded, ()) = tokio::join!(within(store.load(&one)), delete_meanwhile(&schema, &other));
    assert_eq!(loaded, Ok(Vec::new()));

    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 3)).await, Ok(3));
    other.batch_execute(lock).await.unwrap();
    let (claimed, ()) = tokio::join!(within(store.claim(&one)), delete_meanwhile(&schema, &other));
    let claimed = claimed.unwrap();
    assert_eq!((claimed.version, claimed.records.len()), (0, 0));
    assert!(claimed.epoch > epoch);
    assert_eq!(store_one(&store, append(&one, claimed.epoch, 0, 1)).await, Ok(1));
}
