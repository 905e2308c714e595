//! What another transaction has locked or deletes at the same time.

use super::database::{Schema, connected, schema, within};
use super::*;
use bob_messages::store::Claim;
use std::time::Instant;
use tokio::task::JoinHandle;
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
    assert!(why.contains("has session s0 locked by another transaction; try again"), "{why}");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store_one(&store, first).await, Ok(1));
}

/// Has `waiting` wait while the others work, until it waits still when they are done. What waits is given up after some seconds, in
/// which a busy machine may not have done the work: then it is begun again, and so is the work.
async fn beside<T>(waiting: impl Fn() -> JoinHandle<T>, work: impl AsyncFn()) -> JoinHandle<T> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let waiting = waiting();
        within(work()).await;
        if !waiting.is_finished() {
            return waiting;
        }
        assert!(Instant::now() < end, "the work is done once nothing waits");
    }
}

/// A claim, which may have been given up before the session was free.
async fn claimed(
    store: &Arc<dyn SessionStore>,
    session: &SessionId,
    first: JoinHandle<Result<Claim, StoreError>>,
) -> u64 {
    match within(first).await.unwrap() {
        Err(StoreError::Unavailable(_given_up)) => claim(store, session).await,
        claimed => claimed.unwrap().epoch,
    }
}

/// Claims, appends to and releases sessions of which both connections that write have some.
async fn work(store: &Arc<dyn SessionStore>) {
    let sessions: Vec<_> = (0..16).map(|number| session(&format!("s{number}"))).collect();
    let done = join_all(sessions.iter().map(async |one| {
        let claimed = store.claim(one).await.unwrap();
        let next = append(one, claimed.epoch, claimed.version, 2);
        assert_eq!(store_one(store, next).await, Ok(claimed.version + 2));
        store.release(one, claimed.epoch).await;
    }));
    done.await;
}

const LOCK_SLOW: &str = "BEGIN; UPDATE bob_sessions SET node = node WHERE id = 'slow'";

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_a_row_holds_up_no_other_session() {
    let Some(schema) = schema("a_claim_that_waits_for_a_row_holds_up_no_other_session") else { return };
    let store = schema.open("ann", false);
    let (slow, other) = (session("slow"), connected(&schema.url()).await);
    let epoch = claim(&store, &slow).await;
    store.release(&slow, epoch).await;
    other.batch_execute(LOCK_SLOW).await.unwrap();
    let claiming = beside(
        || {
            let (store, slow) = (Arc::clone(&store), slow.clone());
            tokio::spawn(async move { store.claim(&slow).await })
        },
        async || work(&store).await,
    );
    let claiming = claiming.await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(claimed(&store, &slow, claiming).await, epoch + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_waits_for_a_row_holds_up_no_other_session_and_is_done_later() {
    let Some(schema) = schema("a_release_that_waits_for_a_row_holds_up_no_other_session") else { return };
    let (store, ben) = (schema.open("ann", false), schema.open("ben", false));
    let (slow, other) = (session("slow"), connected(&schema.url()).await);
    let epoch = claim(&store, &slow).await;
    other.batch_execute(LOCK_SLOW).await.unwrap();
    let releasing = beside(
        || {
            let (store, slow) = (Arc::clone(&store), slow.clone());
            tokio::spawn(async move { store.release(&slow, epoch).await })
        },
        async || work(&store).await,
    );
    let releasing = releasing.await;
    // What concerns the session itself keeps its order.
    let again = tokio::spawn({
        let (store, slow) = (Arc::clone(&store), slow.clone());
        async move { store.claim(&slow).await }
    });
    other.batch_execute("COMMIT").await.unwrap();
    within(releasing).await.unwrap();
    let again = claimed(&store, &slow, again).await;
    assert_eq!(again, epoch + 1);
    assert_eq!(store_one(&store, append(&slow, again, 0, 1)).await, Ok(1));
    assert_eq!(ben.claim(&slow).await, Err(StoreError::Busy { owner: "ann".to_owned() }), "it is owned again");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_one_session_keep_their_order_beside_each_other() {
    let Some(schema) = schema("jobs_of_one_session_keep_their_order") else { return };
    let store = schema.open("ann", false);
    let rounds = (0..8).map(|number| session(&format!("s{number}"))).map(async |one| {
        let mut epoch = claim(&store, &one).await;
        let mut version = 0;
        for _round in 0..10 {
            // All three are sent before one is answered: the append finds its epoch, and the claim finds the record.
            let mut appending = Box::pin(store_one(&store, append(&one, epoch, version, 1)));
            // The first poll sends it; the thread of the store may answer within that.
            let appended = (&mut appending).now_or_never();
            let appending = async {
                match appended {
                    Some(appended) => appended,
                    None => appending.await,
                }
            };
            let (releasing, claiming) = (store.release(&one, epoch), store.claim(&one));
            let (appended, (), claimed) = tokio::join!(appending, releasing, claiming);
            let claimed = claimed.unwrap();
            version += 1;
            assert_eq!((appended, claimed.version, claimed.epoch), (Ok(version), version, epoch + 1));
            epoch = claimed.epoch;
        }
    });
    within(join_all(rounds)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_is_read_in_parts_and_whole() {
    let Some(schema) = schema("a_long_journal_is_read_in_parts_and_whole") else { return };
    let (store, long) = (schema.open("ann", false), session("long"));
    let epoch = claim(&store, &long).await;
    let many = append(&long, epoch, 0, 3 * tables::RECORDS_AT_ONCE + 1);
    let records = many.records.clone();
    assert_eq!(store_one(&store, many).await, Ok(records.len() as u64));
    assert_eq!(claim_all(&store, &long).await, records);
    assert_eq!(store.load(&long).await, Ok(records.clone()));
    let missing = tables::RECORDS_AT_ONCE + 2;
    schema.run(&format!("DELETE FROM bob_records WHERE version = {missing}"));
    let what = store.load(&long).await.unwrap_err().to_string();
    assert!(what.contains(&format!("record {missing}: it is record {}", missing + 1)), "{what}");
    schema.run(&format!("DELETE FROM bob_records WHERE version > {missing}"));
    let what = store.claim(&long).await.unwrap_err().to_string();
    assert!(what.contains(&format!("{} of {} records are there", missing - 1, records.len())), "{what}");
}

async fn claim_all(store: &Arc<dyn SessionStore>, session: &SessionId) -> Vec<Arc<Record>> {
    store.claim(session).await.unwrap().records
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
