//! What several processes do with one inbox.

use super::database::{Schema, schema, within};
use super::*;
use crate::store::Due;
use crate::store::contract::{append, claim, session, store_one};
use bob_messages::chat::ContentPart;
use bob_messages::ids::RequestId;
use bob_messages::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest};
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
    inbox(store).due(100, &BTreeSet::new()).await.unwrap().into_iter().map(|due| due.session).collect()
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
    let given = within(async {
        loop {
            let given = inbox(&ben).due(100, &BTreeSet::new()).await.unwrap();
            if !given.is_empty() {
                break given;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let given = given.await;
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
    // Two that choose the same new session at once may both leave it to the next look.
    let mut given = vec![BTreeSet::new(); stores.len()];
    within(async {
        while given.iter().map(BTreeSet::len).sum::<usize>() < sessions.len() {
            let looks = stores.iter().zip(&given).map(|(store, known)| inbox_due(store, known));
            let found = join_all(looks).await;
            given.iter_mut().zip(found).for_each(|(known, due)| known.extend(due));
        }
    })
    .await;
    assert_eq!(given.iter().map(BTreeSet::len).sum::<usize>(), sessions.len(), "each to one");
    assert_eq!(given.into_iter().flatten().collect::<BTreeSet<_>>(), sessions);
}

/// The sessions that are due for this process, which has the known ones.
async fn inbox_due(store: &Arc<dyn SessionStore>, known: &BTreeSet<SessionId>) -> Vec<SessionId> {
    let due = inbox(store).due(15, known).await.unwrap();
    due.into_iter().map(|due| due.session).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_owned_session_is_due_for_its_owner_alone() {
    let Some(schema) = schema("a_message_to_an_owned_session") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let epoch = claim(&ann, &one).await;
    assert_eq!(inbox(&ben).put(message(&one, "r")).await, Ok(true));
    assert_eq!(due(&ben).await, []);
    let given = inbox(&ann).due(1, &BTreeSet::new()).await.unwrap();
    assert_eq!(given[..], [Due { session: one.clone(), epoch: Some(epoch), mark: given[0].mark }]);
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

/// Waits until a process whose row is dead has another one.
async fn lapsed(schema: &Schema, name: &str) {
    let number = format!("SELECT max(number)::text FROM bob_nodes WHERE name = '{name}'");
    let before = schema.one(&number);
    schema.until(&number, |now| now != before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_over_does_not_come_back_for_a_session_that_was_taken() {
    for end in ["dead = true", "expires_at = clock_timestamp() - interval '1 second'"] {
        let Some(schema) = schema("a_lease_that_was_over_does_not_come_back") else { return };
        let (ann, ben) = (schema.open("ann", false), schema.open("ben", false));
        let (taken, kept) = (session("taken"), session("kept"));
        assert!(!ann.lease(&kept).is_held(Instant::now()), "it owns nothing");
        let (of_taken, of_kept) = (claim(&ann, &taken).await, claim(&ann, &kept).await);
        assert!(ann.lease(&kept).is_held(Instant::now()) && ann.lease(&taken).is_held(Instant::now()));
        assert!(!ann.lease(&session("other")).is_held(Instant::now()));
        schema.run(&format!(
            "UPDATE bob_nodes SET {end} WHERE name = 'ann';
             INSERT INTO bob_nodes (name, address, expires_at) VALUES ('cyd', '', clock_timestamp() + interval '1 hour');
             UPDATE bob_sessions SET epoch = epoch + 1, node = (SELECT max(number) FROM bob_nodes) WHERE id = 'taken'"
        ));
        lapsed(&schema, "ann").await;
        within(async {
            while !ann.lease(&kept).is_held(Instant::now()) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        assert!(!ann.lease(&taken).is_held(Instant::now()), "{end}: another process has it");
        let late = store_one(&ann, append(&taken, of_taken, 0, 1)).await;
        assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
        assert_eq!(store_one(&ann, append(&kept, of_kept, 0, 1)).await, Ok(1), "nobody took it");
        assert_eq!(ben.claim(&kept).await, Err(StoreError::Busy { owner: "ann".to_owned() }));
        ann.release(&kept, of_kept).await;
        assert!(!ann.lease(&kept).is_held(Instant::now()), "it was given back");
        assert!(ben.claim(&kept).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_does_not_take_its_own_sessions_from_itself() {
    let Some(schema) = schema("a_process_does_not_take_its_own_sessions") else { return };
    let (ann, works) = (schema.open("ann", false), session("works"));
    let mut epoch = open(&ann, &works).await;
    let number = || schema.one("SELECT max(number)::text FROM bob_nodes");
    for end in ["dead = true", "expires_at = clock_timestamp() - interval '1 second'"] {
        // A process that enters again in the middle has its sessions under a row of which it is not told yet.
        loop {
            let before = number();
            schema.until("SELECT node::text FROM bob_sessions", |node| node == before).await;
            schema.run(&format!("UPDATE bob_nodes SET {end} WHERE name = 'ann'"));
            let given = inbox(&ann).due(100, &BTreeSet::new()).await.unwrap();
            if number() == before {
                assert_eq!(given.iter().map(|due| due.epoch).collect::<Vec<_>>(), [Some(epoch)], "{end}");
                break;
            }
            epoch = claim(&ann, &works).await;
        }
        lapsed_to(&schema, "works").await;
        let known = BTreeSet::from([works.clone()]);
        assert_eq!(inbox(&ann).due(100, &known).await, Ok(Vec::new()), "{end}");
        let given = inbox(&ann).due(100, &BTreeSet::new()).await.unwrap();
        assert_eq!(given.iter().map(|due| due.epoch).collect::<Vec<_>>(), [Some(epoch)], "{end}");
    }
    assert_eq!(store_one(&ann, append(&works, epoch, 1, 1)).await, Ok(2), "it is not fenced");
}

/// Waits until the row of a session's owner is one that lives.
async fn lapsed_to(schema: &Schema, session: &str) {
    let lives = format!(
        "SELECT (NOT n.dead AND n.expires_at > clock_timestamp())::text FROM bob_sessions s JOIN bob_nodes n ON n.number = s.node
         WHERE s.id = '{session}'"
    );
    schema.until(&lives, |lives| lives == "true").await;
}

/// A row of an owner without a process, whose lease lasts so long, and which owns this session.
fn owned_by(schema: &Schema, session: &str, lasts: &str) {
    schema.run(&format!(
        "INSERT INTO bob_nodes (name, address, expires_at) VALUES ('gone', '', clock_timestamp() + interval '{lasts}');
         UPDATE bob_sessions SET node = (SELECT max(number) FROM bob_nodes) WHERE id = '{session}'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_sessions_were_taken_is_dead_for_good() {
    for takes_by_claim in [false, true] {
        let Some(schema) = schema("an_owner_whose_sessions_were_taken_is_dead") else { return };
        let (ben, one) = (schema.open("ben", false), session("one"));
        let epoch = open(&ben, &one).await;
        // Past the 3 s that an owner has behind a start of the server.
        let started = "SELECT (clock_timestamp() > pg_postmaster_start_time() + interval '3 seconds')::text";
        schema.until(started, |past| past == "true").await;
        owned_by(&schema, "one", "-1 second");
        match takes_by_claim {
            true => assert!(claim(&ben, &one).await > epoch),
            false => assert_eq!(due(&ben).await, std::slice::from_ref(&one)),
        }
        assert_eq!(schema.one("SELECT dead::text FROM bob_nodes WHERE name = 'gone'"), "true", "{takes_by_claim}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_a_damaged_session_are_given_to_be_refused() {
    let Some(schema) = schema("messages_to_a_damaged_session") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let epoch = open(&ann, &one).await;
    ann.release(&one, epoch).await;
    schema.run("UPDATE bob_sessions SET damage = 'line 1 is none'");
    assert_eq!(due(&ben).await, [], "nothing can be done with it");
    assert_eq!(inbox(&ann).put(message(&one, "r")).await, Ok(true));
    for _again_when_the_answer_was_lost in 0..2 {
        assert_eq!(due(&ben).await, std::slice::from_ref(&one));
    }
    let why = bob_messages::error::AgentError::Store(StoreError::Corrupt("line 1 is none".to_owned()));
    let r = InboxKey { session: one.clone(), request: RequestId::new("r") };
    assert_eq!(inbox(&ben).settle(r, Some(why)).await, Ok(true));
    assert_eq!(due(&ben).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_at_once_is_bounded_and_its_cancellations_are_not() {
    let Some(schema) = schema("what_is_taken_at_once_is_bounded") else { return };
    let (ann, one) = (schema.open("ann", false), session("one"));
    for request in ["r0", "r1", "r2"] {
        assert_eq!(inbox(&ann).put(message(&one, request)).await, Ok(true));
    }
    // Spaces behind a message are no part of it.
    schema.run("UPDATE bob_inbox SET message = message || repeat(' ', 33554432)");
    let cancel = InboxRequest::Cancel { of: RequestId::new("r2") };
    let cancel = InboxMessage::new(one.clone(), RequestId::new("cancel-r2"), 1, cancel);
    assert_eq!(inbox(&ann).put(cancel).await, Ok(true));
    let taken = async || -> Vec<String> {
        let taken = within(inbox(&ann).take(&one)).await.unwrap();
        taken.iter().map(|entry| entry.request_id.to_string()).collect()
    };
    assert_eq!(taken().await, ["r0", "r1", "cancel-r2"]);
    let r0 = InboxKey { session: one.clone(), request: RequestId::new("r0") };
    assert_eq!(inbox(&ann).settle(r0, None).await, Ok(true));
    assert_eq!(taken().await, ["r1", "r2", "cancel-r2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_in_an_answer_that_was_lost_is_given_again() {
    let Some(schema) = schema("what_was_given_in_an_answer_that_was_lost") else { return };
    let (ann, ben, one, two) = (schema.open("ann", false), schema.open("ben", false), session("one"), session("two"));
    let epoch = open(&ann, &one).await;
    ann.release(&one, epoch).await;
    assert_eq!(inbox(&ann).put(message(&two, "r")).await, Ok(true));
    let lost = inbox(&ben).due(100, &BTreeSet::new()).await.unwrap();
    assert_eq!(lost.len(), 2, "{lost:?}");
    let again = inbox(&ben).due(100, &BTreeSet::new()).await.unwrap();
    assert_eq!(again, lost, "an open turn without messages among them");
    assert_eq!(due(&ann).await, [], "they are owned");
    for due in again {
        ben.release(&due.session, due.epoch.unwrap()).await;
    }
    assert_eq!(due(&ann).await.len(), 2, "its epoch gives a session back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_session_that_another_process_owns_is_not_refused() {
    let Some(schema) = schema("a_message_of_a_session_that_another_process_owns") else { return };
    let (ann, ben, one) = (schema.open("ann", false), schema.open("ben", false), session("one"));
    let r = || InboxKey { session: one.clone(), request: RequestId::new("r") };
    assert_eq!(inbox(&ben).put(message(&one, "r")).await, Ok(true));
    let epoch = claim(&ann, &one).await;
    claim(&ben, &session("other")).await;
    let why = bob_messages::error::AgentError::Invalid("no such model".to_owned());
    assert_eq!(inbox(&ben).settle(r(), Some(why.clone())).await, Ok(false));
    assert_eq!(inbox(&ben).standing(r()).await, Ok(InboxStanding::Waiting));
    ann.release(&one, epoch).await;
    assert_eq!(inbox(&ben).settle(r(), Some(why.clone())).await, Ok(true));
    assert_eq!(inbox(&ben).standing(r()).await, Ok(InboxStanding::Refused(Box::new(why))));
    schema.run("UPDATE bob_inbox SET put_at = put_at - interval '2 days'");
    assert_eq!(due(&ben).await, []);
    assert!(matches!(inbox(&ben).standing(r()).await, Ok(InboxStanding::Refused(_))), "it was refused just now");
    schema.run("UPDATE bob_inbox SET refused_at = refused_at - interval '2 days'");
    assert_eq!(due(&ben).await, []);
    assert_eq!(inbox(&ben).standing(r()).await, Ok(InboxStanding::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_version_before_is_brought_up_once_and_loses_nothing() {
    let Some(schema) = schema("a_database_of_the_version_before") else { return };
    before(&schema);
    let stores = (0..4).map(|number| schema.open(&format!("p{number}"), false)).collect::<Vec<_>>();
    let r = InboxKey { session: session("old"), request: RequestId::new("r") };
    assert_eq!(inbox(&stores[0]).take(&session("old")).await, Ok(Vec::new()), "it has no inbox yet");
    assert_eq!(inbox(&stores[0]).standing(r).await, Ok(InboxStanding::Gone));
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
