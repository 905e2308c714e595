//! Reports observations of the worker: ended turns, recovered servers and actors, and resource counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bob::AgentRuntime;
use bob::events::{AgentEvent, Envelope, EventSink};
use bob::health::NodeState;
use bob::tools::servers::ServerState;
use tokio::time::{Instant, MissedTickBehavior};

use super::load::Clients;
use super::telling::Telling;
use crate::soak::plan::{Defect, Plan};
use crate::soak::turns::HEALTHY;
use crate::soak::wire::Report;

/// How often the worker samples itself.
const EVERY: Duration = Duration::from_millis(500);

/// How long a server that was given up stays so: an operator would start it again, too.
const GIVEN_UP: Duration = Duration::from_secs(1);

pub(crate) struct Ends {
    pub(crate) plan: Arc<Plan>,
    pub(crate) telling: Telling,
}

impl EventSink for Ends {
    fn emit(&self, event: &Envelope) {
        let (Some(session), Some(turn)) = (&event.session_id, &event.turn_id) else { return };
        if let AgentEvent::TurnFinished { outcome } = &event.event {
            let times = if self.plan.has(Defect::DoubleEvent) { 2 } else { 1 };
            for _ in 0..times {
                let (session, turn) = (session.to_string(), turn.to_string());
                self.telling.tell(Report::Ended { session, turn, saved: outcome.saved });
            }
        }
    }

    /// The parent learns of an end before the caller does; sending is an unbounded channel.
    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// Reports resource counts until dropped.
pub(crate) async fn samples(clients: &Clients) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let health = clients.runtime.health().await;
        clients.telling.tell(Report::Sample {
            live: health.live_sessions,
            running: health.running_turns,
            waiting: health.waiting_turns,
        });
    }
}

/// Reports outages of servers and restarts those that were given up, until dropped.
pub(crate) async fn servers(clients: &Clients) {
    let mut changes = clients.runtime.server_changes();
    let mut away: HashMap<String, Instant> = HashMap::new();
    loop {
        let mut given_up = Vec::new();
        let servers = clients.runtime.servers();
        let is_meant = |id: &str| clients.plan.own.is_some() || HEALTHY.contains(&id);
        for server in servers.into_iter().filter(|server| is_meant(server.id.as_str())) {
            let id = server.id.to_string();
            match server.state {
                ServerState::Ready | ServerState::Asleep => {
                    if let Some(since) = away.remove(&id) {
                        let after_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                        clients.telling.tell(Report::Back { who: id, after_ms });
                    }
                }
                ServerState::GaveUp => given_up.push(server.id),
                ServerState::Starting | ServerState::Restarting | ServerState::Stopped => {
                    away.entry(id).or_insert_with(Instant::now);
                }
            }
        }
        if given_up.is_empty() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        } else {
            tokio::time::sleep(GIVEN_UP).await;
            for id in given_up {
                clients.runtime.restart_server(id).await;
            }
        }
    }
}

/// How many actors there are; of sessions at most those the tree shows.
pub(crate) async fn actors(clients: &Clients) -> usize {
    fn count(nodes: &[NodeState]) -> usize {
        nodes.iter().map(|node| 1 + count(&node.children)).sum()
    }
    count(&clients.runtime.tree().await)
}
