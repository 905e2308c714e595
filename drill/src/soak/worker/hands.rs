//! Timed faults: kills, stops and overload.

use std::time::Duration;

use crate::traps::{Edge, Fault, Target, Trap};
use bob::tools::servers::{ServerState, ServerStatus};
use bob::{AgentRuntime, SessionId};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::Clients;
use crate::soak::chaos::Kind;
use crate::soak::schedule::{Strike, strikes};
use crate::soak::turns::HEALTHY;

/// Actors that a trap can target.
const ROOMS: [&str; 5] = ["store", "llm", "tools/local", "tools", "sessions"];

/// How long a stopped tool server stays stopped.
const STOPPED: Duration = Duration::from_secs(2);

/// Injects faults by the schedule, from where earlier lives ended, until this future is dropped. Running bursts are
/// in `bursts` and must be awaited: their requests are owed replies.
pub(crate) async fn strike(clients: &Clients, elapsed_ms: u64, bursts: &mut JoinSet<()>) {
    // The parent strikes the process itself.
    let mine = clients.plan.chaos.without(Kind::ProcessKill);
    let mut stopped = JoinSet::new();
    for strike in strikes(clients.plan.seed, &mine).skip_while(|strike| strike.at_ms < elapsed_ms) {
        tokio::time::sleep_until(clients.began + Duration::from_millis(strike.at_ms)).await;
        match strike.kind {
            Kind::Overload => {
                bursts.spawn(clients.clone().burst(strike.pick));
            }
            Kind::McpStop => stop(clients, strike, &mut stopped),
            Kind::TurnPanic | Kind::TurnKill | Kind::RoomPanic => trap(clients, strike),
            kind => {
                let signal = if kind == Kind::McpKill { Signal::KILL } else { Signal::TERM };
                if let Some((server, pid)) = pick(clients, strike.pick) {
                    clients.telling.fault(kind, server.id.to_string(), Vec::new());
                    let _already_gone = kill_process(pid, signal);
                }
            }
        }
    }
    std::future::pending::<()>().await;
}

fn trap(clients: &Clients, strike: Strike) {
    let rooms = ROOMS.len() as u64;
    let (target, name, sessions) = if strike.kind == Kind::RoomPanic {
        let room = ROOMS.get((strike.pick % rooms) as usize).copied().unwrap_or("store");
        (Target::Room(room.to_owned()), room.to_owned(), Vec::new())
    } else {
        let name = format!("s{}", strike.pick % u64::from(clients.plan.sessions.max(1)));
        let Ok(session) = SessionId::parse(&name) else { return };
        (Target::Turn(session), name.clone(), vec![name])
    };
    let fault = if strike.kind == Kind::TurnKill { Fault::Kill } else { Fault::Panic };
    // A turn has a dozen messages or more; the trap waits for one of them.
    let skip = u32::try_from(strike.pick / rooms % 12).unwrap_or(0);
    clients.telling.fault(strike.kind, name, sessions);
    clients.traps.arm(Trap::new(target, Edge::Next, fault).after(skip));
}

/// Stops a server's processes and lets them go on later; also when this future's owner loses patience.
fn stop(clients: &Clients, strike: Strike, stopped: &mut JoinSet<()>) {
    let Some((server, pid)) = pick(clients, strike.pick) else { return };
    clients.telling.fault(Kind::McpStop, server.id.to_string(), Vec::new());
    let _already_gone = kill_process_group(pid, Signal::STOP);
    let clients = clients.clone();
    stopped.spawn(async move {
        let _goes_on = GoesOn { clients, server, pid };
        tokio::time::sleep(STOPPED).await;
    });
}

/// Lets a stopped server go on when it is dropped, if it is still that server's process.
struct GoesOn {
    clients: Clients,
    server: ServerStatus,
    pid: Pid,
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        let servers = self.clients.runtime.servers();
        if servers.iter().any(|now| now.id == self.server.id && now.pid == self.server.pid) {
            let _already_gone = kill_process_group(self.pid, Signal::CONT);
        }
    }
}

/// One of the servers that are up and behave, and the leader of its processes.
fn pick(clients: &Clients, pick: u64) -> Option<(ServerStatus, Pid)> {
    let is_target = |server: &ServerStatus| clients.plan.own.is_some() || HEALTHY.contains(&server.id.as_str());
    let ready = clients.runtime.servers().into_iter().filter(|server| server.state == ServerState::Ready);
    let targets: Vec<_> =
        ready.filter(is_target).filter_map(|server| Some((server.pid.and_then(Pid::from_raw)?, server))).collect();
    let count = u64::try_from(targets.len()).ok().filter(|count| *count > 0)?;
    let at = usize::try_from(pick % count).ok()?;
    targets.into_iter().nth(at).map(|(pid, server)| (server, pid))
}

/// Waits until every server that behaves is up, at most this long.
pub(crate) async fn servers_up(clients: &Clients, most: Duration) {
    let until = Instant::now() + most;
    let mut changes = clients.runtime.server_changes();
    // What was up when the run began is what its end is compared with.
    let is_up = |server: &ServerStatus| match server.state {
        ServerState::Ready => true,
        ServerState::Asleep | ServerState::GaveUp if clients.plan.own.is_some() => true,
        _ => clients.plan.own.is_none() && !HEALTHY.contains(&server.id.as_str()),
    };
    while !clients.runtime.servers().iter().all(is_up) {
        if !matches!(tokio::time::timeout_at(until, changes.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}
