//! The tool servers of a runtime as children of the tools supervisor.
//!
//! Owns the current specs, to compute the changes of a reload. It adds the servers to the tool registry, passes
//! arguments to their actors, and reports failures and restarts to the registry. It starts nothing itself and never
//! talks to a server.

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;

use super::DesiredServers;
use super::registry::{BroughtBounds, Configured, ServerPool, Servers};
use crate::children::{ChildEvent, ChildSpec};
use bob_actors::address::Address;
use bob_actors::approvals::ApprovalPort;
use bob_actors::child::{Ladder, Watcher};
use bob_actors::feed::Feed;
use bob_actors::mcp::{McpServerActor, McpServerArguments, SignIns};
use bob_actors::metrics::Metrics;
use bob_actors::tape::Recorder;
use bob_actors::tools::registry::{KnownTools, Publisher, SessionHost, ToolRegistry};
use bob_actors::tools::{Policy, ToolHooks};
use bob_actors::watchdog::Watchdog;
use bob_messages::ids::ServerId;
use bob_messages::mcp::{McpMessage, Reloaded};
use bob_messages::options::{Named, ServerSpec, ServerStart, ServerTransport};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How a server's process is stopped: 2.5 s at most, so that a whole runtime ends within 3 s after its turns.
const LADDER: Ladder = Ladder {
    after_eof: Duration::from_secs(1),
    after_term: Duration::from_secs(1),
    after_kill: Duration::from_millis(500),
};

/// The most bytes an id may have.
const MAX_ID_BYTES: usize = 64;

/// Shared arguments of all servers.
#[derive(Clone)]
pub struct Surroundings {
    /// Where their tools are published.
    pub registry: ToolRegistry,
    /// Receives restart events.
    pub feed: Arc<Feed>,
    /// Warns of actors whose handlers block.
    pub watchdog: Watchdog,
    /// Where that is counted.
    pub metrics: Arc<Metrics>,
    /// The rules over their tools.
    pub policy: Policy,
    /// Ends their processes when this program cannot.
    pub watcher: Watcher,
    /// Port for forms of servers.
    pub elicit: Option<Arc<dyn ApprovalPort>>,
    /// How servers of the configuration are signed in to. One that a session brings has no part in its tokens.
    pub sign_ins: SignIns,
    /// Records calls, if a tape is recorded.
    pub recorder: Option<Recorder>,
    /// What is asked about their calls beside the policy.
    pub hooks: ToolHooks,
    /// Whether all tools come from a tape: then sessions bring no servers.
    pub is_replay: bool,
    /// How long a session's server keeps running after the last session detached it.
    pub brought_end_after: Duration,
    /// How many of those there may be.
    pub brought_bounds: BroughtBounds,
    /// The processes of servers of the configuration that not all sessions share.
    pub pool: ServerPool,
}

/// The tool servers of one runtime. Clones share them.
#[derive(Clone)]
pub struct ToolServers(Arc<Inner>);

pub(super) struct Inner {
    pub(super) surroundings: Surroundings,
    pub(super) desired: DesiredServers,
    servers: Mutex<Servers>,
    /// The origin of the pool's time.
    pub(super) began: Instant,
    /// Notified when a process of the pool is used by one session less.
    pub(super) released: Arc<Notify>,
    has_isolated: AtomicBool,
}

/// A list of servers that cannot stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidServers(String);

impl InvalidServers {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

impl ToolServers {
    /// Creates the servers of a runtime; they start with its tree.
    ///
    /// # Errors
    /// Returns an error if an id is duplicate or invalid.
    pub fn new(surroundings: Surroundings, specs: Vec<ServerSpec>) -> Result<Self, InvalidServers> {
        check(&specs)?;
        let (brought, after) = (surroundings.brought_bounds, surroundings.brought_end_after);
        let mut servers = Servers::new(surroundings.pool, after, brought);
        let mut children = Vec::with_capacity(specs.len());
        for spec in specs {
            let configured = surroundings.configured(None, spec);
            if configured.isolated.is_none() {
                children.push(surroundings.child(configured.arguments.clone()));
            }
            servers.configured.push(configured);
        }
        let inner = Inner {
            has_isolated: AtomicBool::new(servers.has_isolated()),
            surroundings,
            desired: DesiredServers::of(children),
            servers: Mutex::new(servers),
            began: Instant::now(),
            released: Arc::default(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The configured servers as child specifications; the tools supervisor starts and stops children to match them.
    pub fn desired(&self) -> DesiredServers {
        self.0.desired.clone()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Replaces the list of servers. An unchanged one keeps running; one that changed, or is removed and added again,
    /// starts after its old process has ended. A required server that does not start is reported and retried like any
    /// other. Does not wait.
    ///
    /// # Errors
    /// As [`new`](Self::new), and in a replay; then nothing changes.
    pub fn reload(&self, specs: Vec<ServerSpec>) -> Result<Reloaded, InvalidServers> {
        check(&specs)?;
        let Inner { surroundings, desired, .. } = &*self.0;
        if surroundings.is_replay {
            return Err(InvalidServers::new(
                "all tools here are those of a tape, beside which no server starts".into(),
            ));
        }
        let mut servers = self.0.servers();
        let Servers { configured, left, .. } = &mut *servers;
        let now = std::mem::take(configured);
        let mut reloaded = Reloaded::default();
        let mut next: Vec<Configured> = Vec::with_capacity(specs.len());
        for spec in specs.into_iter().map(started_by_need) {
            let id = spec.id.clone();
            let before = now.iter().find(|before| before.arguments.spec.id == id);
            if let Some(before) = before.filter(|before| before.arguments.spec == spec) {
                next.push(before.clone());
                reloaded.kept.push(id);
                continue;
            }
            let list = if before.is_some() { &mut reloaded.changed } else { &mut reloaded.started };
            list.push(id.clone());
            let was_shared = before.is_some_and(|before| before.isolated.is_none());
            let before = before.map(|before| &before.arguments);
            let before = before.or_else(|| left.iter().find(|arguments| arguments.spec.id == id));
            let changed = surroundings.configured(before, spec);
            if changed.isolated.is_none() {
                desired.replace(id.as_str(), Some(surroundings.child(changed.arguments.clone())));
            } else if was_shared {
                desired.replace(id.as_str(), None);
                surroundings.registry.leave(&id);
            }
            next.push(changed);
        }
        let is_gone =
            |arguments: &McpServerArguments| next.iter().all(|other| other.arguments.spec.id != arguments.spec.id);
        left.retain(|arguments| is_gone(arguments) && !arguments.is_vacant());
        for gone in now.into_iter().filter(|before| is_gone(&before.arguments)) {
            if gone.isolated.is_none() {
                desired.replace(gone.arguments.spec.id.as_str(), None);
            }
            // Also tells the sessions that the list of servers changed.
            surroundings.registry.leave(&gone.arguments.spec.id);
            reloaded.stopped.push(gone.arguments.spec.id.clone());
            left.push(gone.arguments);
        }
        *configured = next;
        self.0.has_isolated.store(servers.has_isolated(), Ordering::Relaxed);
        let Servers { configured, pool, .. } = &mut *servers;
        let ended = pool.end_configured(|spec| configured.iter().all(|one| one.arguments.spec != *spec));
        self.0.end_now(&mut servers, &ended);
        Ok(reloaded)
    }
}

impl Inner {
    pub(super) fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_isolated(&self) -> bool {
        self.has_isolated.load(Ordering::Relaxed)
    }
}

impl Surroundings {
    fn configured(&self, before: Option<&McpServerArguments>, spec: ServerSpec) -> Configured {
        let mut arguments = self.arguments(before, spec);
        arguments.sign_ins = self.sign_ins.clone();
        let is_isolated = !arguments.spec.isolation.is_shared() && !self.is_replay;
        let isolated = is_isolated.then(|| {
            let known = KnownTools::default();
            let template = SessionHost::template(&arguments.spec, &known);
            (known, template)
        });
        Configured { arguments, isolated }
    }

    /// The arguments of a server's actor, in the place of the one it replaces.
    pub(super) fn arguments(&self, before: Option<&McpServerArguments>, spec: ServerSpec) -> McpServerArguments {
        let spec = started_by_need(spec);
        let mut arguments = McpServerArguments::new(spec, self.policy.clone(), self.watcher.clone());
        arguments.ladder = LADDER;
        arguments.elicit.clone_from(&self.elicit);
        arguments.recorder.clone_from(&self.recorder);
        arguments.hooks.clone_from(&self.hooks);
        match before {
            Some(before) => arguments.in_place_of(before),
            None => arguments,
        }
    }

    fn child(&self, arguments: McpServerArguments) -> ChildSpec {
        let address: Address<McpMessage> = Address::default();
        let publisher = self.registry.join(&arguments.spec, address.clone());
        self.child_at(arguments.spec.id.to_string(), arguments, address, publisher)
    }

    /// The child of this name whose tools are published on this publisher.
    pub(super) fn child_at(
        &self,
        name: String,
        mut arguments: McpServerArguments,
        address: Address<McpMessage>,
        publisher: Publisher,
    ) -> ChildSpec {
        let id = arguments.spec.id.clone();
        arguments.publisher = Some(publisher.clone());
        let was_started = AtomicBool::new(false);
        let make = move || {
            let mut arguments = arguments.clone();
            // A restart implies that the server was needed before, or is requested by the user.
            if was_started.swap(true, Ordering::Relaxed) {
                arguments.spec.start = ServerStart::Eager;
            }
            (McpServerActor, arguments)
        };
        let path = format!("tools/{name}");
        let child = ChildSpec::server(name, address, make)
            .observed_by(move |event| tell(&id, &publisher, event))
            .watched_by(&self.watchdog, path.as_str())
            .reporting_to(&self.feed, path)
            .counted_by(&self.metrics);
        ChildSpec { logs_itself: true, ..child }
    }
}

fn tell(server: &ServerId, publisher: &Publisher, event: ChildEvent<'_>) {
    match event {
        ChildEvent::Restarting { why } => {
            tracing::warn!(target: "bob::server", %server, why, "a tool server is down and is started again");
            publisher.restarting(why.to_owned());
        }
        ChildEvent::Restarted { .. } => {}
        ChildEvent::GaveUp { why } => {
            tracing::error!(target: "bob::server", %server, why, "a tool server was down too often and is left down");
            publisher.gave_up(why.to_owned());
        }
        ChildEvent::Stopped => publisher.stopped(),
    }
}

/// A server the runtime cannot do without does not sleep.
fn started_by_need(spec: ServerSpec) -> ServerSpec {
    let start = if spec.required { ServerStart::Eager } else { spec.start };
    ServerSpec { start, ..spec }
}

pub(super) fn check(specs: &[ServerSpec]) -> Result<(), InvalidServers> {
    let mut ids = HashSet::new();
    for ServerSpec { id, transport, .. } in specs {
        let text = id.as_str();
        let is_id = (1..=MAX_ID_BYTES).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !is_id {
            let form = "1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit";
            return Err(InvalidServers(format!("the tool server {text:?} needs an id of {form}")));
        }
        if text == "local" {
            let text = "a tool server cannot have the id \"local\", the name of the tools of this process; rename it";
            return Err(InvalidServers(text.to_owned()));
        }
        if !ids.insert(text) {
            return Err(InvalidServers(format!("two tool servers have the id {text:?}; rename one")));
        }
        if let Some(Named { name, .. }) = transport.named().iter().find(|named| named.value.expose().is_none()) {
            let what = match transport {
                ServerTransport::Stdio(_) => "variable",
                ServerTransport::Http(_) => "header",
            };
            let text = format!("the tool server `{id}` needs its {what} {name}, which is kept nowhere: give it");
            return Err(InvalidServers(text));
        }
    }
    Ok(())
}

impl fmt::Debug for ToolServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolServers").field("desired", &self.0.desired).finish_non_exhaustive()
    }
}
