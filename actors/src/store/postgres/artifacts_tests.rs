//! Large parts in the database: the rules of all stores, what two transactions do at once, and what a process leaves behind.

use super::database::{Schema, connected, is_there, schema, within};
use super::*;
use bob_messages::artifact::ArtifactId;
use tokio_postgres::Client;

fn port(store: &Arc<dyn SessionStore>) -> Arc<dyn ArtifactStorePort> {
    store.artifacts().expect("it keeps artifacts")
}

async fn put(store: &Arc<dyn SessionStore>, session: &SessionId, content: &[u8]) -> ArtifactId {
    port(store).put(session, Arc::new(content.to_vec())).await.unwrap()
}

async fn ids(store: &Arc<dyn SessionStore>, session: &SessionId) -> Vec<ArtifactId> {
    port(store).list(session).await.unwrap().into_iter().map(|stored| stored.id).collect()
}

/// How many contents and pieces there are.
fn kept(schema: &Schema) -> String {
    schema.one("SELECT (SELECT count(*) FROM bob_artifacts) || ' ' || (SELECT count(*) FROM bob_artifact_pieces)")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_artifacts_are_kept() {
    if !is_there("the_rules_of_artifacts_are_kept") {
        return;
    }
    let opened = Mutex::new(Vec::new());
    let make = || {
        let schema = schema("the_rules_of_artifacts_are_kept").unwrap();
        let store = schema.open("test", false);
        let artifacts = port(&store);
        opened.lock().unwrap().push((store, schema));
        artifacts
    };
    crate::store::contract::artifacts(make).await.assert();
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_read_across_its_pieces_and_gone_with_the_last_session() {
    let Some(schema) = schema("content_is_read_across_its_pieces") else { return };
    let (store, one, two) = (schema.open("ann", false), session("one"), session("two"));
    assert_eq!(port(&store).list(&one).await, Ok(Vec::new()));
    assert_eq!(port(&store).delete_all(&one).await, Ok(0));
    assert_eq!(schema.tables(), "", "what only reads creates no tables");
    for one in [&one, &two] {
        let epoch = claim(&store, one).await;
        store.release(one, epoch).await;
    }
    let piece = 1 << 20;
    let content: Vec<u8> = (0..2 * piece + 10_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let id = put(&store, &one, &content).await;
    assert_eq!(kept(&schema), "1 3");
    let (piece, end) = (u64::from(piece), content.len() as u64);
    for (start, end) in [(piece - 3, piece + 3), (piece, 2 * piece), (0, end), (2 * piece + 9, end), (end, end + 1)] {
        let read = port(&store).get(&one, &id, start..end).await.unwrap().unwrap();
        let expected = &content[start as usize..content.len().min(end as usize)];
        assert!(read == expected, "bytes {start} to {end}: {} of them", read.len());
    }
    port(&store).share(&one, &two, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(kept(&schema), "1 3", "a copy is none");
    assert_eq!(store.delete(&one).await, Ok(true));
    assert_eq!(port(&store).get(&one, &id, 0..end).await, Ok(None));
    assert!(port(&store).get(&two, &id, 0..end).await.unwrap().unwrap() == content);
    // As a program of the version before these tables does it.
    schema.run("DELETE FROM bob_sessions WHERE id = 'two'");
    assert_eq!((ids(&store, &two).await, kept(&schema)), (Vec::new(), "0 0".to_owned()));
}

/// A connection, and its number in lists of the server.
async fn other(schema: &Schema) -> (Client, i32) {
    let client = connected(&schema.url()).await;
    let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    (client, pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_remove_the_last_holders_at_once_one_removes_the_content() {
    let Some(schema) = schema("of_two_that_remove_the_last_holders_at_once") else { return };
    let (store, one, two) = (schema.open("ann", false), session("one"), session("two"));
    let id = put(&store, &one, b"shared").await;
    port(&store).share(&one, &two, &[id]).await.unwrap();
    let ((first, _), (second, pid)) = (other(&schema).await, other(&schema).await);
    first.batch_execute("BEGIN; DELETE FROM bob_artifact_holders WHERE session = 'one'").await.unwrap();
    let removed =
        tokio::spawn(
            async move { second.batch_execute("DELETE FROM bob_artifact_holders WHERE session = 'two'").await },
        );
    let waits =
        format!("SELECT coalesce(wait_event_type = 'Lock', false)::text FROM pg_stat_activity WHERE pid = {pid}");
    schema.until(&waits, |waits| waits == "true").await;
    first.batch_execute("COMMIT").await.unwrap();
    within(removed).await.unwrap().unwrap();
    assert_eq!(kept(&schema), "0 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_removed_meanwhile_is_not_given() {
    let Some(schema) = schema("content_that_is_removed_meanwhile") else { return };
    let (store, one, two) = (schema.open("ann", false), session("one"), session("two"));
    let gone = put(&store, &one, b"gone").await;
    let stays = put(&store, &one, b"stays").await;
    let (other, _) = other(&schema).await;
    let delete = format!("BEGIN; DELETE FROM bob_artifact_holders WHERE id = '{gone}'");
    other.batch_execute(&delete).await.unwrap();
    let (given, named) = (port(&store), [gone, stays.clone()]);
    let (from, to) = (one.clone(), two.clone());
    let share = async move || given.share(&from, &to, &named).await;
    let shared = tokio::spawn({
        let share = share.clone();
        async move { share().await }
    });
    let waits = "SELECT count(*)::text FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
                 WHERE l.locktype = 'transactionid' AND NOT l.granted AND a.query LIKE 'INSERT INTO bob_artifact_holders%'";
    schema.until(waits, |waiting| waiting != "0").await;
    other.batch_execute("COMMIT").await.unwrap();
    // On a busy machine it may have been given up before.
    if within(shared).await.unwrap().is_err() {
        share().await.unwrap();
    }
    assert_eq!((ids(&store, &two).await, kept(&schema)), (vec![stays], "1 1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_whose_connection_breaks_is_made_again_and_leaves_nothing_behind() {
    let Some(schema) = schema("a_put_whose_connection_breaks") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    put(&store, &one, b"first").await;
    let (other, _) = other(&schema).await;
    other.batch_execute("BEGIN; LOCK TABLE bob_artifact_pieces IN SHARE MODE").await.unwrap();
    let (given, named) = (port(&store), one.clone());
    let again = async move || given.put(&named, Arc::new(b"second".to_vec())).await;
    let putting = tokio::spawn({
        let again = again.clone();
        async move { again().await }
    });
    let end = "SELECT count(pg_terminate_backend(l.pid))::text FROM pg_locks l
               WHERE NOT l.granted AND l.relation = 'bob_artifact_pieces'::regclass";
    schema.until(end, |ended| ended != "0").await;
    other.batch_execute("COMMIT").await.unwrap();
    // On a busy machine it may have been given up before.
    let id = match within(putting).await.unwrap() {
        Ok(id) => id,
        Err(_given_up) => again().await.unwrap(),
    };
    assert_eq!(port(&store).get(&one, &id, 0..99).await, Ok(Some(b"second".to_vec())));
    assert_eq!(kept(&schema), "2 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_has_put_and_not_recorded_is_kept_until_nothing_is_known_of_it() {
    let Some(schema) = schema("what_a_process_has_put_and_not_recorded") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let (left, named) = (put(&ann, &one, b"left").await, put(&ann, &one, b"named").await);
    let recorded = put(&ann, &one, b"recorded").await;
    port(&ann).recorded(&one, std::slice::from_ref(&recorded)).await;
    drop(ann);
    // It renews its row no more.
    schema.until("SELECT dead::text FROM bob_nodes WHERE name = 'ann'", |dead| dead == "true").await;
    let all = [left.clone(), named.clone(), recorded.clone()];
    assert_eq!(port(&ben).unrecorded(9).await, Ok(Vec::new()), "it may go on, as far as is known");
    port(&ben).delete_unrecorded(&one, &all).await.unwrap();
    port(&ben).delete(&one, &all[..2]).await.unwrap();
    assert_eq!(ids(&ben, &one).await.len(), 3);
    schema.run("DELETE FROM bob_nodes WHERE name = 'ann'");
    let mut both = vec![left.clone(), named.clone()];
    both.sort();
    assert_eq!(port(&ben).unrecorded(9).await, Ok(vec![(one.clone(), both)]));
    assert_eq!(port(&ben).unrecorded(1).await.unwrap()[0].1.len(), 1);
    // A record that names one of them was found meanwhile.
    port(&ben).recorded(&one, std::slice::from_ref(&named)).await;
    port(&ben).delete_unrecorded(&one, &all).await.unwrap();
    let mut stay = vec![named, recorded];
    stay.sort();
    assert_eq!((ids(&ben, &one).await, kept(&schema)), (stay, "2 2".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_enters_again_takes_along_what_it_has_put() {
    let Some(schema) = schema("a_process_that_enters_again_takes_along") else { return };
    let (ann, one) = (schema.open("ann", false), session("one"));
    claim(&ann, &one).await;
    put(&ann, &one, b"not recorded").await;
    schema.run("UPDATE bob_nodes SET dead = true");
    let of = "SELECT (h.node = n.number AND NOT n.dead)::text FROM bob_artifact_holders h, bob_nodes n ORDER BY n.number DESC LIMIT 1";
    schema.until(of, |is_of_the_new_row| is_of_the_new_row == "true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stands_still_in_a_put_does_not_keep_its_rows_locked() {
    let Some(schema) = schema("a_process_that_stands_still_in_a_put") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    put(&store, &one, b"first").await;
    schema.run(
        "CREATE TABLE seen (timeout text);
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO seen VALUES (current_setting('idle_in_transaction_session_timeout')); RETURN NULL; END $$;
         CREATE TRIGGER see AFTER INSERT ON bob_artifact_pieces FOR EACH ROW EXECUTE FUNCTION see()",
    );
    put(&store, &one, b"second").await;
    assert_eq!(schema.one("SELECT string_agg(timeout, ' ') FROM seen"), "15s");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_is_not_put() {
    let Some(schema) = schema("what_nobody_waits_for_any_more") else { return };
    let (store, one) = (PostgresStore::open(&schema.url(), StoreOptions::default()).unwrap(), session("one"));
    let put = |content: &[u8], is_waited_for: bool| {
        let (reply, answer) = Reply::channel();
        let answer = is_waited_for.then_some(answer);
        let write = contents::Write::Put(one.clone(), ArtifactId::of(content), Arc::new(content.to_vec()), reply);
        let at = tokio::time::Instant::now();
        store.ways.as_ref().unwrap().artifacts.send(contents::Sent { write, at }).unwrap();
        answer
    };
    assert!(put(b"given up", false).is_none());
    assert_eq!(within(put(b"waited for", true).unwrap()).await, Some(Ok(())));
    let listed = store.artifacts().unwrap().list(&one).await.unwrap();
    assert_eq!(listed.iter().map(|stored| &stored.id).collect::<Vec<_>>(), [&ArtifactId::of(b"waited for")]);
}
