//! The [`AgentRuntime`] trait, apart from its implementation.

use super::events::AgentEvents;
use super::request::{AgentRequest, AgentRunResult, RuntimeHealth, SessionLook};
use super::stream::AgentStream;
use super::subscribe::EventsFrom;
use bob_actors::metrics::MetricsSnapshot;
use bob_messages::approvals::Decision;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, RequestId, ResumeToken, ServerId, SessionId};
use bob_messages::input::ResumeReply;
use bob_messages::mcp::{Reloaded, ServerStatus};
use bob_messages::options::{OptionsPatch, ServerSpec, SessionOptions};
use bob_messages::store::{Record, SessionFilter, SessionPage};
use bob_messages::tools::ToolDescriptor;
use bob_supervisors::NodeState;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;

/// The operations of a runtime. Object-safe; every method may be called from any task.
///
/// ```
/// use bob::events::{AgentStreamEvent, OnDrop};
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("It was built in 1889.")]));
/// let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(model);
/// let runtime: Arc<dyn AgentRuntime> = Arc::new(builder.build().await?);
/// let session = SessionId::parse("travel")?;
///
/// // The turn is cancelled if the stream is dropped before its end.
/// let stream = runtime.run_stream(AgentRequest::text(session.clone(), "How old is the tower?")).await?;
/// let mut stream = stream.on_drop(OnDrop::Cancel);
/// let mut seen = String::new();
/// while let Some(item) = stream.next().await {
///     if let AgentStreamEvent::TextDelta { text, .. } = item.event {
///         seen.push_str(&text);
///     }
/// }
/// assert_eq!(seen, "It was built in 1889.");
///
/// let look = runtime.session(session).await?.expect("the session is in the store");
/// assert_eq!((look.turns, look.title.as_deref()), (1, Some("How old is the tower?")));
/// runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub trait AgentRuntime: Send + Sync {
    /// Runs one turn to its outcome. Dropping the future leaves the turn running;
    /// cancel it by [`cancel`](Self::cancel) or the request's token.
    fn run(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentRunResult, AgentError>>;

    /// Runs one turn and streams its events as they happen. A service that sends them on reads the first one before it
    /// answers: a request that was refused has none.
    ///
    /// # Errors
    /// At once what is found before the request is handed in: `Invalid` when the request itself is wrong (an empty or too
    /// large input, parts that the model does not accept, a context, options or a schema that cannot be used); `Llm` for
    /// an unknown model; `Overloaded` when the tenant has used up its day; `Store` when the session, or what the tenant has
    /// spent, cannot be read. Every other refusal is the end of a stream without an event, and told by
    /// [`ended`](AgentStream::ended) and [`finish`](AgentStream::finish): `Busy` and `Overloaded` when there is no place,
    /// `Stopped` when the runtime was shut down, `Invalid` when the session belongs to another tenant, `Store` when
    /// the journal cannot be read or written.
    fn run_stream(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentStream, AgentError>>;

    /// Returns the events of a session, for any number of readers: first those rebuilt from the journal after `from`,
    /// then live ones, without gaps or duplicates, also while a turn is running. [`rebuild`](crate::events::rebuild)
    /// lists the events that only exist live. The journal is read page by page. If the session does not exist yet, the
    /// stream waits for it. A reader that falls more than 1,024 events or 16 MiB behind loses live-only events and
    /// resumes from the journal; slow or dropped readers never affect a turn.
    ///
    /// Turns that another process with the same store runs are seen as well, rebuilt: while no events come, the journal
    /// is looked at once in a quarter of a second to a second. A turn may move from one process to another. Text deltas
    /// that the former owner showed of a message that is not in the journal are taken back by one
    /// [`Delta::Reset`](crate::events::Delta::Reset), and the turn has one `turn.finished`.
    ///
    /// # Errors
    /// `Invalid` when `from` names an unknown turn; `Store` when the journal cannot be read.
    fn subscribe(&self, session: SessionId, from: EventsFrom) -> BoxFuture<'_, Result<AgentEvents, AgentError>>;

    /// Stops the session's running turn; its caller gets the `Cancelled` outcome. `false` when nothing runs.
    fn cancel(&self, session: SessionId) -> BoxFuture<'_, bool>;

    /// Adds a message to the session's running turn. It is journaled at once and delivered to the model at the next
    /// safe boundary: after the results of open calls, or after the reply in progress, which then does not end the
    /// turn unless no step is left. It neither answers a question nor decides about a call.
    ///
    /// Resolves once the message is durable: `true`, or `false` when no turn is running; then nothing is kept. If the
    /// future is dropped, the message may or may not have been accepted.
    ///
    /// # Errors
    /// `Invalid` when the message is empty, larger than 1 MiB, or has parts that the turn's model does not accept;
    /// `Busy` when too many messages wait for the next step; `Store` when the turn has the message but it may not be
    /// durable.
    fn steer(&self, session: SessionId, parts: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Like [`steer`](Self::steer), with a request id: a caller that does not know whether a message arrived can
    /// repeat it, and it is accepted once. The newest 256 ids of a session are remembered.
    fn steer_as(
        &self,
        session: SessionId,
        request_id: RequestId,
        parts: Vec<ContentPart>,
    ) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Resumes a suspended turn, also after a restart of the program. The token identifies the session.
    ///
    /// # Errors
    /// `Invalid` when no suspended turn has this token (it was answered already, the session continued with another
    /// input, or it expired), or when the token is malformed.
    fn resume(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentRunResult, AgentError>>;

    /// Resumes a suspended turn and streams its events.
    ///
    /// # Errors
    /// `Invalid` when the token is malformed. Whether it is valid is reported by the end of the stream.
    fn resume_stream(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentStream, AgentError>>;

    /// Decides about a call that waits for approval: in a running turn whose request uses
    /// [`ApprovalsMode::Wait`](crate::approvals::ApprovalsMode), or in a suspended turn. Returns `true` if this
    /// decision took effect, and `false` if there is no such open question, because another decision or the deadline
    /// came first. The question's id is in the `approval.requested` event and in the question passed to
    /// [`ApprovalPort`](super::ApprovalPort). A turn that an earlier process left at the question is recovered, and a
    /// suspended one resumed; their outcomes are in the session. If the future is dropped, repeat the call: the
    /// decision may not have arrived.
    ///
    /// # Errors
    /// Errors of the store; `Busy` when another process owns the session, or when a recovered turn is not admitted
    /// within five seconds: it stays queued, and the decision must be repeated.
    fn decide(
        &self,
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Returns a page of the stored sessions, newest first, with titles and states. Reads an index that is updated
    /// with every append, not the journals.
    fn sessions(&self, filter: SessionFilter, cursor: Option<String>)
    -> BoxFuture<'_, Result<SessionPage, AgentError>>;

    /// Opens a session with these options, which become its first record. If the session exists, its options must be
    /// equal; then nothing happens. Its folders must exist, be absolute and lie inside the workspace. The tool
    /// servers in the options start now; the session's first turn waits for them. Their keys are kept in memory only,
    /// so in another process the session has these servers only after they are passed again, by this method or by
    /// [`configure`](Self::configure).
    ///
    /// # Errors
    /// `Invalid` for invalid options, or when the session exists with other options; `Llm` for an unknown model;
    /// `Store` when the options may not be durable; `Busy` when another process owns the session.
    fn open(&self, session: SessionId, options: SessionOptions) -> BoxFuture<'_, Result<(), AgentError>>;

    /// Changes options of a session, also while its turn is running or when it is not in memory. Takes effect with
    /// the next turn; resolves once durable. A missing session is created. An interrupted turn is left as it is. A
    /// change repeated with its `request_id` is made once (the last 64 ids are remembered).
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), except that other options are no error.
    fn configure(
        &self,
        session: SessionId,
        patch: OptionsPatch,
        request_id: Option<RequestId>,
    ) -> BoxFuture<'_, Result<(), AgentError>>;

    /// One session: its options, title, state and last outcome. Reads the end of its journal. `None` when
    /// there is none.
    fn session(&self, session: SessionId) -> BoxFuture<'_, Result<Option<SessionLook>, AgentError>>;

    /// A session's journal; empty when there is no such session.
    fn records(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>>;

    /// Returns up to `most` records from the end of a session's journal; empty if there is no such session.
    fn last_records(&self, session: SessionId, most: usize) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>>;

    /// Deletes a session and those of its sub-agents, including their state in memory, and detaches its tool servers.
    /// Returns `false` if there is none, and `Busy` while its turn, or a sub-agent of it, is running.
    fn delete(&self, session: SessionId) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Finishes the turns of a session that a crash of the program interrupted: the running one and the inputs queued
    /// behind it. Returns their results in order, or none if nothing was interrupted. Calls whose outcome is unknown
    /// are marked as after any crash. There must be no concurrent submissions to the session. `Busy` while its turn
    /// is running.
    fn finish(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<AgentRunResult>, AgentError>>;

    /// Removes an idle session from memory; its next turn reads the journal. Its tool servers are detached and end
    /// ten minutes after the last session that shares them was closed or deleted. Returns `false`, without an effect,
    /// while its turn is running.
    fn close(&self, session: SessionId) -> BoxFuture<'_, bool>;

    /// Returns the tools that policy allows. Tool servers that were never ready are started and waited for, each at
    /// most its startup timeout, as a first turn does; [`tools_now`](Self::tools_now) does not wait.
    #[doc(alias = "McpToolRegistry")]
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<ToolDescriptor>>>;

    /// The tools that are on offer at this moment.
    fn tools_now(&self) -> Vec<Arc<ToolDescriptor>>;

    /// How each tool server is doing at this moment, in the order of the configuration.
    fn servers(&self) -> Vec<ServerStatus>;

    /// Notifies of changes to the state or the tools of a tool server.
    fn server_changes(&self) -> watch::Receiver<u64>;

    /// Restarts a tool server in any state, with an empty log and restart history. Calls in flight return
    /// `outcome unknown`. Returns `false` if there is no such server, and does not wait for the new start.
    fn restart_server(&self, id: ServerId) -> BoxFuture<'_, bool>;

    /// Replaces the list of tool servers. An unchanged server keeps running with its calls; a changed one is
    /// restarted after its old process has ended. Returns without waiting; a required server that does not start is
    /// reported and retried like any other.
    ///
    /// # Errors
    /// `Invalid` when the list is invalid; then nothing changes. Also, and this is the default, for a runtime that has
    /// no tool servers, such as one without the feature `mcp`.
    fn reload_servers(&self, _specs: Vec<ServerSpec>) -> Result<Reloaded, AgentError> {
        Err(AgentError::Invalid("this runtime has no tool servers: it is built without the feature `mcp`".to_owned()))
    }

    /// Checks the health of the runtime now.
    fn health(&self) -> BoxFuture<'_, RuntimeHealth>;

    /// Returns counts since the start of the runtime (turns, steps, calls, tokens, restarts), latencies, and the
    /// states of providers and tool servers. Does not wait, except up to a second for the states of providers, which
    /// are omitted otherwise.
    fn metrics(&self) -> BoxFuture<'_, MetricsSnapshot>;

    /// The live tree of actors.
    fn tree(&self) -> BoxFuture<'_, Vec<NodeState>>;

    /// Notifies of changes to the actor tree since it was last read: an actor was restarted, given up or stopped, or
    /// the number of live sessions, running turns or queued inputs changed. Notifications are coalesced;
    /// [`tree`](Self::tree) has the state. Changes within a turn are not notified; those of tool servers are by
    /// [`server_changes`](Self::server_changes).
    fn tree_changes(&self) -> watch::Receiver<u64>;

    /// Takes no new turns, gives running ones their grace, cancels and saves them,
    /// stops every actor and child process. Idempotent.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}
