//! What an embedding program may ask of a runtime: the trait, apart from the one that implements it.

use super::request::{AgentRequest, AgentRunResult, RuntimeHealth, SessionLook};
use super::stream::AgentStream;
use super::subscribe::{AgentEvents, EventsFrom};
use bob_actors::metrics::MetricsSnapshot;
use bob_messages::approvals::Decision;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, RequestId, ResumeToken, ServerId, SessionId};
use bob_messages::input::ResumeReply;
use bob_messages::mcp::ServerStatus;
#[cfg(feature = "mcp")]
use bob_messages::options::ServerSpec;
use bob_messages::options::{OptionsPatch, SessionOptions};
use bob_messages::store::{Record, SessionFilter, SessionPage};
use bob_messages::tools::ToolDescriptor;
use bob_supervisors::NodeState;
#[cfg(feature = "mcp")]
use bob_supervisors::tools::servers::Reloaded;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;

/// What an embedding program may do with a runtime. Object-safe; every method may
/// be called from any task.
pub trait AgentRuntime: Send + Sync {
    /// Runs one turn to its outcome. Dropping the future leaves the turn running;
    /// cancel it by [`cancel`](Self::cancel) or the request's token.
    fn run(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentRunResult, AgentError>>;

    /// Runs one turn and streams its events as they happen.
    fn run_stream(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentStream, AgentError>>;

    /// The events of a session, for any number of readers: those its journal tells of from `from` on, then live, without
    /// a gap and none twice, also when a turn runs at this moment. Which events are only live is in
    /// [`rebuild`](bob_messages::event::rebuild). The session's journal is read page by page. A session that does not exist yet
    /// is waited for. A reader that falls more than 1,024 events or 16 MiB behind misses what is only live and joins
    /// again with the journal: it slows nobody, and turns do not end with their readers.
    ///
    /// # Errors
    /// `Invalid` when `from` names a turn the session does not have; `Store` when the journal cannot be read.
    fn subscribe(&self, session: SessionId, from: EventsFrom) -> BoxFuture<'_, Result<AgentEvents, AgentError>>;

    /// Stops the session's running turn; its caller gets the `Cancelled` outcome.
    /// `false` when nothing runs.
    fn cancel(&self, session: SessionId) -> BoxFuture<'_, bool>;

    /// Says something into the session's running turn. It is journaled at once and taken in at the next safe boundary:
    /// behind the results of the calls that are open, or behind the answer the model is giving, which is then not the
    /// end of the turn unless no step is left. It answers no question and decides about no call.
    ///
    /// Comes when it is durable: `true`, or `false` when no turn runs, and then nothing was kept of it. Dropping the
    /// future leaves open whether it was taken.
    ///
    /// # Errors
    /// `Invalid` when it is empty, has more than 1 MiB, or has parts that the turn's model does not take; `Busy` when too
    /// much waits for the turn's next step; `Store` when the turn has it and the journal may not.
    fn steer(&self, session: SessionId, parts: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Steers the running turn under a name: a caller that does not know whether it arrived repeats it, and it is taken once.
    /// The newest 256 names of a session are known.
    fn steer_as(
        &self,
        session: SessionId,
        request_id: RequestId,
        parts: Vec<ContentPart>,
    ) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Goes on with a suspended turn, also after a restart of the program. The token names its session.
    ///
    /// # Errors
    /// `Invalid` when no suspended turn has this token: it was answered already, its session went on to something else,
    /// or its time is over; and when the token names no session.
    fn resume(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentRunResult, AgentError>>;

    /// Resumes a suspended turn and streams its events as they happen.
    ///
    /// # Errors
    /// When the token names no session. Whether it is good is told by the end of the stream.
    fn resume_stream(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentStream, AgentError>>;

    /// Decides about a call that waits for a person: in a running turn whose request says
    /// [`ApprovalsMode::Wait`](bob_messages::input::ApprovalsMode), or one that suspended on it. `true` when the
    /// decision counts: it is the first about this question. `false` changes nothing: no such question is open, or
    /// somebody or the clock was first. The question is named by the `approval.requested` event, and by what
    /// [`ApprovalPort`](super::ApprovalPort) is asked. A turn that an earlier process left at the question is taken up
    /// again, and one that is suspended goes on; their outcomes are in the session. Decide once more when the future
    /// was dropped: whether the decision was heard is not known then.
    ///
    /// # Errors
    /// What the store says, and `Busy` when another process has the session, or when a turn that is taken up again has
    /// no place within five seconds: it waits for one, and is to be decided about then.
    fn decide(
        &self,
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// A page of the sessions the store holds, newest first, with titles and states. Reads no
    /// journals: what a session shows here was noted as it was written.
    fn sessions(&self, filter: SessionFilter, cursor: Option<String>)
    -> BoxFuture<'_, Result<SessionPage, AgentError>>;

    /// Begins a session with these options: they are its first record. One that is there already
    /// must have them (then nothing happens). Its folders must be absolute, there and inside the
    /// workspace. The tool servers it brings start now and are waited for by its first turn; their
    /// keys are kept in memory only. A process is started because this program asks for it: a
    /// session that comes back in another process has its servers when they are given again, by
    /// this or by [`configure`](Self::configure).
    ///
    /// # Errors
    /// `Invalid` for options a session cannot have, and when it is there with others; `Llm` for a
    /// model nobody knows; `Store` when it is not known whether they were kept, and `Busy` when
    /// another process has the session.
    fn open(&self, session: SessionId, options: SessionOptions) -> BoxFuture<'_, Result<(), AgentError>>;

    /// Changes options of a session, also while a turn of it runs or when its actor was let go. In
    /// force from the next turn on; ready when it is durable. A session that does not exist is
    /// made. What an interrupted turn left is not touched. A change that is repeated under its
    /// `request_id` is made once (the last 64 names are remembered).
    ///
    /// # Errors
    /// As [`open`](Self::open), but for the one about other options.
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

    /// The last records of a session's journal, at most so many; empty when there is no such session.
    fn last_records(&self, session: SessionId, most: usize) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>>;

    /// Removes a session; what its actor remembers goes as well, and what it brought is taken from it. `false` when there was
    /// none, and `Busy` while a turn of it runs.
    fn delete(&self, session: SessionId) -> BoxFuture<'_, Result<bool, AgentError>>;

    /// Finishes the turns of a session that a crash of the program interrupted: the one that ran, and the inputs that
    /// were accepted behind it. Their results in their order; none when nothing was interrupted. Calls in doubt are
    /// marked as after any crash. Nobody else may submit to the session meanwhile. `Busy` while a turn of it runs.
    fn finish(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<AgentRunResult>, AgentError>>;

    /// Lets the actor of an idle session go; its next turn reads the journal. What it brought is taken from it: tool
    /// servers end ten minutes after the last session that shares them was closed or deleted. `false` while a turn
    /// of it runs; then nothing was done.
    fn close(&self, session: SessionId) -> BoxFuture<'_, bool>;

    /// The tools that policy lets sessions use. Tool servers that were never ready are
    /// started and waited for, each at most its startup timeout, as a first turn does;
    /// [`tools_now`](Self::tools_now) waits for nobody.
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<ToolDescriptor>>>;

    /// The tools that are on offer at this moment.
    fn tools_now(&self) -> Vec<Arc<ToolDescriptor>>;

    /// How each tool server is doing at this moment, in the order of the configuration.
    fn servers(&self) -> Vec<ServerStatus>;

    /// Told whenever a tool server changed its state or its tools.
    fn server_changes(&self) -> watch::Receiver<u64>;

    /// Starts a tool server again, whatever it does now, with a clean log: one that
    /// gave up is tried anew. Calls in flight are answered with `outcome unknown`.
    /// `false` when there is no such server. The new start is not waited for.
    fn restart_server(&self, id: ServerId) -> BoxFuture<'_, bool>;

    /// From now on these are the tool servers. One that did not change is left alone,
    /// with its calls; of one that changed, the old process has ended before the new one
    /// starts. Nobody is waited for, and a required server that does not start is shown
    /// and retried like any other.
    ///
    /// # Errors
    /// `Invalid` when the list is wrong; then nothing changes.
    #[cfg(feature = "mcp")]
    fn reload_servers(&self, specs: Vec<ServerSpec>) -> Result<Reloaded, AgentError>;

    /// How the runtime is, asked now.
    fn health(&self) -> BoxFuture<'_, RuntimeHealth>;

    /// What was counted since the runtime began: turns, steps, calls, tokens, restarts, how long things took, and how
    /// providers and tool servers are. Comes at once; when the model side does not answer within a second, it has no
    /// providers.
    fn metrics(&self) -> BoxFuture<'_, MetricsSnapshot>;

    /// The live tree of actors.
    fn tree(&self) -> BoxFuture<'_, Vec<NodeState>>;

    /// Told when the live tree has changed since it was last read from here: an actor was started again, gave up or
    /// stopped, or the number of live sessions, running turns or waiting inputs is another. Changes that come together
    /// are told once, and what changed is in [`tree`](Self::tree). What one session does between the beginning and the
    /// end of a turn is not told here, nor how tool servers come up, which [`server_changes`](Self::server_changes) tells.
    fn tree_changes(&self) -> watch::Receiver<u64>;

    /// Takes no new turns, gives running ones their grace, cancels and saves them,
    /// stops every actor and child process. Idempotent.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}
