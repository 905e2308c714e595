//! What several processes do with one inbox.

use super::database::{Schema, schema, within};
use super::*;
use crate::store::Due;
use crate::store::contract::{append, claim, session, store_one};
use bob_messages::chat::ContentPart;
use bob_messages::ids::RequestId;
use bob_messages::inbox::{InboxMessage, InboxRequest, SubmitRequest};
use std::collections::BTreeSet;
use std::time::Instant;

fn message(session: &SessionId, request: &str) -> InboxMessage {
    let submit = SubmitRequest { parts: vec![ContentPart::text("hi")], ..SubmitRequest::default() };
    InboxMessage::new(session.clone(), RequestId::new(request), 1, InboxRequest::Submit(Box::new(submit)))
}

fn inbox(store: &Arc<dyn SessionStore>) -> Arc<dyn Inbox> {
    store.inbox().unwrap()
}

async fn due(store: &Arc<dyn SessionStore>) -> Vec<SessionId> {
    inbox(store).due(100).await.unwrap().into_iter().map(|due| due.session).collect()
}

/// A session with an open turn, of this owner.
async fn open(store: &Arc<dyn SessionStore>, session: &SessionId) -> u64 {
    let epoch = claim(store, session).await;
    assert_eq!(store_one(store, append(session, epoch, 0, 1)).await, Ok(1));
    epoch
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_owner_left_open_is_given_to_one_process() {
    let Some(schema) = schema("what_a_dead_owner_left_open") else { return };
    let (ann, ben, cyd) = (schema.open("ann", false), schema.open("ben", false), schema.open("cyd", false));
    let one = session("one");
    let epoch = open(&ann, &one).await;
    claim(&ann, &session("idle")).await;
    assert_eq!(due(&ben).await, [], "its owner lives");
    drop(ann);
    let given = inbox(&ben).due(100).await.unwrap();
    assert_eq!(given.len(), 1, "the one with an open turn: {given:?}");
    assert_eq!(given[0].session, one);
    assert!(given[0].epoch.is_some_and(|new| new > epoch), "{given:?}");
    assert_eq!(due(&cyd).await, [], "it is another process's");
    assert_eq!(cyd.claim(&one).await, Err(StoreError::Busy { owner: "ben".to_owned() }));
    ben.release(&one, given[0].epoch.unwrap()).await;
    assert_eq!(due(&cyd).await, [one], "a turn that was given back is open still");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_killed_process_are_due_before_its_lease_is_over() {
    let Some(schema) = schema("sessions_of_a_killed_process_are_due") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    open(&ann, &one).await;
    claim(&ben, &session("other")).await;
    // A row of an owner without a lock, as a kill leaves it, and a lease that lasts.
    schema.run(
        "INSERT INTO bob_nodes (name, address, expires_at) VALUES ('killed', '', clock_timestamp() + interval '1 hour');
         UPDATE bob_sessions SET node = (SELECT number FROM bob_nodes WHERE name = 'killed') WHERE id = 'one'",
    );
    within(async {
        while due(&ben).await != [one.clone()] {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(schema.one("SELECT dead::text FROM bob_nodes WHERE name = 'killed'"), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_processes_that_look_at_once_each_session_is_given_to_one() {
    let Some(schema) = schema("of_processes_that_look_at_once") else { return };
    let stores = (0..4).map(|number| schema.open(&format!("p{number}"), false)).collect::<Vec<_>>();
    let sessions: BTreeSet<_> = (0..40).map(|number| session(&format!("s{number}"))).collect();
    for (number, one) in sessions.iter().enumerate() {
        assert_eq!(inbox(&stores[0]).put(message(one, "r")).await, Ok(true));
        if number % 2 == 0 {
            // One that exists already.
            let epoch = open(&stores[1], one).await;
            stores[1].release(one, epoch).await;
        }
    }
    let given = join_all(stores.iter().map(|store| async move { inbox(store).due(15).await.unwrap() })).await;
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for given in given {
        count += given.len();
        all.extend(given.into_iter().map(|due| due.session));
    }
    assert_eq!((count, all), (40, sessions));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_owned_session_is_due_for_its_owner_alone() {
    let Some(schema) = schema("a_message_to_an_owned_session") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let epoch = claim(&ann, &one).await;
    assert_eq!(inbox(&ben).put(message(&one, "r")).await, Ok(true));
    assert_eq!(due(&ben).await, []);
    let given = inbox(&ann).due(0).await.unwrap();
    assert_eq!(given, [Due { session: one.clone(), epoch: None }]);
    assert_eq!(store_one(&ann, append(&one, epoch, 0, 1)).await, Ok(1), "its owner is not fenced by looking");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_another_process_wakes() {
    let Some(schema) = schema("a_message_of_another_process_wakes") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    assert_eq!(inbox(&ann).put(message(&one, "first")).await, Ok(true));
    let listening = inbox(&ben);
    // The first one says that it listens from now on.
    within(listening.woken()).await;
    let woken = tokio::spawn(async move { listening.woken().await });
    let (inbox, mut number) = (inbox(&ann), 0);
    within(async {
        while !woken.is_finished() {
            assert_eq!(inbox.put(message(&one, &format!("r{number}"))).await, Ok(true));
            number += 1;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_taken_for_dead_holds_no_lease_until_it_enters_again() {
    let Some(schema) = schema("a_process_that_was_taken_for_dead") else { return };
    let (ann, one) = (schema.open("ann", false), session("one"));
    assert!(!ann.lease().is_held(Instant::now()), "it owns nothing");
    claim(&ann, &one).await;
    assert!(ann.lease().is_held(Instant::now()));
    schema.run("UPDATE bob_nodes SET dead = true");
    within(async {
        while ann.lease().is_held(Instant::now()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    claim(&ann, &one).await;
    assert!(ann.lease().is_held(Instant::now()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_version_before_is_brought_up_once_and_loses_nothing() {
    let Some(schema) = schema("a_database_of_the_version_before") else { return };
    before(&schema);
    let stores = (0..4).map(|number| schema.open(&format!("p{number}"), false)).collect::<Vec<_>>();
    assert_eq!(
        stores[0].list(&SessionFilter::default(), None).await.unwrap().sessions.len(),
        1,
        "it can be read before"
    );
    let claimed =
        join_all(stores.iter().enumerate().map(async |(number, store)| {
            store.claim(&session(&format!("new{number}"))).await.map(|claim| claim.version)
        }));
    assert_eq!(claimed.await, [Ok(0), Ok(0), Ok(0), Ok(0)]);
    assert_eq!(stores[0].claim(&session("old")).await.map(|claim| claim.version), Ok(0), "it was there");
    assert_eq!(schema.one("SELECT version::text FROM bob_meta"), schema::STEPS.len().to_string());
    assert_eq!(inbox(&stores[1]).put(message(&session("old"), "r")).await, Ok(true));
}

/// The tables as the version before this made them.
fn before(schema: &Schema) {
    schema.run("CREATE TABLE bob_meta (application text PRIMARY KEY, version integer NOT NULL)");
    schema.run(schema::STEPS[0]);
    schema.run(
        "INSERT INTO bob_meta VALUES ('bob', 1);
         INSERT INTO bob_sessions (id, epoch, version, bytes, updated_at) VALUES ('old', 1, 0, 0, 1)",
    );
}
