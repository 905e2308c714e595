//! Implements [`AgentRuntime`] for [`Runtime`]. Methods of more than a few lines live in sibling files.

use super::agent_runtime::AgentRuntime;
use super::events::AgentEvents;
use super::request::{AgentRequest, AgentRunResult, RuntimeHealth, SessionLook};
use super::runtime::{Runtime, outcome};
use super::sessions;
use super::stream::AgentStream;
use super::subscribe::EventsFrom;
use bob_actors::address::Again;
use bob_actors::metrics::MetricsSnapshot;
use bob_messages::approvals::Decision;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, RequestId, ResumeToken, ServerId, SessionId, TenantId, TurnId};
use bob_messages::input::ResumeReply;
#[cfg(feature = "mcp")]
use bob_messages::mcp::Reloaded;
use bob_messages::mcp::ServerStatus;
#[cfg(feature = "mcp")]
use bob_messages::options::ServerSpec;
use bob_messages::options::{OptionsPatch, SessionOptions};
use bob_messages::reply::Reply;
use bob_messages::store::{Record, SessionFilter, SessionPage, StoreMessage};
use bob_messages::submission::{LiveSession, SessionsMessage};
use bob_messages::tools::{ToolDescriptor, ToolSet};
use bob_supervisors::NodeState;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// How long the tree may take to stop after the turns have ended.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// How long after the last process has ended its event may still arrive.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// How long to wait for sinks to accept pending events.
const SINKS_WITHIN: Duration = Duration::from_millis(500);

/// How often a flush that was refused is repeated, about twice a second.
const MOST_FLUSHES: u32 = 20;

impl AgentRuntime for Runtime {
    fn run(&self, request: AgentRequest) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        // In a box of its own, which is gone while the outcome is waited for.
        let request = Box::new(request);
        async move {
            let owed = self.handed_in(request).await?;
            outcome(self, owed).await
        }
        .boxed()
    }

    fn run_stream(&self, mut request: AgentRequest) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        async move {
            self.inherit_context(&mut request).await?;
            let model = self.session_model(&request).await?;
            self.lighten(&mut request).await?;
            self.settle_tenant(request.context.as_ref().and_then(|context| context.tenant.as_ref())).await?;
            let subscription = self.0.tree.feed.subscribe(&request.session);
            let (session, turn, owed) = self.submit(request, model.as_ref())?;
            Ok(AgentStream::new(self.clone(), session, turn, subscription, owed))
        }
        .boxed()
    }

    fn subscribe(&self, session: SessionId, from: EventsFrom) -> BoxFuture<'_, Result<AgentEvents, AgentError>> {
        async move {
            let reader = super::subscribe::subscribe(self, session.clone(), from).await?;
            Ok(AgentEvents::read_by(reader, session))
        }
        .boxed()
    }

    fn cancel(&self, session: SessionId) -> BoxFuture<'_, bool> {
        self.cancel_turn(session, None).boxed()
    }

    fn steer(&self, session: SessionId, parts: Vec<ContentPart>) -> BoxFuture<'_, Result<bool, AgentError>> {
        super::steer::steer(self, session, None, parts).boxed()
    }

    fn steer_as(
        &self,
        session: SessionId,
        request_id: RequestId,
        parts: Vec<ContentPart>,
    ) -> BoxFuture<'_, Result<bool, AgentError>> {
        super::steer::steer(self, session, Some(request_id), parts).boxed()
    }

    fn resume(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentRunResult, AgentError>> {
        super::resume::resume(self, token, said).boxed()
    }

    fn resume_stream(&self, token: ResumeToken, said: ResumeReply) -> BoxFuture<'_, Result<AgentStream, AgentError>> {
        super::resume::resume_stream(self, token, said).boxed()
    }

    fn decide(
        &self,
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> BoxFuture<'_, Result<bool, AgentError>> {
        super::decide::decide(self, session, approval, decision).boxed()
    }

    fn sessions(
        &self,
        filter: SessionFilter,
        cursor: Option<String>,
    ) -> BoxFuture<'_, Result<SessionPage, AgentError>> {
        self.ask_store(move |reply| StoreMessage::List { filter, cursor, reply }).boxed()
    }

    fn open(&self, session: SessionId, options: SessionOptions) -> BoxFuture<'_, Result<(), AgentError>> {
        sessions::open(self, session, options).boxed()
    }

    fn configure(
        &self,
        session: SessionId,
        patch: OptionsPatch,
        request_id: Option<RequestId>,
    ) -> BoxFuture<'_, Result<(), AgentError>> {
        sessions::configure(self, session, patch, request_id).boxed()
    }

    fn session(&self, session: SessionId) -> BoxFuture<'_, Result<Option<SessionLook>, AgentError>> {
        sessions::look(self, session).boxed()
    }

    fn records(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        self.journal(session).boxed()
    }

    fn last_records(&self, session: SessionId, most: usize) -> BoxFuture<'_, Result<Vec<Arc<Record>>, AgentError>> {
        self.last_records(session, most).boxed()
    }

    fn delete(&self, session: SessionId) -> BoxFuture<'_, Result<bool, AgentError>> {
        sessions::delete(self, session).boxed()
    }

    fn finish(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<AgentRunResult>, AgentError>> {
        async move { super::finish::finish(self, session, &[]).await }.boxed()
    }

    fn close(&self, session: SessionId) -> BoxFuture<'_, bool> {
        async move { sessions::close(self, &session).await }.boxed()
    }

    fn tools(&self) -> BoxFuture<'_, Vec<Arc<ToolDescriptor>>> {
        async move {
            let (reply, answer) = Reply::channel();
            // It comes when the servers have started, or their startup timeouts are over.
            self.0.tree.rooms.tools.list(None, |set: Arc<ToolSet>| reply.send(set));
            answer.await.map(|set| listed(&set)).unwrap_or_default()
        }
        .boxed()
    }

    fn tools_now(&self) -> Vec<Arc<ToolDescriptor>> {
        listed(&self.0.tree.rooms.tools.now())
    }

    fn servers(&self) -> Vec<ServerStatus> {
        self.0.tree.rooms.tools.servers()
    }

    fn server_changes(&self) -> watch::Receiver<u64> {
        self.0.tree.rooms.tools.changes()
    }

    fn restart_server(&self, id: ServerId) -> BoxFuture<'_, bool> {
        async move {
            let servers = self.servers();
            let is_meant = |server: &&ServerStatus| server.id == id || server.node() == id.as_str();
            let mut restarted = false;
            // A server that not all sessions share may have several processes, or none.
            for server in servers.iter().filter(is_meant) {
                restarted |= self.0.tree.restart(&format!("tools/{}", server.node())).await;
            }
            restarted
        }
        .boxed()
    }

    #[cfg(feature = "mcp")]
    fn reload_servers(&self, specs: Vec<ServerSpec>) -> Result<Reloaded, AgentError> {
        self.0.tool_servers.reload(specs).map_err(|error| AgentError::Invalid(error.to_string()))
    }

    fn health(&self) -> BoxFuture<'_, RuntimeHealth> {
        self.ask_health().boxed()
    }

    fn metrics(&self) -> BoxFuture<'_, MetricsSnapshot> {
        self.ask_metrics().boxed()
    }

    fn tree(&self) -> BoxFuture<'_, Vec<NodeState>> {
        self.0.tree.tree().boxed()
    }

    fn tree_changes(&self) -> watch::Receiver<u64> {
        self.0.tree.rooms.metrics.changes()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.shut_down(false).boxed()
    }
}

impl Runtime {
    /// Cancels this turn of a session, or the one that runs. Whether there was one.
    pub(crate) async fn cancel_turn(&self, session: SessionId, turn: Option<TurnId>) -> bool {
        let (reply, answer) = Reply::channel();
        self.0.tree.rooms.sessions.tell(SessionsMessage::Cancel { session, turn, tenant: None, reply });
        answer.await.unwrap_or(false)
    }

    /// Cancels the first input of a tenant that waits for a session. Whether there was one.
    pub(crate) async fn cancel_waiting_of(&self, session: SessionId, tenant: TenantId) -> bool {
        let (reply, answer) = Reply::channel();
        let cancel = SessionsMessage::Cancel { session, turn: None, tenant: Some(tenant), reply };
        self.0.tree.rooms.sessions.tell(cancel);
        answer.await.unwrap_or(false)
    }

    /// Has the actor of a session send what it has buffered to the store.
    pub(crate) async fn send_buffered(&self, session: &SessionId) {
        let ((reply, sent), session) = (Reply::channel(), session.clone());
        // One that is refused, since too many wait, is asked again: its caller would miss records.
        let again = Again { times: MOST_FLUSHES, ..Again::ONCE };
        self.0.tree.rooms.sessions.ask(again, reply, move |reply, _asked| SessionsMessage::Flush { session, reply });
        // Without an actor nothing is buffered.
        let _sent_or_no_actor = sent.await;
    }

    /// The sessions in memory, at most so many.
    pub(crate) async fn live_sessions(&self, most: usize) -> Vec<LiveSession> {
        let (reply, live) = Reply::channel();
        self.0.tree.rooms.sessions.tell(SessionsMessage::Live { most, reply });
        live.await.unwrap_or_default()
    }

    /// Shuts the runtime down as [`AgentRuntime::shutdown`] does, except that another process continues the turns: each is left
    /// when the step that it is in has ended, open in its journal, and its session is released. One whose step takes longer
    /// than the grace period is left in the middle of it; a call of a tool that runs at that moment has no result, as after a crash. So
    /// is one that works with sub-agents in the background.
    pub async fn hand_over(&self) {
        self.shut_down(true).await;
    }

    async fn shut_down(&self, hand_over: bool) {
        self.0.draining.store(true, Ordering::Release);
        let grace_ms = u64::try_from(self.0.shutdown_grace.as_millis()).unwrap_or(u64::MAX);
        let (reply, drained) = Reply::channel();
        self.0.tree.rooms.sessions.tell(SessionsMessage::Drain { grace_ms, hand_over, reply });
        // A cancelled turn is saved within milliseconds; the second more is for a slow disk.
        let limit = self.0.shutdown_grace.saturating_add(Duration::from_secs(1));
        let _drained_or_not_the_tree_stops = tokio::time::timeout(limit, drained).await;
        self.0.tree.stop(STOP_WITHIN).await;
        if let Some(hooks) = &self.0.hooks {
            // Those of the turns that have just ended.
            self.0.tree.feed.flush(SINKS_WITHIN).await;
            hooks.idle(hooks.longest()).await;
        }
        self.0.watcher.idle(STOP_WITHIN).await;
        let _told_of_every_end = tokio::time::timeout(TOLD_WITHIN, self.without_processes()).await;
        self.0.tree.feed.flush(SINKS_WITHIN).await;
        self.keep_latencies().await;
    }
}

/// The tools that every session is offered: the reader of artifacts is offered where there is one to read.
fn listed(set: &ToolSet) -> Vec<Arc<ToolDescriptor>> {
    set.without_reader().map_or(set, |plain| plain).tools().to_vec()
}
