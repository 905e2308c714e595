//! Messages to sessions of pools of machines, and a worker in none of them.

use std::sync::Arc;

use bob::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::{Change, OptionsPatch, PoolName, RequestId};
use bob::store::{Fact, MemoryStore, Session, SessionStore};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, SessionId};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::runtime::{Nothing, build, over, session, within};

fn gpu() -> PoolName {
    PoolName::parse("gpu").unwrap()
}

fn message(session: &SessionId, name: &str, request: InboxRequest) -> InboxMessage {
    InboxMessage::new(session.clone(), RequestId::new(name), 1, request)
}

fn submit(text: &str, pool: Option<PoolName>) -> InboxRequest {
    let parts = vec![ContentPart::text(text)];
    InboxRequest::Submit(Box::new(SubmitRequest { parts, pool, ..SubmitRequest::default() }))
}

/// A change of options that binds a session.
fn bind() -> InboxRequest {
    let patch = OptionsPatch { pool: Change::Set(gpu()), ..OptionsPatch::default() };
    InboxRequest::Configure { patch: Box::new(patch) }
}

async fn standing(store: &MemoryStore, session: &SessionId, request: &str) -> InboxStanding {
    let key = InboxKey { session: session.clone(), request: RequestId::new(request) };
    store.inbox().unwrap().standing(key).await.unwrap()
}

#[tokio::test]
async fn a_session_that_is_bound_while_a_turn_runs_has_its_next_turn_in_that_pool() {
    let (store, let_go) = (MemoryStore::new(), Arc::<Notify>::default());
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages.last()).contains("go") {
        true => ScriptedReply::call("test/waits", json!({})),
        false => ScriptedReply::text("fine"),
    });
    let waits = tool("test/waits", "Waits.", {
        let let_go = Arc::clone(&let_go);
        move |_: Nothing, _| {
            let let_go = Arc::clone(&let_go);
            async move {
                let_go.notified().await;
                Ok(ToolOutput::text("waited"))
            }
        }
    });
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let runtime = build(over(model).store(store.clone()).tools(Arc::new(waits))).await;
    let worker = Worker::new(runtime, store.clone()).unwrap().concurrency(1);
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    let (one, other) = (session("one"), session("other"));
    let mut first = submitter.put(message(&one, "r1", submit("go", None))).await.unwrap();
    // It is in force from the next turn on.
    submitter.put(message(&one, "bind", bind())).await.unwrap();
    within(submitter.taken(&one, &RequestId::new("bind"))).await.unwrap();
    submitter.put(message(&one, "r2", submit("hi", None))).await.unwrap();
    let mut behind = submitter.put(message(&other, "r", submit("hi", None))).await.unwrap();
    let_go.notify_one();
    assert_eq!(within(first.outcome()).await.unwrap().content, "fine");
    // The worker has one place: it is done with the other session.
    assert_eq!(within(behind.outcome()).await.unwrap().content, "fine");
    assert_eq!(standing(&store, &one, "r2").await, InboxStanding::Waiting);
    let records = store.load(&one).await.unwrap();
    assert_eq!(records.iter().filter(|record| matches!(record.fact, Fact::Input(_))).count(), 1);
    until.cancel();
    within(works).await.unwrap();
}

/// The binding is the first record of the session, and the tenant's as well.
#[tokio::test]
async fn a_message_of_a_tenant_begins_a_session_in_a_pool_that_is_the_tenants() {
    let store = MemoryStore::in_pools([gpu()].into_iter().collect());
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap().of_tenant("acme").unwrap();
    let model = ScriptedLlm::from_fn(|_| ScriptedReply::text("fine"));
    let worker = Worker::new(build(over(model).store(store.clone())).await, store.clone()).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    let one = session("one");
    for name in ["r1", "r2"] {
        let mut waits = submitter.put(message(&one, name, submit("hi", Some(gpu())))).await.unwrap();
        assert_eq!(within(waits.outcome()).await.unwrap().content, "fine", "{name}");
    }
    let folded = Session::fold(one.clone(), &store.load(&one).await.unwrap());
    assert_eq!(folded.tenant, Some("acme".into()));
    assert_eq!(folded.latest_options().pool, Some(gpu()));
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_worker_outside_of_a_pool_forgets_its_messages_that_were_cancelled() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("fine")]);
    let worker = Worker::new(build(over(model).store(store.clone())).await, store.clone()).unwrap();
    let (until, r1) = (CancellationToken::new(), RequestId::new("r1"));
    let works = tokio::spawn(worker.run(until.clone()));
    let bound = session("bound");
    submitter.put(message(&bound, "bind", bind())).await.unwrap();
    within(submitter.taken(&bound, &RequestId::new("bind"))).await.unwrap();
    for (session, pool) in [(session("new"), Some(gpu())), (bound, None)] {
        let mut waits = submitter.put(message(&session, "r1", submit("hi", pool))).await.unwrap();
        submitter.cancel(&session, &r1, 1).await.unwrap();
        let error = within(waits.outcome()).await.unwrap_err();
        assert!(matches!(&error, AgentError::Stopped(why) if why.contains("before its turn began")), "{error}");
        within(submitter.taken(&session, &Submitter::cancellation_of(&r1))).await.unwrap();
        let records = store.load(&session).await.unwrap();
        assert!(!records.iter().any(|record| matches!(record.fact, Fact::Input(_))));
    }
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_message_for_an_empty_pool_is_withdrawn_without_a_worker() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let (one, r1) = (session("one"), RequestId::new("r1"));
    let mut waits = submitter.put(message(&one, "r1", submit("hi", Some(gpu())))).await.unwrap();
    submitter.put(message(&one, "r2", submit("hi", None))).await.unwrap();
    submitter.cancel(&one, &r1, 1).await.unwrap();
    assert_eq!(within(submitter.cancelled(&one, &r1)).await, Ok(None));
    assert_eq!(within(waits.outcome()).await.unwrap_err().kind(), "stopped");
    assert_eq!(standing(&store, &one, "cancel-r1").await, InboxStanding::Gone);
    assert_eq!(standing(&store, &one, "r2").await, InboxStanding::Waiting);
}
