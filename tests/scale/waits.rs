//! What waits costs the database little: those who wait for an outcome are told of it, and those who read what others write
//! share their looks.

use crate::scale::database::{Alone, Database};
use crate::support::runtime::{build, over, session, within};
use bob::events::EventsFrom;
use bob::inbox::{InboxMessage, InboxRequest, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::{CancellationToken, RequestId};
use bob::store::{PostgresStore, SessionStore, StoreOptions};
use bob::{AgentRuntime, SessionId};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const HOW_MANY: usize = 100;

fn open(database: &Alone<'_>) -> Arc<dyn SessionStore> {
    PostgresStore::open(&database.url(), StoreOptions::default()).unwrap()
}

fn submit(session: &SessionId) -> InboxMessage {
    let submit = SubmitRequest { parts: vec![ContentPart::text("hi")], ..SubmitRequest::default() };
    InboxMessage::new(session.clone(), RequestId::new("r"), 1, InboxRequest::Submit(Box::new(submit)))
}

/// Statements a second while nothing happens. A server that is slow answers fewer, so that this is no more on a busy machine.
async fn a_second(database: &Alone<'_>) -> f64 {
    // What came before is counted by then.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, began) = (database.commits(), Instant::now());
    tokio::time::sleep(Duration::from_secs(5)).await;
    (database.commits() - before) as f64 / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_that_wait_for_an_outcome_cost_less_than_a_statement_a_second_each_and_are_told_of_it() {
    let Some(beside) = Database::new("a_hundred_that_wait_for_an_outcome") else { return };
    let database = beside.alone();
    let (store, submitter) = {
        let store = open(&database);
        (Arc::clone(&store), Submitter::new(store).unwrap())
    };
    let mut waiting = JoinSet::new();
    for number in 0..HOW_MANY {
        let mut pending = submitter.put(submit(&session(&format!("s{number}")))).await.unwrap();
        waiting.spawn(async move { pending.outcome().await.unwrap().content });
    }
    let asked = a_second(&database).await;
    println!("{HOW_MANY} that wait: {asked:.1} statements a second");
    assert!(asked < HOW_MANY as f64, "{asked} statements a second");
    // Another process runs them.
    let model = ScriptedLlm::from_fn(|_request| ScriptedReply::text("hello"));
    let others = open(&database);
    let worker = Worker::new(build(over(model).store(Arc::clone(&others))).await, others).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    while let Some(outcome) = within(waiting.join_next()).await {
        assert_eq!(outcome.unwrap(), "hello");
    }
    until.cancel();
    within(works).await.unwrap();
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_idle_readers_of_a_process_cost_as_much_as_a_few() {
    let Some(beside) = Database::new("a_hundred_idle_readers_of_a_process") else { return };
    let database = beside.alone();
    let model = || ScriptedLlm::from_fn(|_request| ScriptedReply::text("hello"));
    let writes = build(over(model()).store(open(&database))).await;
    let reads = build(over(model()).store(open(&database))).await;
    let (mut readers, mut sessions) = (Vec::new(), Vec::new());
    within(writes.run(bob::AgentRequest::text(session("first"), "hi"))).await.unwrap();
    for number in 0..HOW_MANY {
        let one = session(&format!("s{number}"));
        readers.push(reads.subscribe(one.clone(), EventsFrom::Now).await.unwrap());
        sessions.push(one);
    }
    let mut read = JoinSet::new();
    for mut events in readers {
        read.spawn(async move { events.next().await.unwrap().unwrap().session_id.clone() });
    }
    let asked = a_second(&database).await;
    println!("{HOW_MANY} idle readers: {asked:.1} statements a second");
    assert!(asked < 0.4 * HOW_MANY as f64, "{asked} statements a second");
    // What another process writes is read all the same.
    for one in &sessions {
        within(writes.run(bob::AgentRequest::text(one.clone(), "hi"))).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(of) = within(read.join_next()).await {
        seen.push(of.unwrap().unwrap());
    }
    seen.sort();
    sessions.sort();
    assert_eq!(seen, sessions);
    for runtime in [writes, reads] {
        runtime.shutdown().await;
    }
}
