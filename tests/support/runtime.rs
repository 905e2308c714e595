//! Runtimes for tests of the facade: over a script or over a fake provider, with a sink that keeps every event.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bob::approvals::PermissionMode;
use bob::config::TurnConfig;
use bob::events::{AgentEvent, Envelope, EventSink};
use bob::model::{LlmPort, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, SessionOptions, TurnId};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentResponse, AgentRunResult, AgentRuntime, ModelName, Runtime, RuntimeBuilder, SessionId};
use bob_actors::llm::RetryPolicy;
use bob_drill::traps::Traps;
use bob_messages::backoff::Backoff;
use tokio::sync::Notify;

/// Longer than any operation here, so that a hanging test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Waits for a result that must come.
#[track_caller]
pub(crate) fn within<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let from = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(DEADLINE, what).await {
            Ok(done) => done,
            Err(_late) => panic!("nothing came within {DEADLINE:?}, asked for at {from}"),
        }
    }
}

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::parse(id).expect("a session id")
}

/// A message to the session called `s`.
pub(crate) fn say(text: &str) -> AgentRequest {
    AgentRequest::text(session("s"), text)
}

pub(crate) fn model_name() -> ModelName {
    ModelName::parse("fake:m-1").expect("a model name")
}

/// A builder over any model, whose repetitions wait a millisecond. Everything runs without asking.
pub(crate) fn over(model: impl LlmPort) -> RuntimeBuilder {
    asking(model).permission_mode(PermissionMode::Auto)
}

/// As [`over`], and what changes something asks.
pub(crate) fn asking(model: impl LlmPort) -> RuntimeBuilder {
    let retry = RetryPolicy { max: 2, backoff: Backoff { first_ms: 1, most_ms: 2 } };
    RuntimeBuilder::new(model_name()).model(Arc::new(model)).retry(retry)
}

/// A builder over a model that in every turn gives these replies, one a step.
pub(crate) fn scripted(replies: Vec<ScriptedReply>) -> RuntimeBuilder {
    over(ScriptedLlm::replies(replies))
}

pub(crate) async fn build(builder: RuntimeBuilder) -> Runtime {
    builder.build().await.expect("a runtime")
}

/// A runtime and the traps for its actors.
pub(crate) async fn trapped(builder: RuntimeBuilder) -> (Runtime, Traps) {
    let traps = Traps::default();
    (build(builder.hook(traps.hook())).await, traps)
}

/// Ends a runtime and lets go of its store, so that the next one may have its sessions. On a busy machine a shutdown alone
/// may give up before the store has released them, and the store keeps them as long as it is there.
#[allow(dead_code, reason = "each program of tests uses its own part")]
pub(crate) async fn ended(runtime: Runtime) {
    within(runtime.shutdown()).await;
    drop(runtime);
}

/// One turn to its end; the request must be taken.
pub(crate) async fn turn(runtime: &Runtime, request: AgentRequest) -> AgentResponse {
    match within(runtime.run(request)).await.expect("the request is taken") {
        AgentRunResult::Finished(response) => *response,
        other => panic!("not finished: {other:?}"),
    }
}

/// The rules of a runtime whose tools work in this folder.
pub(crate) fn at(folder: &std::path::Path) -> TurnConfig {
    TurnConfig { roots: Arc::from([folder.display().to_string()]), ..TurnConfig::new(model_name()) }
}

/// The options of a session that works in this folder.
pub(crate) fn in_folder(folder: &std::path::Path) -> SessionOptions {
    SessionOptions { cwd: Some(folder.display().to_string()), ..SessionOptions::default() }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

/// A tool that notifies when it is entered and never ends. Its guard is dropped when the call is abandoned.
pub(crate) fn endless(entered: &Arc<Notify>, let_go: &Arc<Notify>) -> bob::tools::FnTool {
    struct Held(Arc<Notify>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (entered, let_go) = (Arc::clone(entered), Arc::clone(let_go));
    tool("test/endless", "Never ends.", move |_: Nothing, _| {
        let held = Held(Arc::clone(&let_go));
        entered.notify_one();
        async move {
            let _held = held;
            std::future::pending::<()>().await;
            Ok(ToolOutput::text("never"))
        }
    })
}

/// Keeps every event of a runtime, in order.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<Envelope>>,
    arrived: Notify,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn events(&self) -> Vec<Envelope> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn of_turn(&self, turn: &TurnId) -> Vec<Envelope> {
        self.events().into_iter().filter(|event| event.turn_id.as_ref() == Some(turn)).collect()
    }

    /// How many events are such.
    pub(crate) fn count(&self, is: impl Fn(&Envelope) -> bool) -> usize {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|event| is(event)).count()
    }

    /// How many `turn.finished` there were for a turn.
    pub(crate) fn ends(&self, turn: &TurnId) -> usize {
        let ends = |event: &AgentEvent| matches!(event, AgentEvent::TurnFinished { .. });
        self.count(|event| ends(&event.event) && event.turn_id.as_ref() == Some(turn))
    }

    /// Waits until an event of this kind was seen.
    pub(crate) async fn seen(&self, is: impl Fn(&AgentEvent) -> bool) {
        self.seen_times(1, is).await;
    }

    /// Waits until that many events of this kind were seen.
    pub(crate) async fn seen_times(&self, times: usize, is: impl Fn(&AgentEvent) -> bool) {
        within(async {
            loop {
                let arrived = self.arrived.notified();
                if self.events().iter().filter(|event| is(&event.event)).count() >= times {
                    return;
                }
                arrived.await;
            }
        })
        .await;
    }

    /// Every turn: started first, numbered by one, finished last and once.
    #[track_caller]
    pub(crate) fn assert_in_order(&self) {
        let events = self.events();
        let turns: std::collections::BTreeSet<_> = events.iter().filter_map(|event| event.turn_id.clone()).collect();
        for turn in turns {
            assert_in_order(&self.of_turn(&turn));
        }
    }
}

impl EventSink for Recorder {
    fn emit(&self, event: &Envelope) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        self.arrived.notify_waiters();
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// The events of one whole turn: started first, numbered from 1 by one, finished last and once.
#[track_caller]
pub(crate) fn assert_in_order(events: &[Envelope]) {
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "numbered by one: {events:#?}");
    let ends = events.iter().filter(|event| matches!(event.event, AgentEvent::TurnFinished { .. })).count();
    assert_eq!(ends, 1, "finished once: {events:#?}");
    let last = events.last().map(|event| &event.event);
    let Some(AgentEvent::TurnFinished { outcome }) = last else { panic!("finished last: {events:#?}") };
    // A turn that ended before it began has nothing but its end.
    if outcome.steps > 0 || outcome.finish_reason == FinishReason::Final {
        assert!(matches!(events[0].event, AgentEvent::TurnStarted { .. }), "started first: {events:#?}");
    }
}

/// A store in this folder, which a second runtime may open while the first still has it.
pub(crate) fn file_store(folder: &std::path::Path) -> Arc<dyn bob::store::SessionStore> {
    let options = bob::store::StoreOptions::default();
    #[cfg(feature = "sqlite")]
    let store = bob::store::SqliteStore::open(&folder.join("sessions.db"), options);
    #[cfg(not(feature = "sqlite"))]
    let store = bob::store::FileStore::open(folder, options);
    store.expect("a store in the test's folder")
}

#[cfg(feature = "genai")]
#[allow(unused_imports, reason = "each test file uses its own part")]
pub(crate) use wire::{KINDS, provided, provided_in_json};

#[cfg(feature = "genai")]
mod wire {
    use super::super::provider::FakeProvider;
    use super::{RuntimeBuilder, over};
    use bob_actors::llm::GenaiLlm;
    use bob_actors::llm::providers::{CapabilityOverrides, KeySource, ProviderConfig, ProviderKind};

    /// The wire formats.
    pub(crate) const KINDS: [ProviderKind; 2] = [ProviderKind::OpenAi, ProviderKind::Anthropic];

    /// A builder over a fake provider whose model has native tools.
    pub(crate) fn provided(provider: &FakeProvider, kind: ProviderKind) -> RuntimeBuilder {
        over(port(provider, kind, true))
    }

    /// A builder over a fake provider whose model is used in JSON mode.
    pub(crate) fn provided_in_json(provider: &FakeProvider, kind: ProviderKind) -> RuntimeBuilder {
        over(port(provider, kind, false))
    }

    fn port(provider: &FakeProvider, kind: ProviderKind, native: bool) -> GenaiLlm {
        let config = ProviderConfig {
            name: "fake".into(),
            kind: Some(kind),
            base_url: Some(provider.base_url()),
            key: Some(KeySource::Env("FAKE_KEY".into())),
            capabilities: CapabilityOverrides { native_tools: Some(native), ..CapabilityOverrides::default() },
            ..ProviderConfig::default()
        };
        GenaiLlm::new(&[config], &|name| (name == "FAKE_KEY").then(|| "sk-test".to_owned())).expect("a provider")
    }
}
