//! A worker beside a store that does not answer, and beside a predecessor that did not live to settle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::approvals::{ApprovalsMode, Decision};
use bob::events::AgentEvent;
use bob::inbox::{
    Due, Inbox, InboxEntry, InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest, Submitter, Worker,
};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::RequestId;
use bob::store::{Claim, MemoryStore, Part, Record, SessionStore, StoreError};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, SessionId};
use futures_util::future::{BoxFuture, FutureExt, pending};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::pass_on::pass_on;
use crate::support::runtime::{Nothing, asking, build, over, session, within};

/// A store whose inbox does not say what is due.
struct Silent {
    store: Arc<MemoryStore>,
    inbox: Arc<SilentInbox>,
}

struct SilentInbox {
    inbox: Arc<dyn Inbox>,
    asked: Notify,
}

impl SessionStore for Silent {
    pass_on!(store: claim, load, append, release, list, delete);

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(Arc::clone(&self.inbox) as Arc<dyn Inbox>)
    }
}

impl Inbox for SilentInbox {
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inbox.put(message)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
        self.inbox.take(session)
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inbox.settle(key, refusal)
    }

    fn standing(&self, key: InboxKey) -> BoxFuture<'_, Result<InboxStanding, StoreError>> {
        self.inbox.standing(key)
    }

    fn due<'a>(&'a self, _: usize, _: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
        self.asked.notify_one();
        pending().boxed()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.inbox.woken()
    }
}

#[tokio::test]
async fn a_worker_ends_while_its_store_does_not_answer() {
    let store = MemoryStore::new();
    let inbox = Arc::new(SilentInbox { inbox: store.inbox().unwrap(), asked: Notify::new() });
    let silent = Arc::new(Silent { store, inbox: Arc::clone(&inbox) });
    let runtime = build(over(ScriptedLlm::replies(vec![])).store(silent.clone())).await;
    let until = CancellationToken::new();
    let works = tokio::spawn(Worker::new(runtime, silent).unwrap().run(until.clone()));
    within(inbox.asked.notified()).await;
    until.cancel();
    within(works).await.unwrap();
}

/// A store that counts how often a whole journal is read.
struct Counted {
    store: Arc<MemoryStore>,
    loads: AtomicUsize,
}

impl SessionStore for Counted {
    pass_on!(store: claim, append, release, list, delete);

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.store.claim_latest(session)
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.store.load(session)
    }

    fn load_part<'a>(
        &'a self,
        session: &'a SessionId,
        part: Part,
    ) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.store.load_part(session, part)
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        self.store.inbox()
    }
}

#[tokio::test]
async fn a_decision_that_the_journal_has_is_done_and_another_one_is_refused() {
    let store = MemoryStore::new();
    let counted = Arc::new(Counted { store: store.clone(), loads: AtomicUsize::new(0) });
    let (one, inbox) = (session("one"), store.inbox().unwrap());
    let submitter = Submitter::new(Arc::clone(&store) as Arc<dyn SessionStore>).unwrap();
    let model = ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages).contains("written") {
        true => ScriptedReply::text("done"),
        false => ScriptedReply::call("test/writes", serde_json::json!({})),
    });
    let writes = tool("test/writes", "Writes.", |_: Nothing, _| async { Ok(ToolOutput::text("written")) });
    let runtime = build(asking(model).store(counted.clone()).tools(Arc::new(writes))).await;
    let until = CancellationToken::new();
    let works = tokio::spawn(Worker::new(runtime, counted.clone()).unwrap().run(until.clone()));
    let submit = SubmitRequest {
        parts: vec![ContentPart::text("write it")],
        approvals: Some(ApprovalsMode::Wait),
        ..SubmitRequest::default()
    };
    let submit = InboxRequest::Submit(Box::new(submit));
    let mut turn = submitter.put(InboxMessage::new(one.clone(), RequestId::new("r"), 1, submit)).await.unwrap();
    let approval = within(async {
        loop {
            let event = turn.next_event().await.unwrap().expect("it asks before it ends");
            if let AgentEvent::ApprovalRequested { approval_id, .. } = event.event {
                break approval_id;
            }
        }
    })
    .await;
    let decide = async |name: &str, decision: Decision| {
        let request = InboxRequest::Decide { approval: approval.clone(), decision };
        inbox.put(InboxMessage::new(one.clone(), RequestId::new(name), 1, request)).await.unwrap();
        within(submitter.taken(&one, &RequestId::new(name))).await
    };
    assert_eq!(decide("d", Decision::AllowOnce).await, Ok(()));
    assert_eq!(within(turn.outcome()).await.unwrap().content, "done");
    // As of a worker that did not live to remove it.
    assert_eq!(decide("d", Decision::AllowOnce).await, Ok(()));
    assert_eq!(counted.loads.load(Ordering::SeqCst), 0, "a session may be long");
    let other = decide("other", Decision::Deny { reason: "no".to_owned() }).await;
    assert!(matches!(&other, Err(AgentError::Invalid(why)) if why.contains("no such question")), "{other:?}");
    assert_eq!(counted.loads.load(Ordering::SeqCst), 1, "it may have been decided long ago");
    until.cancel();
    within(works).await.unwrap();
}
