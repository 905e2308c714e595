//! The sessions as they look from outside.

use super::SessionsState;
use crate::guests::Guest;
use crate::look::{NodeState, NodeStatus};
use bob_actors::rooms::Rooms;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::submission::{LiveSession, LiveState, SessionsLoad, SessionsMessage};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// How many sessions the live tree shows.
const MOST_SHOWN: usize = 1_000;

impl SessionsState {
    pub(super) fn live(&self, most: usize) -> Vec<LiveSession> {
        let mut all: Vec<_> = self.book.iter().collect();
        if all.len() > most {
            // Those whose turns run, then those who wait, then the idle ones.
            all.sort_by_key(|(_, guest)| (guest.running().is_none(), guest.is_idle()));
            all.truncate(most);
        }
        let mut live: Vec<_> = all.into_iter().map(|(session, guest)| seen(session, guest)).collect();
        live.sort_unstable_by(|one, other| one.session.cmp(&other.session));
        live
    }

    pub(super) fn load(&self) -> SessionsLoad {
        SessionsLoad { live: self.book.len(), running: self.admission.running(), waiting: self.admission.waiting() }
    }
}

fn seen(session: &SessionId, guest: &Guest) -> LiveSession {
    let is_asking = match &guest.ahead {
        Some(ahead) => ahead.clock.is_paused(),
        None => guest.owed.front().is_some_and(|first| first.clock.is_paused()),
    };
    let state = match guest.running() {
        _ if guest.leaving.is_some() => LiveState::Leaving,
        Some(_) if is_asking => LiveState::Asking,
        Some(_) => LiveState::Running,
        None if guest.owed.is_empty() => LiveState::Idle,
        None => LiveState::Waiting,
    };
    LiveSession {
        session: session.clone(),
        state,
        age_ms: u64::try_from(guest.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        owed: guest.owed.len(),
        at_door: guest.at_door(),
        restarts: guest.crashes,
        last_error: guest.crashed_of.as_deref().map(str::to_owned),
    }
}

/// Asks the supervisor who is in these rooms for the live tree.
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
            LiveState::Leaving => NodeStatus::Stopping,
        },
        age_ms: live.age_ms,
        restarts: live.restarts,
        last_error: live.last_error,
        queued: Some(live.owed),
        children: Vec::new(),
    }
}
