//! Health checks and metrics of a runtime.

use super::agent_runtime::AgentRuntime;
use super::request::{RuntimeHealth, RuntimeStatus};
use super::runtime::{Inner, Runtime};
use bob_actors::metrics::MetricsSnapshot;
use bob_messages::llm::LlmMessage;
use bob_messages::mcp::ServerState;
use bob_messages::reply::Reply;
use bob_messages::store::StoreMessage;
use bob_messages::submission::SessionsMessage;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a question about the runtime's state waits for a room.
const HEALTH_WITHIN: Duration = Duration::from_secs(1);

impl Runtime {
    pub(super) async fn ask_health(&self) -> RuntimeHealth {
        let model = self.0.turn_config.default_model.clone();
        let (profile, stored, load) = tokio::join!(
            self.is_there(|inner, reply| inner.tree.rooms.llm.tell(LlmMessage::Profile { model, reply })),
            self.is_there(|inner, reply| inner.tree.rooms.store.tell(StoreMessage::Ping { reply })),
            self.is_there(|inner, reply| inner.tree.rooms.sessions.tell(SessionsMessage::Load { reply })),
        );
        let llm_ready = matches!(profile, Some(Ok(_)));
        let tools = &self.0.tree.rooms.tools;
        let tools_ready = tools.local().actor().is_some();
        let mcp_pool_ready =
            tools.servers().iter().all(|server| matches!(server.state, ServerState::Ready | ServerState::Asleep));
        let store_ready = stored.is_some();
        let all_ready = llm_ready && tools_ready && mcp_pool_ready && store_ready && load.is_some();
        let status = if self.ended().borrow().is_some() {
            RuntimeStatus::Stopped
        } else if self.0.draining.load(Ordering::Acquire) {
            RuntimeStatus::Draining
        } else if all_ready {
            RuntimeStatus::Ready
        } else {
            RuntimeStatus::Degraded
        };
        let load = load.unwrap_or_default();
        RuntimeHealth {
            status,
            llm_ready,
            tools_ready,
            mcp_pool_ready,
            store_ready,
            live_sessions: load.live,
            running_turns: load.running,
            waiting_turns: load.waiting,
        }
    }

    pub(super) async fn ask_metrics(&self) -> MetricsSnapshot {
        let providers = self.is_there(|inner, reply| inner.tree.rooms.llm.tell(LlmMessage::Providers { reply })).await;
        let servers = self.servers();
        let mut counted = self.0.tree.rooms.metrics.snapshot();
        let events_lost = self.0.tree.feed.lost();
        (counted.providers, counted.servers, counted.events_lost) =
            (providers.unwrap_or_default(), servers, events_lost);
        counted
    }

    async fn is_there<T: Send + 'static>(&self, ask: impl FnOnce(&Inner, Reply<T>)) -> Option<T> {
        let (reply, answer) = Reply::channel();
        ask(&self.0, reply);
        tokio::time::timeout(HEALTH_WITHIN, answer).await.ok().flatten()
    }
}
