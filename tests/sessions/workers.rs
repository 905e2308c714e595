//! Workers in one process with those whose sessions they share.

use std::sync::{Arc, Mutex};

use bob::inbox::{Inbox, InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId};
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, AgentRequest, AgentRuntime, SessionId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::runtime::{Nothing, build, file_store, over, session, within};
use crate::support::scratch::Scratch;

fn message(session: &SessionId, request: &str, text: &str) -> InboxMessage {
    let submit = SubmitRequest { parts: vec![ContentPart::text(text)], ..SubmitRequest::default() };
    InboxMessage::new(session.clone(), RequestId::new(request), 1, InboxRequest::Submit(Box::new(submit)))
}

async fn standing(inbox: &dyn Inbox, session: &SessionId, request: &RequestId) -> InboxStanding {
    inbox.standing(InboxKey { session: session.clone(), request: request.clone() }).await.unwrap()
}

fn model() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages.last()).contains("stall") {
        true => ScriptedReply::Stall,
        false => ScriptedReply::text("fine"),
    })
}

#[tokio::test]
async fn a_worker_leaves_the_messages_of_a_session_to_its_owner() {
    let folder = Scratch::new();
    let (owned, shared) = (file_store(folder.path()), file_store(folder.path()));
    let (one, r1) = (session("one"), RequestId::new("r1"));
    // Another process runs a turn, as `run` and `chat` do.
    let (cancel, owner) = (CancellationToken::new(), build(over(model()).store(Arc::clone(&owned))).await);
    let asked = AgentRequest {
        request_id: Some(r1.clone()),
        cancel: Some(cancel.clone()),
        ..AgentRequest::text(one.clone(), "stall")
    };
    let running = tokio::spawn({
        let owner = owner.clone();
        async move { owner.run(asked).await }
    });
    within(async {
        while !owned.load(&one).await.is_ok_and(|records| records.len() > 1) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let worker = Worker::new(build(over(model()).store(Arc::clone(&shared))).await, Arc::clone(&shared)).unwrap();
    let (submitter, inbox) = (Submitter::new(Arc::clone(&shared)).unwrap(), shared.inbox().unwrap());
    submitter.cancel(&one, &r1, 1).await.unwrap();
    let steer = InboxRequest::Steer { parts: vec![ContentPart::text("left")] };
    inbox.put(InboxMessage::new(one.clone(), RequestId::new("steer"), 1, steer)).await.unwrap();
    // Which a worker refuses.
    let mut empty = submitter.put(message(&one, "empty", "")).await.unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.concurrency(1).run(until.clone()));
    // Sessions behind it in the order of names have their turn, each in a look of its own.
    for other in ["other", "p", "q"] {
        let mut pending = submitter.put(message(&session(other), "r", "hi")).await.unwrap();
        assert_eq!(within(pending.outcome()).await.unwrap().content, "fine");
    }
    let cancellation = Submitter::cancellation_of(&r1);
    assert_eq!(standing(&*inbox, &one, &cancellation).await, InboxStanding::Waiting, "its owner has not taken it");
    for name in ["steer", "empty"] {
        assert_eq!(standing(&*inbox, &one, &RequestId::new(name)).await, InboxStanding::Waiting, "{name}");
    }
    cancel.cancel();
    assert_eq!(running.await.unwrap().unwrap().response().finish_reason, FinishReason::Cancelled);
    owner.shutdown().await;
    within(submitter.taken(&one, &cancellation)).await.unwrap();
    assert_eq!(within(empty.outcome()).await.unwrap_err().kind(), "invalid");
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_message_is_answered_whether_its_turn_has_begun_or_not() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let (one, r1, r2) = (session("one"), RequestId::new("r1"), RequestId::new("r2"));
    let mut first = submitter.put(message(&one, "r1", "stall")).await.unwrap();
    let mut second = submitter.put(message(&one, "r2", "stall")).await.unwrap();
    submitter.cancel(&one, &r2, 1).await.unwrap();
    let worker = Worker::new(build(over(model()).store(store.clone())).await, store.clone()).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    // Its turn runs.
    within(async { while first.next_event().await.unwrap().is_none() {} }).await;
    submitter.cancel(&one, &r1, 1).await.unwrap();
    let outcome = within(first.outcome()).await.unwrap();
    assert!(outcome.finish_reason == FinishReason::Cancelled && outcome.saved, "{outcome:?}");
    match within(second.outcome()).await {
        Ok(outcome) => assert!(outcome.finish_reason == FinishReason::Cancelled && outcome.saved, "{outcome:?}"),
        Err(error) => assert_eq!(error.kind(), "stopped", "{error}"),
    }
    within(submitter.taken(&one, &Submitter::cancellation_of(&r1))).await.unwrap();
    within(submitter.taken(&one, &Submitter::cancellation_of(&r2))).await.unwrap();
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_message_to_the_turn_that_was_put_behind_its_submission_reaches_it() {
    let store = MemoryStore::new();
    let let_go = Arc::<Notify>::default();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let one = session("one");
    let mut first = submitter.put(message(&one, "r1", "go")).await.unwrap();
    let inbox = store.inbox().unwrap();
    let steer = InboxRequest::Steer { parts: vec![ContentPart::text("to the left")] };
    inbox.put(InboxMessage::new(one.clone(), RequestId::new("steer"), 1, steer)).await.unwrap();
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages).contains("to the left") {
        true => ScriptedReply::text("left it is"),
        false => ScriptedReply::call("test/waits", serde_json::json!({})),
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
    let worker =
        Worker::new(build(over(model).store(store.clone()).tools(Arc::new(waits))).await, store.clone()).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    within(submitter.taken(&one, &RequestId::new("steer"))).await.unwrap();
    let_go.notify_one();
    assert_eq!(within(first.outcome()).await.unwrap().content, "left it is");
    until.cancel();
    within(works).await.unwrap();
}

#[tokio::test]
async fn a_worker_ends_with_its_runtime() {
    let store = MemoryStore::new();
    let runtime = build(over(model()).store(store.clone())).await;
    let works = tokio::spawn(Worker::new(runtime.clone(), store).unwrap().run(CancellationToken::new()));
    runtime.shutdown().await;
    within(works).await.unwrap();
}

/// Runs a worker of one session at a time until this many have ended, and answers which did, in order.
async fn in_order(store: &Arc<MemoryStore>, count: usize, then: impl AsyncFnOnce()) -> Vec<String> {
    let (ended, enough) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Notify>::default());
    let worker = Worker::new(build(over(model()).store(store.clone())).await, store.clone()).unwrap();
    let worker = worker.concurrency(1).telling({
        let (ended, enough) = (Arc::clone(&ended), Arc::clone(&enough));
        move |worked| {
            let mut ended = ended.lock().unwrap();
            let how = if worked.result.is_ok() { "" } else { " refused" };
            ended.push(format!("{} {}{how}", worked.session, worked.request.as_ref().unwrap()));
            if ended.len() == count {
                enough.notify_one();
            }
        }
    });
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    then().await;
    within(enough.notified()).await;
    until.cancel();
    within(works).await.unwrap();
    let ended = ended.lock().unwrap();
    ended.clone()
}

#[tokio::test]
async fn a_session_with_many_messages_leaves_its_place_to_others() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let put = async |name: &str, request: String| submitter.put(message(&session(name), &request, "hi")).await.unwrap();
    put("busy", "r1".to_owned()).await;
    // Behind its name, and in front of all but one of its messages.
    put("zed", "r".to_owned()).await;
    for number in 2..=40 {
        put("busy", format!("r{number}")).await;
    }
    let ended = in_order(&store, 41, async || {}).await;
    let at = ended.iter().position(|one| one == "zed r").unwrap();
    assert!(at <= 9, "{at}: {ended:?}");
}

#[tokio::test]
async fn a_refused_message_that_is_put_again_has_its_place() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let one = session("one");
    let mut refused = submitter.put(message(&one, "r1", "")).await.unwrap();
    let mut other = submitter.put(message(&one, "r1", "")).await.unwrap();
    let mut stalls = submitter.put(message(&one, "r2", "stall")).await.unwrap();
    let ended = in_order(&store, 4, async || {
        // Each of its senders is told.
        for sender in [&mut refused, &mut other] {
            assert!(matches!(within(sender.outcome()).await, Err(AgentError::Invalid(_))));
        }
        // The next turn runs.
        within(async { while stalls.next_event().await.unwrap().is_none() {} }).await;
        let mut again = submitter.put(message(&one, "r1", "hi")).await.unwrap();
        let mut last = submitter.put(message(&one, "r3", "hi")).await.unwrap();
        submitter.cancel(&one, &RequestId::new("r2"), 1).await.unwrap();
        assert_eq!(within(again.outcome()).await.unwrap().content, "fine");
        assert_eq!(within(last.outcome()).await.unwrap().content, "fine");
    });
    assert_eq!(ended.await, ["one r1 refused", "one r2", "one r1", "one r3"]);
}

#[tokio::test]
async fn a_turn_that_was_left_open_and_cancelled_asks_no_model() {
    let store = MemoryStore::new();
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let one = session("one");
    let mut pending = submitter.put(message(&one, "r1", "stall")).await.unwrap();
    let mut waits = submitter.put(message(&one, "r2", "hi")).await.unwrap();
    let builder = || over(model()).store(store.clone()).shutdown_grace(std::time::Duration::from_millis(1));
    let worker = Worker::new(build(builder()).await, store.clone()).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    within(async { while pending.next_event().await.unwrap().is_none() {} }).await;
    until.cancel();
    within(works).await.unwrap();
    submitter.cancel(&one, &RequestId::new("r1"), 1).await.unwrap();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let counts = ScriptedLlm::from_fn({
        let asked = Arc::clone(&asked);
        move |request| {
            asked.lock().unwrap().push(format!("{:?}", request.messages.last()));
            ScriptedReply::text("fine")
        }
    });
    let worker = Worker::new(build(over(counts).store(store.clone())).await, store.clone()).unwrap();
    let until = CancellationToken::new();
    let works = tokio::spawn(worker.run(until.clone()));
    let outcome = within(pending.outcome()).await.unwrap();
    assert!(outcome.finish_reason == FinishReason::Cancelled && outcome.saved, "{outcome:?}");
    assert_eq!(within(waits.outcome()).await.unwrap().content, "fine");
    within(submitter.taken(&one, &Submitter::cancellation_of(&RequestId::new("r1")))).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1, "the message behind it");
    until.cancel();
    within(works).await.unwrap();
}
