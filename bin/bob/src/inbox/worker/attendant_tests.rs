//! Messages of several sessions, taken for one runtime.

use super::*;
use crate::model::{ContentPart, ScriptedLlm, ScriptedReply};
use crate::store::MemoryStore;
use crate::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder};
use bob_actors::store::Inbox;
use bob_messages::error::AgentError;
use bob_messages::ids::RequestId;
use bob_messages::inbox::{InboxEntry, InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest};
use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Counts what is asked of an inbox, and holds the messages of the session `slow` back.
struct Counted {
    inner: Arc<dyn Inbox>,
    gate: Semaphore,
    looks: AtomicUsize,
    taken: AtomicUsize,
    /// How many want those of `slow` at the moment, and how many did at most.
    slow: AtomicUsize,
    most: AtomicUsize,
}

impl Inbox for Counted {
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.put(message)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        async move {
            if session.as_str() == "slow" {
                let now = 1 + self.slow.fetch_add(1, Ordering::SeqCst);
                self.most.fetch_max(now, Ordering::SeqCst);
                drop(self.gate.acquire().await);
                self.slow.fetch_sub(1, Ordering::SeqCst);
            }
            self.inner.take(session).await
        }
        .boxed()
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.settle(key, refusal)
    }

    fn standing(&self, key: InboxKey) -> BoxFuture<'_, Result<InboxStanding, StoreError>> {
        self.inner.standing(key)
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.inner.due(most, known)
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.inner.woken()
    }
}

/// A turn runs in each of these sessions.
async fn attended(sessions: &[&str]) -> (Arc<Counted>, Attendant) {
    let store = MemoryStore::new();
    let model = ScriptedLlm::from_fn(|_| ScriptedReply::Stall);
    let builder = RuntimeBuilder::new(ModelName::parse("fake:m-1").unwrap()).model(Arc::new(model));
    let runtime = builder.store(store.clone()).build().await.unwrap();
    for one in sessions {
        let (runtime, asked) = (runtime.clone(), AgentRequest::text(SessionId::parse(one).unwrap(), "hi"));
        tokio::spawn(async move { runtime.run(asked).await });
    }
    let inner = store.inbox().unwrap();
    let (looks, taken, slow, most) = Default::default();
    let inbox = Arc::new(Counted { inner, gate: Semaphore::new(0), looks, taken, slow, most });
    let counted: Arc<dyn Inbox> = Arc::clone(&inbox) as _;
    let shared = Arc::new(Shared::new(runtime.clone(), store, counted));
    until(async || {
        runtime.live_sessions(9).await.iter().filter(|live| live.state == LiveState::Running).count() == sessions.len()
    })
    .await;
    (inbox, Attendant { shared })
}

async fn until(is_so: impl AsyncFn() -> bool) {
    let looks = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), looks).await.expect("it comes");
}

impl Counted {
    async fn steer(&self, session: &str, name: &str) {
        self.message(session, name, InboxRequest::Steer { parts: vec![ContentPart::text("left")] }).await;
    }

    async fn message(&self, session: &str, name: &str, request: InboxRequest) {
        let session = SessionId::parse(session).unwrap();
        self.put(InboxMessage::new(session, RequestId::new(name), 1, request)).await.unwrap();
    }

    async fn is_done(&self, session: &str, name: &str) {
        let key = InboxKey { session: SessionId::parse(session).unwrap(), request: RequestId::new(name) };
        until(async || self.standing(key.clone()).await == Ok(InboxStanding::Gone)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_messages_take_long_has_one_task_and_delays_no_other() {
    let (inbox, attendant) = attended(&["slow", "quick"]).await;
    let cancel = CancellationToken::new();
    let attends = tokio::spawn(attendant.run(cancel.clone()));
    inbox.steer("slow", "s").await;
    until(async || inbox.slow.load(Ordering::SeqCst) == 1).await;
    for name in ["q1", "q2", "q3"] {
        inbox.steer("slow", name).await;
        inbox.steer("quick", name).await;
        inbox.is_done("quick", name).await;
    }
    assert_eq!(inbox.most.load(Ordering::SeqCst), 1);
    inbox.gate.add_permits(100);
    for name in ["s", "q1", "q2", "q3"] {
        inbox.is_done("slow", name).await;
    }
    assert_eq!(inbox.most.load(Ordering::SeqCst), 1);
    cancel.cancel();
    attends.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_tasks_end_with_it() {
    let (inbox, attendant) = attended(&["slow"]).await;
    let cancel = CancellationToken::new();
    let attends = tokio::spawn(attendant.run(cancel.clone()));
    inbox.steer("slow", "s").await;
    until(async || inbox.slow.load(Ordering::SeqCst) == 1).await;
    cancel.cancel();
    attends.await.unwrap();
    // The task had one reference, and the runtime of this test has none.
    until(async || Arc::strong_count(&inbox) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_has_to_wait_is_read_once_until_something_changes() {
    let (inbox, attendant) = attended(&["one"]).await;
    let cancel = CancellationToken::new();
    let attends = tokio::spawn(attendant.run(cancel.clone()));
    inbox.message("one", "r", InboxRequest::Submit(Box::<SubmitRequest>::default())).await;
    until(async || inbox.taken.load(Ordering::SeqCst) == 1).await;
    let looks = inbox.looks.load(Ordering::SeqCst);
    until(async || inbox.looks.load(Ordering::SeqCst) >= looks + 8).await;
    assert_eq!(inbox.taken.load(Ordering::SeqCst), 1);
    // Another message changes it.
    let patch = crate::sessions::OptionsPatch::default();
    inbox.message("one", "c", InboxRequest::Configure { patch: Box::new(patch) }).await;
    until(async || inbox.taken.load(Ordering::SeqCst) > 1).await;
    cancel.cancel();
    attends.await.unwrap();
}
