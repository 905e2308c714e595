//! A double of a runtime, for tests of a program that uses one.

use crate::approvals::{ApprovalId, Decision};
use crate::context::RequestContext;
use crate::events::{AgentEvents, AgentStream, EventsFrom};
use crate::health::{MetricsSnapshot, NodeState, RuntimeHealth, RuntimeStatus};
use crate::model::ContentPart;
use crate::sessions::{
    FinishReason, OptionsPatch, RequestId, ResumeReply, ResumeToken, SessionFilter, SessionLook, SessionOptions,
    SessionPage, TurnId, TurnOutcome,
};
use crate::store::Record;
use crate::tools::ToolDescriptor;
use crate::tools::servers::{ServerId, ServerStatus};
use crate::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, ModelName, SessionId};
use bob_messages::event::{AgentEvent, Envelope, StepEvent};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// A runtime without actors: turns end as a test has written, and requests are kept for it to look at.
///
/// Each turn that is run or resumed takes the next end of the script, in order. Other operations do nothing and succeed:
/// [`operations`](Self::operations) has them. Clones share everything.
///
/// ```
/// use bob::testing::FakeRuntime;
/// use bob::{AgentRuntime, AgentRuntimeExt};
///
/// // The code under test takes any runtime.
/// async fn greet(runtime: &dyn AgentRuntime) -> String {
///     let request = bob::AgentRequest::once("Say hello.");
///     runtime.run(request).await.map_or_else(|error| error.to_string(), |result| result.response().content.clone())
/// }
///
/// bob::testing::run(async {
///     let runtime = FakeRuntime::new().answers("hello");
///     assert_eq!(greet(&runtime).await, "hello");
///     assert_eq!(runtime.requests().len(), 1);
///     assert!(runtime.ask("And now?").await.is_err(), "the script is over");
/// });
/// ```
#[derive(Debug, Clone)]
pub struct FakeRuntime(Arc<Fake>);

#[derive(Debug)]
struct Fake {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Turn>,
    requests: Vec<AgentRequest>,
    operations: Vec<Operation>,
    told: Vec<Arc<Envelope>>,
    tools: Vec<Arc<ToolDescriptor>>,
    turns: u64,
    is_shut_down: bool,
}

/// One turn of the script.
#[derive(Debug)]
struct Turn {
    events: Vec<StepEvent>,
    end: End,
}

#[derive(Debug)]
enum End {
    Answer(String),
    Result(Box<Result<AgentRunResult, AgentError>>),
}

/// What a double was asked for, turns apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A reply to a suspended turn.
    Resumed(ResumeToken, ResumeReply),
    /// The end of a session's turn.
    Cancelled(SessionId),
    /// A message to a session's turn.
    Steered(SessionId, Vec<ContentPart>),
    /// A decision about a call.
    Decided(SessionId, ApprovalId, Decision),
    /// A session with options.
    Opened(SessionId, SessionOptions),
    /// Other options of a session.
    Configured(SessionId, OptionsPatch),
    /// The end of a session's turns that a crash has interrupted.
    Finished(SessionId),
    /// A session's place in memory.
    Closed(SessionId),
    /// A session's end.
    Deleted(SessionId),
    /// A new start of a tool server.
    RestartedServer(ServerId),
    /// The end of the runtime.
    ShutDown,
}

impl FakeRuntime {
    /// A double with an empty script.
    pub fn new() -> Self {
        Self(Arc::new(Fake { state: Mutex::default(), changes: watch::Sender::new(0) }))
    }

    /// The next turn ends with this answer.
    #[must_use]
    pub fn answers(self, text: impl Into<String>) -> Self {
        self.then(End::Answer(text.into()))
    }

    /// The next turn ends so, or its request is refused so.
    #[must_use]
    pub fn ends(self, result: Result<AgentRunResult, AgentError>) -> Self {
        self.then(End::Result(Box::new(result)))
    }

    /// The turn that was added last has these events between `turn.started` and its end, for its stream and for readers of
    /// its session.
    #[must_use]
    pub fn with_events(self, events: impl IntoIterator<Item = StepEvent>) -> Self {
        if let Some(turn) = self.state().script.back_mut() {
            turn.events.extend(events);
        }
        self
    }

    /// The tools on offer.
    #[must_use]
    pub fn with_tools(self, tools: impl IntoIterator<Item = ToolDescriptor>) -> Self {
        self.state().tools.extend(tools.into_iter().map(Arc::new));
        self
    }

    /// The requests of turns so far.
    pub fn requests(&self) -> Vec<AgentRequest> {
        self.state().requests.clone()
    }

    /// Everything else that was asked for so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    fn then(self, end: End) -> Self {
        self.state().script.push_back(Turn { events: Vec::new(), end });
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T: Send + 'static>(&self, operation: Operation, answer: T) -> BoxFuture<'_, T> {
        self.state().operations.push(operation);
        self.0.changes.send_modify(|changes| *changes += 1);
        std::future::ready(answer).boxed()
    }

    /// Plays the next turn of the script.
    fn play(&self, session: &SessionId, context: Option<Arc<RequestContext>>) -> Played {
        let mut state = self.state();
        let turn = TurnId::new(format!("fake-{}", state.turns + 1));
        if state.is_shut_down {
            return Played {
                turn,
                events: Vec::new(),
                result: Err(AgentError::Stopped("the runtime was shut down".to_owned())),
            };
        }
        let Some(Turn { events, end }) = state.script.pop_front() else {
            let text = "the script of the fake runtime has no more turns".to_owned();
            return Played { turn, events: Vec::new(), result: Err(AgentError::Internal(text)) };
        };
        state.turns += 1;
        let bare = |text| TurnOutcome::bare(session.clone(), turn.clone(), FinishReason::Final, text);
        let result = match end {
            End::Answer(text) => Ok(AgentRunResult::Finished(Box::new(bare(text)))),
            End::Result(result) => *result,
        };
        let last = result.as_ref().ok().map(|result| {
            let outcome = Box::new(result.response().clone());
            StepEvent::from(AgentEvent::TurnFinished { outcome })
        });
        let first = AgentEvent::TurnStarted {
            submission: turn.clone(),
            model: ModelName::parse("fake:model").unwrap_or_else(|never| unreachable!("{never}")),
            cwd: None,
            traceparent: None,
            tracestate: None,
            agent: None,
            tools: state.tools.iter().map(|tool| tool.id.clone()).collect(),
            servers: Vec::new(),
            parent: None,
            context,
        };
        let numbered = (1..).zip(std::iter::once(StepEvent::from(first)).chain(events).chain(last));
        let in_envelopes = numbered.map(|(seq, told)| Envelope::of_turn(session, &turn, 0, seq, None, told));
        let events: Vec<_> = in_envelopes.map(Arc::new).collect();
        state.told.extend(events.iter().cloned());
        self.0.changes.send_modify(|changes| *changes += 1);
        drop(state);
        Played { turn, events, result }
    }
}

/// A turn of the script, with its events in their envelopes.
struct Played {
    turn: TurnId,
    events: Vec<Arc<Envelope>>,
    result: Result<AgentRunResult, AgentError>,
}

impl Played {
    /// The stream of its events, unless its request is refused.
    fn stream(self, session: SessionId) -> Result<AgentStream, AgentError> {
        self.result?;
        Ok(AgentStream::of(session, self.turn, stream::iter(self.events.into_iter().map(Arc::unwrap_or_clone))))
    }
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self::new()
    }
}

/// The session of a token, for the outcome of its turn.
fn session_of(token: &ResumeToken) -> Result<SessionId, AgentError> {
    token.session().ok_or_else(|| AgentError::Invalid("the token names no session".to_owned()))
}

impl AgentRuntime for FakeRuntime {
    fn run(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        let (session, context) = (request.session.clone(), request.context.clone());
        self.state().requests.push(request);
        let result = self.play(&session, context).result;
        std::future::ready(result).boxed()
    }

    fn run_stream(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        let (session, context) = (request.session.clone(), request.context.clone());
        self.state().requests.push(request);
        let stream = self.play(&session, context).stream(session);
        std::future::ready(stream).boxed()
    }

    /// The events of the session's turns so far, whatever `from` says; then the stream ends.
    fn subscribe(&self, session: SessionId, _from: EventsFrom) -> BoxFuture<'_, Result<AgentEvents, AgentError>> {
        let of_session = |event: &&Arc<Envelope>| event.session_id.as_ref() == Some(&session);
        let events: Vec<_> =
            self.state().told.iter().filter(of_session).map(|event| Ok(Envelope::clone(event))).collect();
        std::future::ready(Ok(AgentEvents::of(session, stream::iter(events)))).boxed()
    }

    fn cancel(&self, session: SessionId) -> BoxFuture<'_, bool> {
        self.note(Operation::Cancelled(session), true)
    }

    fn steer(&self, session: SessionId, parts: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>> {
        self.note(Operation::Steered(session, parts), Ok(true))
    }

    fn steer_as(
        &self,
        session: SessionId,
        _request_id: RequestId,
        parts: Vec<ContentPart>,
    ) -> BoxFuture<'_, Result<bool, AgentError>> {
        self.steer(session, parts)
    }

    fn resume(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        let result = session_of(&token).and_then(|session| self.play(&session, None).result);
        self.note(Operation::Resumed(token, said), result)
    }

    fn resume_stream(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        let stream = session_of(&token).and_then(|session| self.play(&session, None).stream(session));
        self.note(Operation::Resumed(token, said), stream)
    }

    fn decide(
        &self,
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<bool, AgentError>> {
        self.note(Operation::Decided(session, approval, decision), Ok(true))
    }

    fn sessions(
        &self,
        _filter: SessionFilter,
        _cursor: Option<String>,
    ) -> BoxFuture<'_, Result<SessionPage, AgentError>> {
        std::future::ready(Ok(SessionPage::default())).boxed()
    }

    fn open(&self, session: SessionId, options: SessionOptions) -> BoxFuture<'_, Result<(), AgentError>> {
        self.note(Operation::Opened(session, options), Ok(()))
    }

    fn configure(
        &self,
        session: SessionId,
        patch: OptionsPatch,
        _request_id: Option<RequestId>,
    ) -> BoxFuture<'_, Result<(), AgentError>> {
        self.note(Operation::Configured(session, patch), Ok(()))
    }

    fn session(&self, _session: SessionId) -> BoxFuture<'_, Result<Option<SessionLook>, AgentError>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn records(&self, _session: SessionId) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn last_records(&self, session: SessionId, _most: usize) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        self.records(session)
    }

    fn delete(&self, session: SessionId) -> BoxFuture<'_, Result<bool, AgentError>> {
        self.note(Operation::Deleted(session), Ok(true))
    }

    fn finish(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<AgentRunResult>, AgentError>> {
        self.note(Operation::Finished(session), Ok(Vec::new()))
    }

    fn close(&self, session: SessionId) -> BoxFuture<'_, bool> {
        self.note(Operation::Closed(session), true)
    }

    fn tools(&self) -> BoxFuture<'_, Vec<Arc<ToolDescriptor>>> {
        std::future::ready(self.tools_now()).boxed()
    }

    fn tools_now(&self) -> Vec<Arc<ToolDescriptor>> {
        self.state().tools.clone()
    }

    fn servers(&self) -> Vec<ServerStatus> {
        Vec::new()
    }

    fn server_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn restart_server(&self, id: ServerId) -> BoxFuture<'_, bool> {
        self.note(Operation::RestartedServer(id), true)
    }

    fn health(&self) -> BoxFuture<'_, RuntimeHealth> {
        let is_up = !self.state().is_shut_down;
        let health = RuntimeHealth {
            status: if is_up { RuntimeStatus::Ready } else { RuntimeStatus::Stopped },
            llm_ready: is_up,
            tools_ready: is_up,
            mcp_pool_ready: is_up,
            store_ready: is_up,
            ..RuntimeHealth::ready()
        };
        std::future::ready(health).boxed()
    }

    fn metrics(&self) -> BoxFuture<'_, MetricsSnapshot> {
        std::future::ready(MetricsSnapshot::default()).boxed()
    }

    fn tree(&self) -> BoxFuture<'_, Vec<NodeState>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn tree_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.state().is_shut_down = true;
        self.note(Operation::ShutDown, ())
    }
}
