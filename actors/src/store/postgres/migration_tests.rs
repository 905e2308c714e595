//! Workers of this version beside one of the last, on a database that the last one made.

use super::database::{connected, schema, within};
use super::*;
use crate::store::encoded::Encoded;
use bob_messages::ids::RequestId;
use bob_messages::inbox::{InboxMessage, InboxRequest};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tokio_postgres::Client;

/// What a program of a version of the tables had stored: the sessions `a` to `d`, of 8 records each, and from the second one on
/// messages to `a` and to `new`.
fn version(number: usize) -> String {
    let file = format!("../tests/fixtures/schemas/postgres-{number}.sql");
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn first_version() -> String {
    version(1)
}

#[test]
fn each_version_that_was_released_has_its_steps_and_no_later_ones() {
    for number in 1..schema::STEPS.len() {
        let fixture = version(number);
        for (step, sql) in schema::STEPS.iter().enumerate() {
            let is_in_it = fixture.contains(sql.trim());
            assert_eq!(
                is_in_it,
                step < number,
                "step {} in version {number}: it was changed, or the fixture",
                step + 1
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_outlive_the_step_to_pools() {
    let Some(schema) = schema("messages_that_wait_outlive_the_step_to_pools") else { return };
    schema.run(&version(2));
    let (ann, ben) = (schema.open("ann", false), schema.open("ben", false));
    assert_eq!(stored(&ann, &session("a")).await.len(), 8, "tables without pools are read");
    assert_eq!(ann.inbox().unwrap().take(&session("a")).await.unwrap().len(), 1);
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "2", "what only reads changes nothing");
    let due = ben.inbox().unwrap().due(10, &BTreeSet::new()).await.unwrap();
    let due: Vec<_> = due.into_iter().map(|due| due.session).collect();
    assert_eq!(due, [session("a"), session("new")]);
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), schema::STEPS.len().to_string());
    assert_eq!(ann.inbox().unwrap().take(&session("new")).await.unwrap().len(), 1);
    assert_eq!(ben.claim(&session("a")).await.unwrap().version, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_messages_outlive_the_step_to_artifacts() {
    let Some(schema) = schema("sessions_and_messages_outlive_the_step_to_artifacts") else { return };
    schema.run(&version(3));
    let (ann, ben, a) = (schema.open("ann", false), schema.open("ben", false), session("a"));
    let artifacts = ann.artifacts().unwrap();
    assert_eq!(stored(&ann, &a).await.len(), 8);
    assert_eq!(artifacts.list(&a).await, Ok(Vec::new()), "tables without artifacts are read");
    assert_eq!(artifacts.unrecorded(9).await, Ok(Vec::new()));
    assert_eq!(ann.overview().await.unwrap().unwrap().waiting, 2);
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "3", "what only reads changes nothing");
    let id = artifacts.put(&a, Arc::new(b"content".to_vec())).await.unwrap();
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), schema::STEPS.len().to_string());
    assert_eq!(ben.artifacts().unwrap().get(&a, &id, 0..9).await, Ok(Some(b"content".to_vec())));
    assert_eq!(ben.claim(&a).await.unwrap().version, 8);
    assert!(matches!(ben.claim(&session("d")).await, Err(StoreError::Unreachable { .. })), "it is bound to a pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_listed_before_and_behind_the_step_to_indexes_of_filters() {
    let Some(schema) = schema("the_same_is_listed_before_and_behind_the_step") else { return };
    schema.run(&version(4));
    // As an operator does before, so that nothing waits for it.
    schema.run(
        "CREATE INDEX CONCURRENTLY bob_sessions_of_tenant ON bob_sessions (tenant, updated_at DESC, id)
         WHERE tenant IS NOT NULL AND damage IS NULL",
    );
    let ann = schema.open("ann", false);
    let listed = async || {
        let of = async |filter: SessionFilter| {
            let page = ann.list(&filter, None).await.unwrap();
            let mut ids: Vec<_> = page.sessions.into_iter().map(|summary| summary.session.to_string()).collect();
            ids.sort_unstable();
            ids.concat()
        };
        let tenant = of(SessionFilter { tenant: Some("acme".into()), ..SessionFilter::default() }).await;
        (tenant, of(SessionFilter { parent: Some(session("a")), ..SessionFilter::default() }).await)
    };
    let expected = ("ab".to_owned(), "c".to_owned());
    assert_eq!(listed().await, expected);
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "4", "what only reads changes nothing");
    ann.claim(&session("b")).await.unwrap();
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), schema::STEPS.len().to_string());
    assert_eq!(listed().await, expected);
}

/// A process of the first version, as far as the database sees it: its row, its lock, and its statements.
struct OldWorker {
    /// Has its lock.
    client: Client,
    number: i32,
}

impl OldWorker {
    async fn enter(url: &str) -> Self {
        let client = connected(url).await;
        let enter = "INSERT INTO bob_nodes (name, address, expires_at)
                     VALUES ('old', '', clock_timestamp() + interval '1 hour') RETURNING number";
        let number: i32 = client.query_one(enter, &[]).await.unwrap().get(0);
        let lock = "SELECT pg_try_advisory_lock(hashtext('bob:' || current_schema()), $1)";
        assert!(client.query_one(lock, &[&number]).await.unwrap().get::<_, bool>(0));
        Self { client, number }
    }

    /// Claims a session. Answers its number, its epoch and its version.
    async fn claim(&self, session: &SessionId) -> (i64, u64, u64) {
        let claim = "UPDATE bob_sessions SET epoch = epoch + 1, node = $2 WHERE id = $1 AND node IS NULL
                     RETURNING number, (number << 20) + epoch, version";
        let row = self.client.query_one(claim, &[&session.as_str(), &self.number]).await.unwrap();
        let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap();
        (row.get(0), count(1), count(2))
    }
}

/// Appends a record as the first version did. Whether it was stored.
async fn append_old(client: &Client, (number, epoch, version): (i64, u64, u64), session: &SessionId) -> bool {
    let encoded = Encoded::of(append(session, epoch, version, 1));
    let line = String::from_utf8(encoded.lines.unwrap().remove(0)).unwrap();
    let statement = "WITH grown AS (UPDATE bob_sessions s SET version = s.version + 1
                         WHERE s.number = $1 AND s.version = $3 AND (s.number << 20) + s.epoch = $2 RETURNING s.number)
                     INSERT INTO bob_records (session, version, line) SELECT number, $3 + 1, $4 FROM grown";
    let (epoch, version) = (epoch as i64, version as i64);
    client.execute(statement, &[&number, &epoch, &version, &line]).await.unwrap() == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_begin_at_once_migrate_once_beside_a_living_owner_of_the_last_version() {
    let Some(schema) = schema("workers_that_begin_at_once_migrate_once") else { return };
    schema.run(&first_version());
    let old = OldWorker::enter(&schema.url()).await;
    let (a, owned) = (session("a"), session("b"));
    let claimed = old.claim(&owned).await;
    let (number, epoch, version) = claimed;

    let workers: Vec<_> = ["ann", "ben", "cid"].map(|name| schema.open(name, false)).to_vec();
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "1", "what only reads changes nothing");
    assert_eq!(stored(&workers[0], &a).await.len(), 8);
    let begun = workers.iter().enumerate().map(async |(number, worker)| {
        let inbox = worker.inbox().unwrap();
        let request = InboxRequest::Cancel { of: RequestId::new("r") };
        let put = |session: &SessionId| {
            inbox.put(InboxMessage::new(session.clone(), RequestId::new(format!("m{number}")), 1, request.clone()))
        };
        assert_eq!(put(&owned).await, Ok(true));
        assert_eq!(put(&session("c")).await, Ok(true));
        worker.claim(&session(&format!("new-{number}"))).await.map(|claim| claim.version)
    });
    // The old process still appends.
    let (begun, is_stored) =
        within(async { tokio::join!(join_all(begun), append_old(&old.client, claimed, &owned)) }).await;
    assert_eq!(begun, vec![Ok(0); 3]);
    assert!(is_stored);
    let meta = "SELECT string_agg(application || ' ' || version, ', ') FROM bob_meta";
    assert_eq!(schema.one(meta), format!("bob {}", schema::STEPS.len()));

    // It owns its session still, and no worker is given it.
    assert_eq!(workers[1].claim(&owned).await, Err(StoreError::Busy { owner: "old".to_owned() }));
    let mut given = Vec::new();
    for worker in &workers {
        let due = worker.inbox().unwrap().due(10, &BTreeSet::new()).await.unwrap();
        given.extend(due.into_iter().map(|due| due.session));
    }
    assert_eq!(given, [session("c")], "for one of them");
    let claimed = (number, epoch, version + 1);
    assert!(append_old(&old.client, claimed, &owned).await, "what it owns, it finishes");

    // It ends; its session is free, with every append that was confirmed.
    let OldWorker { client, .. } = old;
    drop(client);
    let taken = within(async {
        loop {
            match workers[2].claim(&owned).await {
                Err(StoreError::Busy { .. }) => tokio::task::yield_now().await,
                taken => break taken.unwrap(),
            }
        }
    })
    .await;
    assert_eq!((taken.version, taken.records.len()), (version + 2, 10));
    assert!(taken.epoch > epoch);
    let again = connected(&schema.url()).await;
    assert!(!append_old(&again, (number, epoch, version + 2), &owned).await, "it is fenced, should it go on");
    assert_eq!(store_one(&workers[2], append(&owned, taken.epoch, taken.version, 1)).await, Ok(version + 3));
    assert_eq!(workers[2].inbox().unwrap().take(&owned).await.unwrap().len(), 3, "its messages are there");
    for (id, records) in [("a", 8), ("c", 8), ("d", 8)] {
        assert_eq!(stored(&workers[0], &session(id)).await.len(), records, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_ends_in_between_is_made_by_the_next_one() {
    let Some(schema) = schema("a_migration_that_ends_in_between") else { return };
    schema.run(&first_version());
    // Of another program, in the way of the second step.
    schema.run("CREATE TABLE bob_inbox (other text)");
    let ann = schema.open("ann", false);
    let why = ann.claim(&session("a")).await.unwrap_err().to_string();
    assert!(why.contains("bob_inbox"), "{why}");
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "1", "nothing of the step is there");
    schema.run("DROP TABLE bob_inbox");
    let ben = schema.open("ben", false);
    assert_eq!(ben.claim(&session("a")).await.unwrap().version, 8);
    assert_eq!(within(ann.claim(&session("b"))).await.unwrap().version, 8, "the first one goes on, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_renewed_while_a_migration_waits_for_a_reader() {
    let Some(schema) = schema("leases_are_renewed_while_a_migration_waits") else { return };
    schema.run(&version(3));
    let old = OldWorker::enter(&schema.url()).await;
    // As a dump of the database does, to its end.
    let reader = connected(&schema.url()).await;
    reader.batch_execute("BEGIN; LOCK TABLE bob_nodes IN ACCESS SHARE MODE").await.unwrap();
    let ann = schema.open("ann", false);
    let claimed = tokio::spawn(async move { ann.claim(&session("a")).await.map(|claim| claim.version) });
    let waits = "SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'bob_nodes'::regclass";
    // Each time behind the lock that the migration waits for.
    for _ in 0..2 {
        schema.until(waits, |waiting| waiting != "0").await;
        let renew = "SET lock_timeout = '10s'; UPDATE bob_nodes SET renewed_at = clock_timestamp() WHERE name = 'old'";
        old.client.batch_execute(renew).await.unwrap();
    }
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), "3");
    reader.batch_execute("COMMIT").await.unwrap();
    assert_eq!(within(claimed).await.unwrap(), Ok(8));
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), schema::STEPS.len().to_string());
}
