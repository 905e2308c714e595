//! Owners whose connections break are not taken for dead.

use super::database::{connected, schema};
use super::*;

/// What has the locks of owners in a schema, in a query of `pg_locks`.
const LOCKS: &str = "locktype = 'advisory' AND objid > 0
    AND classid = (hashtext('bob:' || current_schema())::bigint & 4294967295)::oid";

fn cut_the_lock_of(name: &str) -> String {
    format!(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {LOCKS} AND granted
         AND objid = (SELECT number::oid FROM bob_nodes WHERE name = '{name}')"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_connection_broke_has_its_sessions_still() {
    // On a machine that keeps the owner from running for a third of a second, it is taken for dead, and nothing is lost.
    for _round in 0..10 {
        let Some(schema) = schema("an_owner_whose_connection_broke_has_its_sessions_still") else { return };
        let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
        claim(&ann, &one).await;
        claim(&ben, &session("other")).await;
        // Just renewed: the next renewal in the usual time comes too late.
        let renewed = "SELECT renewed_at::text FROM bob_nodes WHERE name = 'ann'";
        let before = schema.one(renewed);
        schema.until(renewed, |now| now != before).await;
        schema.run(&cut_the_lock_of("ann"));
        match ben.claim(&one).await {
            Err(StoreError::Busy { owner }) => {
                assert_eq!(owner, "ann");
                return;
            }
            Ok(_taken) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("it was taken for dead each time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_server_has_still_is_taken_when_it_is_free() {
    let Some(schema) = schema("a_lock_that_the_server_has_still") else { return };
    let (ann, one) = (schema.open("ann", false), session("one"));
    claim(&ann, &one).await;
    // Takes the place of a connection of which the server does not notice that it broke.
    let other = connected(&schema.url()).await;
    let take = "SELECT pg_advisory_lock(hashtext('bob:' || current_schema()), (SELECT number FROM bob_nodes))";
    let taken = tokio::spawn(async move {
        other.batch_execute(take).await.unwrap();
        other
    });
    let count = |which: &str| format!("SELECT count(*)::text FROM pg_locks WHERE {LOCKS} AND {which}");
    schema.until(&count("NOT granted"), |waiting| waiting == "1").await;
    schema.run(&cut_the_lock_of("ann"));
    let other = taken.await.unwrap();
    for _renewal in 0..2 {
        let renewed = "SELECT renewed_at::text FROM bob_nodes";
        let before = schema.one(renewed);
        schema.until(renewed, |now| now != before).await;
    }
    drop(other);
    schema.until(&count("granted"), |held| held == "1").await;
    let ben = schema.open("ben", false);
    assert_eq!(ben.claim(&one).await, Err(StoreError::Busy { owner: "ann".to_owned() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_taken_from_a_process_that_stands_still() {
    let Some(schema) = schema("a_session_is_taken_from_a_process_that_stands_still") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let epoch = claim(&ann, &one).await;
    claim(&ben, &session("other")).await;
    // As if it had not renewed its lease: it renews it, or goes on under another row, within a second.
    schema.run("UPDATE bob_nodes SET dead = true WHERE name = 'ann'");
    assert_eq!(ben.take(&one).await.unwrap().map(|owner| owner.name), Some("ann".to_owned()));
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 1)).await, Err(StoreError::Fenced { epoch: epoch + 1 }));
    assert_eq!(ben.owner(&one).await, Ok(None));
    assert_eq!(ben.claim(&one).await.unwrap().epoch, epoch + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_processes_see_what_each_of_them_counts() {
    let Some(schema) = schema("all_processes_see_what_each_of_them_counts") else { return };
    let (ann, ben) = (schema.open("ann", false), schema.open("ben", false));
    let counted = NodeFigures { ended: 7, failed: 1, turn_p99_us: 6_000_000, ..NodeFigures::default() };
    ann.tell_figures(Arc::new(move || counted));
    claim(&ann, &session("one")).await;
    schema.until("SELECT coalesce(max(figures), '') FROM bob_nodes", |figures| !figures.is_empty()).await;
    let figures = async || ben.overview().await.unwrap().unwrap().nodes[0].figures;
    assert_eq!(figures().await, Some(counted));
    drop(ann);
    // It renews its row no more.
    schema.until("SELECT dead::text FROM bob_nodes WHERE name = 'ann'", |dead| dead == "true").await;
    schema.run(r#"UPDATE bob_nodes SET figures = '{"ended": 8, "newer": 1}'"#);
    assert_eq!(figures().await, Some(NodeFigures { ended: 8, ..NodeFigures::default() }), "of a newer program");
    schema.run("UPDATE bob_nodes SET figures = 'other'");
    assert_eq!(figures().await, None);
}
