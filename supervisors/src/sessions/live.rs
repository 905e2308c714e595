use super::SessionsState;
use crate::look::{NodeState, NodeStatus};
use crate::session_table::SessionEntry;
use bob_actors::rooms::Rooms;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::reply::Reply;
use bob_messages::submission::{LiveSession, LiveState, SessionsLoad, SessionsMessage};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// The most sessions in a snapshot of the tree.
const MOST_SHOWN: usize = 1_000;

impl SessionsState {
    pub(super) fn live(&self, most: usize) -> Vec<LiveSession> {
        let mut all: Vec<_> = self.table.iter().collect();
        if all.len() > most {
            // Sessions with a running turn first, then those that wait, then the idle ones.
            all.sort_by_key(|(_, entry)| (entry.running().is_none(), entry.is_idle()));
            all.truncate(most);
        }
        let mut live: Vec<_> = all.into_iter().map(|(session, entry)| seen(session, entry)).collect();
        live.sort_unstable_by(|one, other| one.session.cmp(&other.session));
        live
    }

    pub(super) fn load(&self) -> SessionsLoad {
        SessionsLoad { live: self.table.len(), running: self.admission.running(), waiting: self.admission.waiting() }
    }

    pub(super) fn tenant_load(&self, tenant: &TenantId) -> SessionsLoad {
        let (running, waiting) = self.admission.of(Some(tenant));
        SessionsLoad { live: 0, running, waiting }
    }
}

fn seen(session: &SessionId, entry: &SessionEntry) -> LiveSession {
    let is_asking = match &entry.recovered {
        Some(recovered) => recovered.clock.is_paused(),
        None => entry.pending.front().is_some_and(|first| first.clock.is_paused()),
    };
    let state = match entry.running() {
        _ if entry.stopping.is_some() => LiveState::Stopping,
        Some(_) if is_asking => LiveState::Asking,
        Some(_) => LiveState::Running,
        None if entry.pending.is_empty() => LiveState::Idle,
        None => LiveState::Waiting,
    };
    LiveSession {
        session: session.clone(),
        state,
        age_ms: u64::try_from(entry.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        pending: entry.pending.len(),
        queued: entry.queued_count(),
        restarts: entry.crashes,
        last_error: entry.last_crash.as_deref().map(str::to_owned),
    }
}

/// A function that asks the sessions supervisor for a snapshot.
pub(super) fn asking(rooms: &Rooms) -> Arc<dyn Fn() -> BoxFuture<'static, Vec<NodeState>> + Send + Sync> {
    let sessions = rooms.sessions.clone();
    Arc::new(move || {
        let (reply, live) = Reply::channel();
        sessions.tell(SessionsMessage::Live { most: MOST_SHOWN, reply });
        async move { live.await.unwrap_or_default().into_iter().map(node).collect() }.boxed()
    })
}

fn node(live: LiveSession) -> NodeState {
    NodeState {
        name: live.session.to_string(),
        state: match live.state {
            LiveState::Idle => NodeStatus::Idle,
            LiveState::Waiting | LiveState::Asking => NodeStatus::Waiting,
            LiveState::Running => NodeStatus::Running,
            LiveState::Stopping => NodeStatus::Stopping,
        },
        age_ms: live.age_ms,
        restarts: live.restarts,
        last_error: live.last_error,
        queued: Some(live.pending),
        children: Vec::new(),
    }
}
