use super::HostAddress;
use super::known_tools::KnownTools;
use crate::tools::policy::Rules;
use crate::tools::progress::ProgressRoom;
use bob_messages::event::AgentEvent;
use bob_messages::ids::ServerId;
use bob_messages::mcp::{ServerBrief, ServerState, ServerStatus};
use bob_messages::options::{ServerSpec, ServerStart};
use bob_messages::pool::ServerOwner;
use bob_messages::tools::ToolDescriptor;
#[cfg(feature = "mcp")]
use bob_messages::tools::ToolsMessage;
#[cfg(feature = "mcp")]
use ractor::ActorCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many starts of a host are remembered.
#[cfg(feature = "mcp")]
const STARTS: usize = 5;

/// Where one host publishes: the host's actor what it offers, its supervisor its state. Clones are the same publisher.
#[derive(Clone)]
pub struct Publisher {
    host: Arc<Host>,
    raise: Raise,
    progress: ProgressRoom,
}

/// Called after each publication, with what is to be told of processes.
type Raise = Arc<dyn Fn(Vec<AgentEvent>) + Send + Sync>;

#[derive(Debug)]
pub(super) struct Host {
    /// Tells it from every other host there ever was.
    pub(super) serial: u64,
    pub(super) address: Box<dyn HostAddress>,
    /// How long a turn's first prompt waits for its first start.
    pub(super) patience: Duration,
    pub(super) server: Option<ServerSpec>,
    /// Of a server that not all sessions share: what its processes offered last.
    known: Option<KnownTools>,
    /// Of a process of such a server: its name in the tree, and whose it is.
    owned: Option<(String, ServerOwner)>,
    pub(super) rules: OnceLock<Arc<Rules>>,
    standing: Mutex<Standing>,
    pub(super) published: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) state: ServerState,
    /// Since when it is in this state.
    pub(super) since: Option<Instant>,
    tools: Arc<[Arc<ToolDescriptor>]>,
    /// What it offered when it went.
    pub(super) gone: Arc<[Arc<ToolDescriptor>]>,
    /// How long its last starts took, the newest last.
    pub(super) starts: VecDeque<Duration>,
    /// When a first prompt stops waiting for it; `None` once it was ready or has failed.
    until: Option<Instant>,
    restarts: u32,
    pid: Option<i32>,
    /// How its process ended, until that was told.
    exit: Option<String>,
    name: Option<String>,
    protocol: Option<String>,
    pub(super) last_error: Option<String>,
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
    pub(super) fn local(address: Box<dyn HostAddress>) -> Self {
        let standing = Standing { state: ServerState::Ready, ..Standing::default() };
        Self::new(address, Duration::ZERO, None, standing)
    }

    pub(super) fn server(spec: &ServerSpec, address: Box<dyn HostAddress>) -> Self {
        let patience = spec.startup_timeout();
        let standing = match spec.start {
            ServerStart::Eager => Standing::starting(patience),
            ServerStart::Lazy => Standing::default(),
        };
        Self::new(address, patience, Some(spec.clone()), standing)
    }

    fn new(address: Box<dyn HostAddress>, patience: Duration, server: Option<ServerSpec>, standing: Standing) -> Self {
        let (rules, standing, published) = (OnceLock::new(), Mutex::new(standing), Notify::new());
        let (known, owned) = (None, None);
        Self { serial: next_serial(), address, patience, server, known, owned, rules, standing, published }
    }

    /// It is of a server that not all sessions share.
    pub(super) fn isolated(self, known: &KnownTools, owned: Option<(&str, &ServerOwner)>) -> Self {
        if let Some(tools) = known.get() {
            self.standing().tools = tools;
        }
        let owned = owned.map(|(node, owner)| (node.to_owned(), owner.clone()));
        Self { known: Some(known.clone()), owned, ..self }
    }

    /// Whether its tools are known, though it may not be ready.
    fn is_known(&self) -> bool {
        self.known.as_ref().is_some_and(KnownTools::is_read)
    }

    pub(super) fn id(&self) -> Option<&ServerId> {
        self.server.as_ref().map(|server| &server.id)
    }

    pub(super) fn is_server(&self, id: &str) -> bool {
        self.server.as_ref().is_some_and(|server| server.id.as_str() == id)
    }

    pub(super) fn offered(&self) -> Vec<Arc<ToolDescriptor>> {
        self.tools_of(&self.standing()).to_vec()
    }

    /// The tools that it offers; while it sleeps, those that are known of its server.
    fn tools_of(&self, standing: &Standing) -> Arc<[Arc<ToolDescriptor>]> {
        let known = self.known.as_ref().filter(|_| standing.state == ServerState::Asleep);
        known.and_then(KnownTools::get).unwrap_or_else(|| Arc::clone(&standing.tools))
    }

    pub(super) fn settling(&self) -> Settling {
        let standing = self.standing();
        match (standing.state, standing.until) {
            _ if self.is_known() => Settling::Settled,
            (ServerState::Asleep, _) => Settling::Asleep,
            (_, Some(until)) => Settling::Starting { until },
            (_, None) => Settling::Settled,
        }
    }

    pub(super) fn status(&self) -> Option<ServerStatus> {
        let server = self.server.as_ref()?;
        let standing = self.standing();
        Some(ServerStatus {
            id: server.id.clone(),
            transport: server.transport.name().to_owned(),
            state: standing.state,
            tools: self.tools_of(&standing).len(),
            restarts: standing.restarts,
            pid: standing.pid,
            server: standing.name.clone(),
            protocol: standing.protocol.clone(),
            last_error: standing.last_error.clone(),
            required: server.required,
            owner: self.owned.as_ref().map(|(_, owner)| owner.clone()),
            node: self.owned.as_ref().map(|(node, _)| node.clone()),
        })
    }

    pub(super) fn brief(&self) -> Option<ServerBrief> {
        Some(ServerBrief { id: self.server.as_ref()?.id.clone(), state: self.standing().state, note: None })
    }

    pub(super) fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn starting(patience: Duration) -> Self {
        let now = Instant::now();
        let (since, until) = (Some(now), Some(now + patience));
        Self { state: ServerState::Starting, since, until, ..Self::default() }
    }

    /// It is in this state from now on, if it was not before.
    fn turn(&mut self, state: ServerState) {
        if self.state != state {
            (self.state, self.since) = (state, Some(Instant::now()));
        }
    }

    /// Nothing is offered any more; what was is remembered.
    fn clear(&mut self) {
        let tools = std::mem::take(&mut self.tools);
        if !tools.is_empty() {
            self.gone = tools;
        }
    }
}

impl Publisher {
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
        let known = self.host.known.as_ref().and_then(KnownTools::get).unwrap_or_default();
        self.publish(|standing| match standing.state {
            ServerState::Asleep => *standing = Standing { tools: known, ..Standing::starting(patience) },
            ServerState::Starting | ServerState::Restarting | ServerState::Ready => {}
            ServerState::GaveUp | ServerState::Stopped => {
                standing.turn(ServerState::Starting);
                standing.restarts = standing.restarts.saturating_add(1);
            }
        });
    }

    /// These rules are over its tools. The first stay.
    #[cfg(feature = "mcp")]
    pub(crate) fn ruled_by(&self, rules: Arc<Rules>) {
        let _the_first_stay = self.host.rules.set(rules);
    }

    /// A start took so long, until the tools were listed.
    #[cfg(feature = "mcp")]
    pub(crate) fn started_within(&self, took: Duration) {
        let mut standing = self.host.standing();
        if standing.starts.len() == STARTS {
            standing.starts.pop_front();
        }
        standing.starts.push_back(took);
    }

    /// The version of the protocol that the host speaks; published with its next offer.
    #[cfg(feature = "mcp")]
    pub(crate) fn speaks(&self, protocol: Option<String>) {
        self.host.standing().protocol = protocol;
    }

    /// How long this question waits for the host to be there again.
    #[cfg(feature = "mcp")]
    pub(crate) fn returns_within(&self, message: &ToolsMessage) -> Duration {
        self.host.returns_within(message)
    }

    /// What a model is told of why the host cannot be called; `None` when it can.
    #[cfg(feature = "mcp")]
    pub(crate) fn away(&self) -> Option<String> {
        self.host.away()
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
        if let Some(known) = &self.host.known {
            known.set(Arc::clone(&tools));
        }
        self.publish(|standing| {
            standing.turn(ServerState::Ready);
            standing.until = None;
            standing.tools = tools;
            standing.gone = Arc::default();
            standing.name = name.or_else(|| standing.name.take());
        });
    }

    /// The host died or could not be started, and is started again. What it offered
    /// stays on offer: calls wait for it a while.
    pub fn restarting(&self, why: String) {
        self.publish(|standing| {
            standing.turn(ServerState::Restarting);
            standing.until = None;
            standing.restarts = standing.restarts.saturating_add(1);
            standing.last_error = Some(why);
        });
    }

    /// The host died too often: its tools are gone from the next prompt on.
    pub fn gave_up(&self, why: String) {
        self.publish(|standing| {
            standing.turn(ServerState::GaveUp);
            standing.until = None;
            standing.clear();
            standing.last_error = Some(why);
        });
    }

    /// The host was stopped and does not come back by itself.
    pub fn stopped(&self) {
        self.publish(|standing| {
            standing.turn(ServerState::Stopped);
            standing.until = None;
            standing.clear();
        });
    }

    /// Sends questions that came too late for the actor that ends to its successor,
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

    pub(crate) fn progress(&self) -> ProgressRoom {
        self.progress.clone()
    }

    fn publish(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = self.host.standing();
        let before = standing.pid;
        change(&mut standing);
        let events = self.host.server.as_ref().map(|server| processes(&server.id, before, &mut standing));
        drop(standing);
        self.host.published.notify_waiters();
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

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("host", &self.host).finish_non_exhaustive()
    }
}
