//! Turns that get stuck on request: in each state of a turn and in each of its waits, many at once.
//!
//! The name of a session determines where its turns get stuck: `stream-7` in the middle of the model's answer. Tests
//! can wait until a session is there; all are released together. A turn with the input `go on` does not get stuck.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bob::config::Limits;
use bob::events::{AgentEvent, Envelope, EventSink};
use bob::model::{LlmErrorKind, ScriptedLlm, ScriptedReply};
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, ModelName, RuntimeBuilder, SessionId};
use bob_actors::llm::RetryPolicy;
use bob_actors::llm::scripted::ScriptedRule;
use bob_drill::store::FaultStore;
use bob_messages::backoff::Backoff;
use bob_messages::input::ApprovalsMode;
use bob_messages::store::Fact;
use bob_messages::tools::Risk;
use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::runtime::{Nothing, model_name, session};

/// Longer than any test.
const A_DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The operation that a turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// The store's claim of its session.
    Claim,
    /// The confirmation of its input.
    Input,
    /// The first byte of the model's response.
    Headers,
    /// The next delta of the model.
    Stream,
    /// The delay before a retry.
    Pause,
    /// A person.
    Person,
    /// A tool that only reads: the verdict and the result come together.
    Reads,
    /// The confirmation that a call is about to run.
    Intent,
    /// A tool that changes something.
    Changes,
    /// The confirmation of its outcome.
    Outcome,
}

impl Wait {
    pub(crate) const ALL: [Self; 10] = [
        Self::Claim,
        Self::Input,
        Self::Headers,
        Self::Stream,
        Self::Pause,
        Self::Person,
        Self::Reads,
        Self::Intent,
        Self::Changes,
        Self::Outcome,
    ];

    /// The prefix of its session names, and the input of its turns.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Input => "input",
            Self::Headers => "headers",
            Self::Stream => "stream",
            Self::Pause => "pause",
            Self::Person => "person",
            Self::Reads => "reads",
            Self::Intent => "intent",
            Self::Changes => "changes",
            Self::Outcome => "outcome",
        }
    }

    /// Whether the store holds it up: then its last save cannot be confirmed in time either.
    pub(crate) fn is_of_store(self) -> bool {
        matches!(self, Self::Claim | Self::Input | Self::Intent | Self::Outcome)
    }

    /// How many calls of the model there are by then.
    pub(crate) fn calls(self) -> usize {
        usize::from(matches!(self, Self::Person | Self::Reads | Self::Intent | Self::Changes))
    }

    pub(crate) fn session(self, number: usize) -> SessionId {
        session(&format!("{}-{number}", self.name()))
    }

    /// A turn that gets stuck here.
    pub(crate) fn request(self, number: usize) -> AgentRequest {
        // A separate provider each, since its circuit breaker opens soon.
        let model = (self == Self::Pause).then(|| ModelName::parse(&format!("down{number}:m")).expect("a model name"));
        let limits = Limits { turn_timeout_ms: A_DAY_MS, tool_timeout_ms: A_DAY_MS, ..Limits::default() };
        AgentRequest {
            model,
            limits: Some(limits),
            approvals: ApprovalsMode::Wait,
            ..AgentRequest::text(self.session(number), self.name())
        }
    }

    /// A turn of the session that does not get stuck.
    pub(crate) fn next(self, number: usize) -> AgentRequest {
        AgentRequest::text(self.session(number), "go on")
    }

    fn of(session: &SessionId) -> Option<Self> {
        let name = session.as_str().split('-').next()?;
        Self::ALL.into_iter().find(|wait| wait.name() == name)
    }
}

/// Which sessions are stuck, and the way on for those that the store holds.
pub(crate) struct Places {
    there: Mutex<HashSet<SessionId>>,
    changed: Notify,
    is_open: watch::Sender<bool>,
}

impl Places {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { there: Mutex::default(), changed: Notify::new(), is_open: watch::Sender::new(false) })
    }

    /// A builder of a runtime in which turns get stuck, with this store behind the one that holds.
    pub(crate) fn builder(self: &Arc<Self>, store: Arc<dyn SessionStore>) -> RuntimeBuilder {
        self.beside(store, Vec::new())
    }

    /// A builder for turns that do not get stuck, with further rules of the model.
    pub(crate) fn beside(self: &Arc<Self>, store: Arc<dyn SessionStore>, others: Vec<ScriptedRule>) -> RuntimeBuilder {
        RuntimeBuilder::new(model_name())
            .model(Arc::new(model(others)))
            .retry(RetryPolicy { max: 2, backoff: Backoff { first_ms: A_DAY_MS / 2, most_ms: A_DAY_MS / 2 } })
            .store(self.holding(store))
            .sink(Arc::clone(self) as Arc<dyn EventSink>)
            .local_tools(false)
            .tools(Arc::new(self.endless("test/reads").read_only()))
            .tools(Arc::new(self.endless("test/changes").risk(Risk::Low)))
            .tools(Arc::new(self.endless("test/risky").risk(Risk::High)))
    }

    /// A builder with a memory store.
    pub(crate) fn in_memory(self: &Arc<Self>) -> RuntimeBuilder {
        self.builder(MemoryStore::new())
    }

    /// Waits until this session is stuck.
    pub(crate) async fn until(&self, session: &SessionId) {
        loop {
            let changed = self.changed.notified();
            if self.lock().contains(session) {
                return;
            }
            changed.await;
        }
    }

    /// Releases the store's operations, or holds them again.
    pub(crate) fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    fn arrived(&self, session: &SessionId) {
        self.lock().insert(session.clone());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the store's operations are released.
    async fn opened(&self) {
        let mut is_open = self.is_open.subscribe();
        let _the_sender_lives = is_open.wait_for(|is_open| *is_open).await;
    }

    /// A store that holds single sessions at one point each, and no other session for it.
    fn holding(self: &Arc<Self>, store: Arc<dyn SessionStore>) -> Arc<dyn SessionStore> {
        let places = Arc::clone(self);
        FaultStore::holding(store, move |session, append| {
            let has = |is: fn(&Fact) -> bool| append.is_some_and(|append| append.records.iter().any(|it| is(&it.fact)));
            let is_held = match Wait::of(session) {
                Some(Wait::Claim) => append.is_none(),
                Some(Wait::Input) => has(|fact| matches!(fact, Fact::Input(_))),
                Some(Wait::Intent) => has(|fact| matches!(fact, Fact::Intent { .. })),
                Some(Wait::Outcome) => has(|fact| matches!(fact, Fact::Outcome(_))),
                _ => false,
            };
            let (places, session) = (Arc::clone(&places), session.clone());
            (is_held && !*places.is_open.borrow()).then(|| {
                async move {
                    places.arrived(&session);
                    places.opened().await;
                }
                .boxed()
            })
        })
    }

    fn endless(self: &Arc<Self>, name: &str) -> bob::tools::FnTool {
        let places = Arc::clone(self);
        tool(name, "Never ends.", move |_: Nothing, invocation| {
            places.arrived(&invocation.context.session);
            async move {
                std::future::pending::<()>().await;
                Ok(ToolOutput::text("never"))
            }
        })
    }
}

impl EventSink for Places {
    fn emit(&self, event: &Envelope) {
        let Some(session) = &event.session_id else { return };
        let is_there = match Wait::of(session) {
            Some(Wait::Headers) => matches!(event.event, AgentEvent::LlmRequested { .. }),
            Some(Wait::Stream) => matches!(event.event, AgentEvent::LlmStreamChunk { .. }),
            Some(Wait::Pause) => matches!(event.event, AgentEvent::LlmRetried { .. }),
            Some(Wait::Person) => matches!(event.event, AgentEvent::ApprovalRequested { .. }),
            Some(Wait::Claim | Wait::Input | Wait::Reads | Wait::Intent | Wait::Changes | Wait::Outcome) | None => {
                false
            }
        };
        if is_there {
            self.arrived(session);
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

fn model(others: Vec<ScriptedRule>) -> ScriptedLlm {
    let rule = |wait: Wait, reply| ScriptedRule {
        when: Some(wait.name().into()),
        replies: vec![reply],
        delay_ms: 0,
        stall: false,
    };
    let calls = |wait, tool: &str| rule(wait, ScriptedReply::call(tool, json!({})));
    let mut rules = vec![
        rule(Wait::Headers, ScriptedReply::Stall),
        ScriptedRule { stall: true, ..rule(Wait::Stream, ScriptedReply::text("one two three ")) },
        rule(Wait::Pause, ScriptedReply::Error(LlmErrorKind::Unavailable)),
        calls(Wait::Person, "test/risky"),
        calls(Wait::Reads, "test/reads"),
        calls(Wait::Intent, "test/changes"),
        calls(Wait::Changes, "test/changes"),
    ];
    rules.extend(others);
    rules.push(ScriptedRule { when: None, replies: vec![ScriptedReply::text("fine")], delay_ms: 0, stall: false });
    ScriptedLlm::new(rules)
}
