//! Sessions that are bound to pools of machines, and limits that processes share.

use super::database::{Schema, run, schema, within};
use super::*;
use crate::store::StoreNode;
use crate::store::contract::{append, claim, session, store_one};
use bob_messages::ids::{PoolName, RequestId};
use bob_messages::inbox::{InboxMessage, InboxRequest, SubmitRequest};
use bob_messages::options::SessionOptions;
use bob_messages::share::Share;
use std::collections::BTreeSet;

fn pool(name: &str) -> PoolName {
    PoolName::parse(name).unwrap()
}

fn open_in(schema: &Schema, owner: &str, pools: Pools) -> Arc<dyn SessionStore> {
    let options = StoreOptions { owner_name: owner.to_owned(), pools, ..StoreOptions::default() };
    PostgresStore::open(&schema.url(), options).unwrap()
}

async fn put(store: &Arc<dyn SessionStore>, session: &SessionId, name: &str, pool: Option<PoolName>) {
    let request = InboxRequest::Submit(Box::new(SubmitRequest { pool, ..SubmitRequest::default() }));
    let message = InboxMessage::new(session.clone(), RequestId::new(name), 1, request);
    assert_eq!(store.inbox().unwrap().put(message).await, Ok(true));
}

async fn due(store: &Arc<dyn SessionStore>, most: usize) -> Vec<SessionId> {
    let due = store.inbox().unwrap().due(most, &BTreeSet::new()).await.unwrap();
    for due in &due {
        store.release(&due.session, due.epoch.unwrap()).await;
    }
    due.into_iter().map(|due| due.session).collect()
}

/// A session that is bound to a pool, and has no owner.
async fn bound(store: &Arc<dyn SessionStore>, session: &SessionId, to: &PoolName, is_open: bool) {
    let epoch = claim(store, session).await;
    let mut append = append(session, epoch, 0, 1 + u64::from(is_open));
    let options = SessionOptions { pool: Some(to.clone()), ..SessionOptions::default() };
    append.records[0] =
        Arc::new(Record { fact: bob_messages::store::Fact::Options(options.into()), ..(*append.records[0]).clone() });
    assert!(store_one(store, append).await.is_ok());
    store.release(session, epoch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_pool_are_due_to_its_processes_alone() {
    let Some(schema) = schema("sessions_of_a_pool_are_due_to_its_processes_alone") else { return };
    let gpu = open_in(&schema, "ann", [pool("gpu"), pool("more")].into_iter().collect());
    let any = open_in(&schema, "ben", Pools::default());
    assert_eq!(gpu.pools(), [pool("gpu"), pool("more")].into_iter().collect());
    let [told, open, new, free] = ["told", "open", "new", "free"].map(session);
    bound(&gpu, &told, &pool("gpu"), false).await;
    bound(&gpu, &open, &pool("gpu"), true).await;
    assert_eq!(due(&any, 10).await, [], "what was left open stays in its pool");
    put(&any, &told, "r", None).await;
    put(&any, &new, "r1", Some(pool("gpu"))).await;
    put(&any, &new, "r2", None).await;
    put(&any, &free, "r", None).await;
    assert_eq!(due(&any, 10).await, std::slice::from_ref(&free));
    let given: BTreeSet<_> = due(&gpu, 10).await.into_iter().collect();
    assert_eq!(given, [open, told, new, free].into(), "with those of no pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_from_outside_names_the_processes_of_the_pool_and_takes_nothing() {
    let Some(schema) = schema("a_claim_from_outside_names_the_processes") else { return };
    let gpu = open_in(&schema, "ann", [pool("gpu")].into_iter().collect());
    let one = session("one");
    bound(&gpu, &one, &pool("gpu"), false).await;
    let epoch = claim(&gpu, &one).await;
    let options = StoreOptions { take_over: true, owner_name: "ben".to_owned(), ..StoreOptions::default() };
    let other: Arc<dyn SessionStore> = PostgresStore::open(&schema.url(), options).unwrap();
    let unreachable = |processes: &[&str]| {
        let processes = processes.iter().map(ToString::to_string).collect();
        StoreError::Unreachable { pool: pool("gpu"), processes }
    };
    assert_eq!(other.claim(&one).await, Err(unreachable(&["ann"])));
    assert_eq!(store_one(&gpu, append(&one, epoch, 1, 1)).await, Ok(2), "it was not taken over");
    put(&other, &one, "r1", None).await;
    put(&other, &session("new"), "r2", Some(pool("big"))).await;
    let seen = other.overview().await.unwrap().unwrap();
    let empty = |seen: &StoreOverview| {
        seen.empty_pools.iter().map(|empty| format!("{} {}", empty.name, empty.waiting)).collect::<Vec<_>>()
    };
    assert_eq!(empty(&seen), ["big 1"]);
    let pools = |node: &StoreNode| (node.name.clone(), node.pools.clone());
    assert!(seen.nodes.iter().map(pools).any(|node| node == ("ann".to_owned(), vec![pool("gpu")])), "{seen:?}");
    drop(gpu);
    let emptied = within(async {
        loop {
            match other.claim(&one).await {
                Err(StoreError::Unreachable { processes, .. }) if !processes.is_empty() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                claimed => break claimed,
            }
        }
    });
    assert_eq!(emptied.await, Err(unreachable(&[])), "the pool is empty");
    let seen = other.overview().await.unwrap().unwrap();
    assert_eq!(empty(&seen), ["big 1", "gpu 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_run_turns_know_how_many_they_are() {
    let Some(schema) = schema("processes_that_run_turns_know_how_many_they_are") else { return };
    let ann = schema.open("ann", false);
    claim(&ann, &session("one")).await;
    assert_eq!(ann.share(), Some(Share { before: 0, processes: 1 }));
    let ben = schema.open("ben", false);
    claim(&ben, &session("two")).await;
    assert_eq!(ben.share(), Some(Share { before: 1, processes: 2 }), "it knows when it begins");
    // It changes a session, and runs no turns.
    let operator = open_in(&schema, "operator", Pools::All);
    claim(&operator, &session("three")).await;
    let becomes = async |store: &Arc<dyn SessionStore>, share: Share| {
        within(async {
            while store.share() != Some(share) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    };
    becomes(&ann, Share { before: 0, processes: 2 }).await;
    drop(ann);
    becomes(&ben, Share { before: 0, processes: 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_nothing_takes_keep_those_behind_them_waiting_once() {
    let Some(schema) = schema("messages_that_nothing_takes_keep_those_behind_them") else { return };
    let (store, free) = (schema.open("ann", false), session("free"));
    claim(&store, &session("one")).await;
    schema.run(
        "INSERT INTO bob_inbox (session, request, message, pool)
             SELECT 's' || number, 'r', '', 'gone' FROM generate_series(1, 12000) number",
    );
    put(&store, &free, "r", None).await;
    let mut looks = Vec::new();
    for _look in 0..6 {
        looks.push(due(&store, 10).await);
    }
    let found = |look: &Vec<SessionId>| *look == [free.clone()];
    assert_eq!(looks.iter().map(found).collect::<Vec<_>>(), [false, false, true, true, true, true]);
    assert!(looks.iter().all(|look| found(look) || look.is_empty()), "{looks:?}");
}

/// How many rows of messages and sessions the statement reads, as PostgreSQL counts them.
fn rows_read(plan: &str) -> u64 {
    let plan: serde_json::Value = serde_json::from_str(plan).unwrap();
    fn of(node: &serde_json::Value) -> u64 {
        let count = |key: &str| node[key].as_f64().unwrap_or_default();
        let own = match node["Relation Name"].as_str() {
            Some("bob_inbox" | "bob_sessions") => {
                (count("Actual Rows") + count("Rows Removed by Filter")) * count("Actual Loops")
            }
            _ => 0.0,
        };
        own as u64 + node["Plans"].as_array().into_iter().flatten().map(of).sum::<u64>()
    }
    of(&plan[0]["Plan"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_reads_few_of_the_messages_that_wait() {
    let Some(schema) = schema("a_look_reads_few_of_the_messages_that_wait") else { return };
    let store = schema.open("ann", false);
    claim(&store, &session("owned")).await;
    // 100,000 messages for 20,000 sessions, of which half exist, and some for one that has an owner.
    schema.run(
        "INSERT INTO bob_sessions (id, epoch, version, bytes, updated_at)
             SELECT 's' || number, 1, 0, 0, 0 FROM generate_series(1, 10000) number;
         INSERT INTO bob_inbox (session, request, message)
             SELECT 'owned', 'r' || number, '' FROM generate_series(1, 1000) number;
         INSERT INTO bob_inbox (session, request, message)
             SELECT 's' || number % 20000, 'r' || number, '' FROM generate_series(1, 100000) number",
    );
    for is_analyzed in [false, true] {
        if is_analyzed {
            schema.run("ANALYZE bob_inbox; ANALYZE bob_sessions");
        }
        // As a statement that was prepared is planned once its values are not looked at any more.
        let look = format!(
            "SET plan_cache_mode = force_generic_plan;
             PREPARE look (integer, bigint, integer, text[], boolean, text[], bigint) AS {};
             BEGIN; EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look (9999, 64, 99, '{{}}', false, '{{}}', 0); ROLLBACK",
            due::FREE
        );
        let explained = run(&schema.url(), &look).unwrap();
        let read = rows_read(&explained);
        assert!(read < 12_000, "{read} rows: {explained}");
    }
}

#[test]
fn a_walk_stays_where_there_is_something_and_begins_again_at_times() {
    let walk = due::Walk::of(Pools::default());
    let places = |looks: &[Option<i64>]| looks.iter().map(|at| walk.next(*at)).collect::<Vec<_>>();
    assert_eq!(places(&[Some(5), Some(9), None, None]), [5, 9, 9, 9]);
    assert_eq!(places(&[None; 98])[96..], [9, 0]);
    assert_eq!(places(&[None, Some(3), None]), [0, 3, 3]);
}
