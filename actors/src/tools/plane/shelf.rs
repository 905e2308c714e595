//! What one host offers, and how it is doing.

use super::{Door, Joining};
use crate::tools::progress::ProgressRoom;
use bob_messages::event::AgentEvent;
use bob_messages::ids::ServerId;
use bob_messages::mcp::{ServerBrief, ServerState, ServerStatus};
use bob_messages::tools::ToolDescriptor;
#[cfg(feature = "mcp")]
use bob_messages::tools::ToolsMessage;
#[cfg(feature = "mcp")]
use ractor::ActorCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Where one host publishes. Whoever has it may publish: the host's actor what it
/// offers, its supervisor how it is doing. Clones are the same shelf.
#[derive(Clone)]
pub struct Shelf {
    host: Arc<Host>,
    raise: Raise,
    progress: ProgressRoom,
}

/// Called after each publication, with what is to be told of processes.
type Raise = Arc<dyn Fn(Vec<AgentEvent>) + Send + Sync>;

/// One host of tools.
#[derive(Debug)]
pub(super) struct Host {
    /// Tells it from every other host there ever was.
    pub(super) serial: u64,
    pub(super) door: Box<dyn Door>,
    /// How long a turn's first prompt waits for its first start.
    pub(super) patience: Duration,
    server: Option<Server>,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
struct Server {
    id: ServerId,
    transport: &'static str,
    required: bool,
}

/// How it is doing.
#[derive(Debug, Default)]
struct Standing {
    state: ServerState,
    tools: Arc<[Arc<ToolDescriptor>]>,
    /// When a first prompt stops waiting for it; `None` once it was ready or has failed.
    until: Option<Instant>,
    restarts: u32,
    pid: Option<i32>,
    /// How its process ended, until that was told.
    exit: Option<String>,
    name: Option<String>,
    last_error: Option<String>,
}

/// Whether a first prompt has to wait for a host.
pub(super) enum Settling {
    Settled,
    Starting { until: Instant },
    Asleep,
}

fn next_serial() -> u64 {
    static SERIALS: AtomicU64 = AtomicU64::new(1);
    SERIALS.fetch_add(1, Ordering::Relaxed)
}

impl Host {
    pub(super) fn local(door: Box<dyn Door>) -> Self {
        let standing = Standing { state: ServerState::Ready, ..Standing::default() };
        Self { serial: next_serial(), door, patience: Duration::ZERO, server: None, standing: Mutex::new(standing) }
    }

    pub(super) fn server(joining: Joining, door: Box<dyn Door>) -> Self {
        let Joining { id, transport, required, asleep, patience } = joining;
        let standing = if asleep { Standing::default() } else { Standing::starting(patience) };
        let server = Some(Server { id, transport, required });
        Self { serial: next_serial(), door, patience, server, standing: Mutex::new(standing) }
    }

    pub(super) fn id(&self) -> Option<&ServerId> {
        self.server.as_ref().map(|server| &server.id)
    }

    pub(super) fn is_server(&self, id: &str) -> bool {
        self.server.as_ref().is_some_and(|server| server.id.as_str() == id)
    }

    pub(super) fn offered(&self) -> Vec<Arc<ToolDescriptor>> {
        self.standing().tools.to_vec()
    }

    pub(super) fn settling(&self) -> Settling {
        let standing = self.standing();
        match (standing.state, standing.until) {
            (ServerState::Asleep, _) => Settling::Asleep,
            (_, Some(until)) => Settling::Starting { until },
            (_, None) => Settling::Settled,
        }
    }

    /// Why it is down for good; `None` when it may be back soon.
    pub(super) fn down(&self) -> Option<String> {
        let standing = self.standing();
        let why = standing.last_error.as_deref().unwrap_or("nobody knows why");
        match standing.state {
            ServerState::GaveUp => Some(format!("its server died too often and is left down: {why}")),
            ServerState::Stopped => Some("its server was stopped".to_owned()),
            ServerState::Asleep | ServerState::Starting | ServerState::Ready | ServerState::Restarting => None,
        }
    }

    pub(super) fn status(&self) -> Option<ServerStatus> {
        let server = self.server.as_ref()?;
        let standing = self.standing();
        Some(ServerStatus {
            id: server.id.clone(),
            transport: server.transport.to_owned(),
            state: standing.state,
            tools: standing.tools.len(),
            restarts: standing.restarts,
            pid: standing.pid,
            server: standing.name.clone(),
            last_error: standing.last_error.clone(),
            required: server.required,
        })
    }

    pub(super) fn brief(&self) -> Option<ServerBrief> {
        Some(ServerBrief { id: self.server.as_ref()?.id.clone(), state: self.standing().state, note: None })
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn starting(patience: Duration) -> Self {
        Self { state: ServerState::Starting, until: Some(Instant::now() + patience), ..Self::default() }
    }
}

impl Shelf {
    pub(super) fn new(
        host: Arc<Host>,
        progress: ProgressRoom,
        raise: impl Fn(Vec<AgentEvent>) + Send + Sync + 'static,
    ) -> Self {
        Self { host, progress, raise: Arc::new(raise) }
    }

    /// The host sets out to start.
    pub fn starting(&self) {
        let patience = self.host.patience;
        self.publish(|standing| match standing.state {
            ServerState::Asleep => *standing = Standing::starting(patience),
            ServerState::Starting | ServerState::Restarting | ServerState::Ready => {}
            ServerState::GaveUp | ServerState::Stopped => {
                standing.state = ServerState::Starting;
                standing.restarts = standing.restarts.saturating_add(1);
            }
        });
    }

    /// The host runs under this process id, if it has a process.
    pub fn runs(&self, pid: Option<i32>) {
        self.publish(|standing| standing.pid = pid);
    }

    /// Its process ended, in these words; what becomes of the host is said elsewhere.
    pub fn ended(&self, status: String) {
        self.publish(|standing| {
            standing.pid = None;
            standing.exit = Some(status);
        });
    }

    /// The host is ready and offers these tools, in this order; they replace what it
    /// offered before. `name` is what the server calls itself.
    pub fn offer(&self, tools: Arc<[Arc<ToolDescriptor>]>, name: Option<String>) {
        self.publish(|standing| {
            standing.state = ServerState::Ready;
            standing.until = None;
            standing.tools = tools;
            standing.name = name.or_else(|| standing.name.take());
        });
    }

    /// The host died or could not be started, and is started again. What it offered
    /// stays on offer: calls wait for it a while.
    pub fn restarting(&self, why: String) {
        self.publish(|standing| {
            standing.state = ServerState::Restarting;
            standing.until = None;
            standing.restarts = standing.restarts.saturating_add(1);
            standing.last_error = Some(why);
        });
    }

    /// The host died too often: its tools are gone from the next prompt on.
    pub fn gave_up(&self, why: String) {
        self.publish(|standing| {
            standing.state = ServerState::GaveUp;
            standing.until = None;
            standing.tools = Arc::default();
            standing.last_error = Some(why);
        });
    }

    /// The host was stopped and does not come back by itself.
    pub fn stopped(&self) {
        self.publish(|standing| {
            standing.state = ServerState::Stopped;
            standing.until = None;
            standing.tools = Arc::default();
        });
    }

    /// Sends questions that came too late for the actor that ends to whoever comes after it,
    /// or answers them without having been sent.
    #[cfg(feature = "mcp")]
    pub(crate) fn hand_on(&self, questions: Vec<ToolsMessage>, from: ActorCell) {
        if questions.is_empty() {
            return;
        }
        let host = Arc::clone(&self.host);
        tokio::spawn(async move {
            let _it_has_ended = from.wait(None).await;
            questions.into_iter().for_each(|question| super::wait_for(Arc::clone(&host), question));
        });
    }

    /// Where calls of this host tell their progress.
    pub(crate) fn progress(&self) -> ProgressRoom {
        self.progress.clone()
    }

    fn publish(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = self.host.standing();
        let before = standing.pid;
        change(&mut standing);
        let events = self.host.server.as_ref().map(|server| processes(&server.id, before, &mut standing));
        drop(standing);
        (self.raise)(events.unwrap_or_default());
    }
}

/// What is to be told when the process was `before` and is now as it stands.
fn processes(server: &ServerId, before: Option<i32>, standing: &mut Standing) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    if before == standing.pid {
        return events;
    }
    if let Some(pid) = before {
        let status = standing.exit.take().unwrap_or_else(|| "ended".to_owned());
        events.push(AgentEvent::McpProcessStopped { server: server.clone(), pid, status });
    }
    if let Some(pid) = standing.pid {
        events.push(AgentEvent::McpProcessStarted { server: server.clone(), pid });
    }
    events
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("host", &self.host).finish_non_exhaustive()
    }
}
