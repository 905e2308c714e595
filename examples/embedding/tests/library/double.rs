//! A double of a runtime: a service is tested without one.

use bob::approvals::ApprovalId;
use bob::approvals::Decision;
use bob::config::clock;
use bob::events::{AgentEvents, AgentStream, AgentStreamEvent, Envelope, EventsFrom};
use bob::health::{MetricsSnapshot, NodeState, RuntimeHealth};
use bob::model::ContentPart;
use bob::sessions::{
    FinishReason, OptionsPatch, RequestId, ResumeReply, ResumeToken, SessionFilter, SessionLook, SessionOptions,
    SessionPage, TurnId, TurnOutcome,
};
use bob::store::Record;
use bob::tools::ToolDescriptor;
use bob::tools::servers::{Reloaded, ServerId, ServerSpec, ServerStatus};
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, AgentRuntimeExt, BoxFuture, SessionId};
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Answers each request with one text, and keeps the requests.
struct Double {
    answer: &'static str,
    asked: Mutex<Vec<AgentRequest>>,
    changes: watch::Sender<u64>,
}

impl Double {
    fn saying(answer: &'static str) -> Self {
        Self { answer, asked: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn outcome(&self, session: &SessionId) -> Box<TurnOutcome> {
        Box::new(TurnOutcome::bare(session.clone(), TurnId::new("turn-1"), FinishReason::Final, self.answer))
    }
}

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

fn none<T>() -> Result<T, AgentError> {
    Err(AgentError::Invalid("the double has no suspended turn".into()))
}

impl AgentRuntime for Double {
    fn run(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        let outcome = self.outcome(&request.session);
        self.asked.lock().expect("not poisoned").push(request);
        now(Ok(outcome.into()))
    }

    fn run_stream(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        let outcome = self.outcome(&request.session);
        let events = stream::iter([Envelope::finished(clock::now(), outcome.clone())]);
        now(Ok(AgentStream::of(request.session, outcome.turn_id, events)))
    }

    fn subscribe(&self, session: SessionId, _: EventsFrom) -> BoxFuture<'_, Result<AgentEvents, AgentError>> {
        let events = stream::iter([Ok(Envelope::finished(clock::now(), self.outcome(&session)))]);
        now(Ok(AgentEvents::of(session, events)))
    }

    fn cancel(&self, _: SessionId) -> BoxFuture<'_, bool> {
        now(false)
    }

    fn steer(&self, _: SessionId, _: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>> {
        now(Ok(false))
    }

    fn steer_as(&self, _: SessionId, _: RequestId, _: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>> {
        now(Ok(false))
    }

    fn resume(&self, _: ResumeToken, _: ResumeReply) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        now(none())
    }

    fn resume_stream(&self, _: ResumeToken, _: ResumeReply) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        now(none())
    }

    fn decide(&self, _: SessionId, _: ApprovalId, _: Decision) -> BoxFuture<'_, Result<bool, AgentError>> {
        now(Ok(false))
    }

    fn sessions(&self, _: SessionFilter, _: Option<String>) -> BoxFuture<'_, Result<SessionPage, AgentError>> {
        now(Ok(SessionPage::default()))
    }

    fn open(&self, _: SessionId, _: SessionOptions) -> BoxFuture<'_, Result<(), AgentError>> {
        now(Ok(()))
    }

    fn configure(&self, _: SessionId, _: OptionsPatch, _: Option<RequestId>) -> BoxFuture<'_, Result<(), AgentError>> {
        now(Ok(()))
    }

    fn session(&self, _: SessionId) -> BoxFuture<'_, Result<Option<SessionLook>, AgentError>> {
        now(Ok(None))
    }

    fn records(&self, _: SessionId) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        now(Ok(Vec::new()))
    }

    fn last_records(&self, _: SessionId, _: usize) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        now(Ok(Vec::new()))
    }

    fn delete(&self, _: SessionId) -> BoxFuture<'_, Result<bool, AgentError>> {
        now(Ok(false))
    }

    fn finish(&self, _: SessionId) -> BoxFuture<'_, Result<Vec<AgentRunResult>, AgentError>> {
        now(Ok(Vec::new()))
    }

    fn close(&self, _: SessionId) -> BoxFuture<'_, bool> {
        now(true)
    }

    fn tools(&self) -> BoxFuture<'_, Vec<Arc<ToolDescriptor>>> {
        now(Vec::new())
    }

    fn tools_now(&self) -> Vec<Arc<ToolDescriptor>> {
        Vec::new()
    }

    fn servers(&self) -> Vec<ServerStatus> {
        Vec::new()
    }

    fn server_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn restart_server(&self, _: ServerId) -> BoxFuture<'_, bool> {
        now(false)
    }

    fn reload_servers(&self, _: Vec<ServerSpec>) -> Result<Reloaded, AgentError> {
        Err(AgentError::Invalid("the double has no tool servers".into()))
    }

    fn health(&self) -> BoxFuture<'_, RuntimeHealth> {
        now(RuntimeHealth::ready())
    }

    fn metrics(&self) -> BoxFuture<'_, MetricsSnapshot> {
        now(MetricsSnapshot::default())
    }

    fn tree(&self) -> BoxFuture<'_, Vec<NodeState>> {
        now(Vec::new())
    }

    fn tree_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        now(())
    }
}

/// What is tested with it.
async fn greeting(runtime: &dyn AgentRuntime, name: &str) -> String {
    match runtime.ask(format!("Greet {name}.")).await {
        Ok(greeting) => greeting,
        Err(error) => format!("no greeting: {error}"),
    }
}

#[tokio::test]
async fn a_service_is_tested_without_a_runtime() {
    let double = Double::saying("Hello, Ann.");
    assert_eq!(greeting(&double, "Ann").await, "Hello, Ann.");
    assert_eq!(double.asked.lock().expect("not poisoned")[0].input, [ContentPart::text("Greet Ann.")]);
    let number = Double::saying("42").run_as::<u8>(AgentRequest::once("a number?")).await.expect("a number");
    assert_eq!(number.output, 42);
}

#[tokio::test]
async fn the_streams_of_a_double_are_those_of_a_runtime() {
    let runtime: Arc<dyn AgentRuntime> = Arc::new(Double::saying("hi"));
    let session = SessionId::parse("s").expect("an id");
    let stream = runtime.run_stream(AgentRequest::text(session.clone(), "hello")).await.expect("a stream");
    let items: Vec<_> = StreamExt::collect(stream).await;
    assert!(matches!(&items[..], [item] if matches!(item.event, AgentStreamEvent::Finished { .. })), "{items:?}");
    let stream = runtime.run_stream(AgentRequest::text(session.clone(), "hello")).await.expect("a stream");
    assert_eq!(stream.finish().await.expect("an outcome").response().content, "hi");
    let events = runtime.subscribe(session, EventsFrom::Now).await.expect("events");
    assert_eq!(StreamExt::count(events).await, 1);
}
