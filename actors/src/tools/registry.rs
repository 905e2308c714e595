//! The tool registry: every host of tools in a runtime, as turns see it.
//!
//! A host is an actor with tools: the one of this process, and one for each tool server. Hosts publish what they offer
//! on their [`Publisher`]; turns read all publishers at once, without asking an actor, and send each call to the host
//! that its name identifies. The registry owns the list of hosts and the way to each. It judges nothing: the host that
//! performs a call does.
//!
//! | file | what is in it |
//! |---|---|
//! | `away` | a host that cannot be called now: how long is waited, and what is said |
//! | `publisher` | what one host offers, and how it is doing |
//! | `host_address` | the way to a host over its restarts |
//! | `sets` | the tool sets of sessions, made once and shared |
//! | `isolated`, `known_tools` | the servers that not all sessions share |
//! | `brought` | the servers of single sessions, which no other session sees |
//! | `send` | a question to a host that may be away |

mod away;
mod brought;
mod host_address;
mod isolated;
mod known_tools;
mod publisher;
mod send;
mod sets;

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;

pub use brought::{Attachment, Isolated, Lease, SessionHost};
pub use host_address::HostAddress;
pub use isolated::{IsolatedServer, IsolatedServers};
pub use known_tools::KnownTools;
pub use publisher::Publisher;
pub(crate) use send::not_sent;

use crate::address::Address;
use crate::clock;
use crate::feed::Feed;
use crate::tools::progress::ProgressRoom;
use crate::tools::runtime_handle::RuntimeHandle;
use bob_messages::ids::{ServerId, SessionId, TenantId, TurnId};
use bob_messages::mcp::{ServerBrief, ServerStatus};
use bob_messages::options::ServerSpec;
use bob_messages::pool::ServerOwner;
use bob_messages::tools::{LocalToolsMessage, ToolSet, ToolsMessage};
use brought::Brought;
use isolated::Source;
use publisher::{Host, Settling};
use send::{judged_by_one_of_two, name_of, session_of, wait_for};
use sets::Sets;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

/// The tools of one runtime. Clones are the same registry.
#[derive(Debug, Clone)]
pub struct ToolRegistry(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    local: Arc<Host>,
    address: Address<LocalToolsMessage>,
    /// The tool servers, in the order they are offered.
    servers: RwLock<Vec<Arc<Host>>>,
    /// Those that sessions bring, and those that they share with few others.
    brought: Brought,
    /// Where the latter come from.
    isolated: Source,
    /// Counts what was published.
    published: watch::Sender<u64>,
    sets: Mutex<Sets>,
    /// Where it is told that processes start and end.
    feed: OnceLock<Arc<Feed>>,
    runtime: RuntimeHandle,
}

impl Default for ToolRegistry {
    fn default() -> Self {
        let address = Address::default();
        let local = Host::local(Box::new(address.clone()));
        let (published, _) = watch::channel(0);
        Self(Arc::new(Registry {
            local: Arc::new(local),
            address,
            servers: RwLock::default(),
            brought: Brought::default(),
            isolated: Source::default(),
            published,
            sets: Mutex::default(),
            feed: OnceLock::new(),
            runtime: RuntimeHandle::default(),
        }))
    }
}

impl ToolRegistry {
    /// Tells this feed whenever a process of a tool server starts or ends. The first feed stays.
    pub fn report_to(&self, feed: &Arc<Feed>) {
        let _the_first_stays = self.0.feed.set(Arc::clone(feed));
    }

    /// The runtime whose tools these are, for their calls.
    pub fn runtime(&self) -> &RuntimeHandle {
        &self.0.runtime
    }

    /// Where the actor with the tools of this process is found.
    pub fn local(&self) -> &Address<LocalToolsMessage> {
        &self.0.address
    }

    /// Where the actor with the tools of this process publishes them.
    pub fn local_publisher(&self) -> Publisher {
        self.publisher(&self.0.local)
    }

    /// A tool server joins, behind those that are there. One that is there under this id is replaced in its place.
    pub fn join(&self, spec: &ServerSpec, address: impl HostAddress) -> Publisher {
        let host = Arc::new(Host::server(spec, Box::new(address)));
        {
            let mut servers = self.0.servers.write().unwrap_or_else(PoisonError::into_inner);
            match servers.iter_mut().find(|other| other.id() == host.id()) {
                Some(place) => *place = Arc::clone(&host),
                None => servers.push(Arc::clone(&host)),
            }
        }
        self.raise();
        self.publisher(&host)
    }

    /// A tool server left the configuration: its tools are gone from the next prompt on.
    pub fn leave(&self, id: &ServerId) {
        self.0.servers.write().unwrap_or_else(PoisonError::into_inner).retain(|host| host.id() != Some(id));
        self.raise();
    }

    /// A tool server joins that only the sessions see that it is [given](Self::give) to.
    pub fn join_as_guest(&self, spec: &ServerSpec, address: impl HostAddress) -> (SessionHost, Publisher) {
        let host = Arc::new(Host::server(spec, Box::new(address)));
        let publisher = self.publisher(&host);
        (SessionHost(host), publisher)
    }

    /// Offers these servers, too, which not all sessions share. The first call counts.
    pub fn isolate(&self, servers: Arc<dyn IsolatedServers>) {
        self.0.isolated.set(servers);
    }

    /// A process of such a server joins, which only the sessions of its owner use; `node` is its name in the tree.
    pub fn join_isolated(
        &self,
        spec: &ServerSpec,
        address: impl HostAddress,
        known: &KnownTools,
        (node, owner): (&str, &ServerOwner),
    ) -> (SessionHost, Publisher) {
        let host = Arc::new(Host::server(spec, Box::new(address)).isolated(known, Some((node, owner))));
        let publisher = self.publisher(&host);
        (SessionHost(host), publisher)
    }

    /// The outcome of this submission is told: its turn uses no process that it shares. The next one may have begun by now, also
    /// one that goes on with a suspended turn, and keeps what it uses.
    pub fn rest(&self, session: &SessionId, submission: &TurnId) {
        if self.0.isolated.is_set() {
            self.0.brought.rest(session, submission);
        }
    }

    /// The session has no actor: no turn of it uses a process that it shares.
    pub fn release(&self, session: &SessionId) {
        if self.0.isolated.is_set() {
            self.0.brought.release(session);
        }
    }

    /// No turn of any session runs.
    pub fn all_rest(&self) {
        if self.0.isolated.is_set() {
            self.0.brought.all_rest();
        }
    }

    /// Gives a session servers of its own, from its next turn on, as far as its options name them then. What they
    /// replace comes back; the leases in it may end where no lock is held.
    pub fn give(&self, session: &SessionId, attachments: Vec<Attachment>) -> Vec<Attachment> {
        self.0.brought.give(session, attachments)
    }

    /// The servers that were started for a session, each as its options name it and as it was started.
    pub fn given(&self, session: &SessionId) -> Vec<(ServerSpec, ServerSpec)> {
        self.0.brought.given(session)
    }

    /// Whether a session was given servers, and has them.
    pub fn has_own(&self, session: &SessionId) -> bool {
        self.0.brought.has_given(session)
    }

    /// Takes these back from a session, as far as none of its turns has begun with them.
    pub fn take_back(&self, session: &SessionId, launches: &[ServerSpec]) {
        self.0.brought.take_back(session, launches);
    }

    /// Takes everything away that a session was given.
    pub fn take_away(&self, session: &SessionId) {
        self.0.brought.take_away(session);
    }

    /// How each tool server is doing, in their order, then each process of those that not all sessions share.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let shared = self.hosts();
        shared.iter().filter_map(|host| host.status()).chain(self.0.isolated.statuses()).collect()
    }

    /// Name and state of each tool server, as the beginning of a turn of this session reports them.
    pub fn briefs(&self, session: &SessionId) -> Vec<ServerBrief> {
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers.iter().filter_map(|host| host.brief()).chain(self.0.brought.briefs(session)).collect()
    }

    /// Told whenever a host published something.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.published.subscribe()
    }

    /// The tools that are on offer at this moment. Wakes no host and waits for none.
    pub fn now(&self) -> Arc<ToolSet> {
        self.set(&self.0.isolated.templates(), None)
    }

    /// The tools a session with this list may use now. `tell` is called at once, unless a server is being started for
    /// the first time: then it is called from a task when each server is ready or has failed, or its patience is over.
    /// A server whose list is old reads it again meanwhile, for the next caller.
    pub fn list(&self, allow: Option<Arc<[String]>>, tell: impl FnOnce(Arc<ToolSet>) + Send + 'static) {
        let (own, leases) = self.0.isolated.for_a_list();
        let tell = move |tools| {
            drop(leases);
            tell(tools);
        };
        if let Some((tools, tell)) = self.list_with(own, allow, tell) {
            tell(tools);
        }
    }

    /// Lists the tools for a turn that begins, with those of the servers its session brings and of those that it shares
    /// with its tenant or with none. A list that is at hand is returned, and `tell` is not called.
    pub fn list_for(
        &self,
        (session, turn, tenant): (&SessionId, &TurnId, Option<&TenantId>),
        named: &[ServerSpec],
        allow: Option<Arc<[String]>>,
        tell: impl FnOnce(Arc<ToolSet>) + Send + 'static,
    ) -> Option<Arc<ToolSet>> {
        let isolated = self.0.isolated.attach(tenant, Some(session));
        self.list_with(self.0.brought.turn_begins((session, turn), named, isolated), allow, tell)
            .map(|(tools, _not_called)| tools)
    }

    /// Gives `tell` back with a list that is at hand.
    fn list_with<F: FnOnce(Arc<ToolSet>) + Send + 'static>(
        &self,
        own: Arc<[Arc<Host>]>,
        allow: Option<Arc<[String]>>,
        tell: F,
    ) -> Option<(Arc<ToolSet>, F)> {
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers.iter().chain(own.iter()).for_each(|host| host.address.look());
        drop(servers);
        let Some(until) = self.settles_until(&own) else { return Some((self.set(&own, allow.as_ref()), tell)) };
        let registry = self.clone();
        tokio::spawn(async move {
            let mut published = registry.changes();
            let settled = async {
                while registry.settles_until(&own).is_some() {
                    if published.changed().await.is_err() {
                        return;
                    }
                }
            };
            let _ready_or_too_late = tokio::time::timeout_at(until, settled).await;
            tell(registry.set(&own, allow.as_ref()));
        });
        None
    }

    /// Sends a question to the host of its tool. When the host has no actor, it waits for one a while, in a task, and
    /// is then answered without having been sent. A call that was to be judged by a tool server that ended instead goes
    /// to its successor in the same way, once; a call that was to be run goes nowhere twice.
    pub fn tell(&self, message: ToolsMessage) {
        let host = match self.host_of(&message) {
            Ok(host) => host,
            Err(why) => return not_sent(message, &why),
        };
        // A name of no tool may be one that was offered before its server ended.
        if let Some(why) = self.gone(&message) {
            return not_sent(message, &why);
        }
        let message = judged_by_one_of_two(&host, message);
        if host.is_away() {
            return wait_for(host, message);
        }
        if let Err(message) = host.address.send(message) {
            wait_for(host, *message);
        }
    }

    /// Why the tool that is meant by a native name that nothing offers now is away.
    fn gone(&self, message: &ToolsMessage) -> Option<String> {
        let spoken = name_of(message).as_str();
        if spoken.contains('/') {
            return None;
        }
        let own = self.0.brought.hosts(session_of(message));
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        own.iter().chain(servers.iter()).filter(|host| host.is_meant_by(spoken)).find_map(|host| host.away())
    }

    /// Who performs a call: the session's own server of that name, else the one of all sessions.
    fn host_of(&self, message: &ToolsMessage) -> Result<Arc<Host>, String> {
        let server = name_of(message).as_str().strip_prefix("mcp/").and_then(|rest| rest.split('/').next());
        let Some(id) = server else { return Ok(Arc::clone(&self.0.local)) };
        let own = self.0.brought.host(session_of(message), id);
        if let Ok(Some(own)) = own {
            return Ok(own);
        }
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        match servers.iter().find(|host| host.is_server(id)) {
            Some(host) => Ok(Arc::clone(host)),
            None => own.map(|_none| Arc::clone(&self.0.local)),
        }
    }

    fn hosts(&self) -> Vec<Arc<Host>> {
        self.0.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Until when a list has to wait; wakes the servers that sleep. `None`: not at all.
    fn settles_until(&self, own: &[Arc<Host>]) -> Option<Instant> {
        let now = Instant::now();
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        let waits = servers.iter().chain(own).filter_map(|host| match host.settling() {
            Settling::Settled => None,
            Settling::Starting { until } => (until > now).then_some(until),
            Settling::Asleep => {
                host.address.wake();
                Some(now + host.patience)
            }
        });
        waits.max()
    }

    fn set(&self, own: &[Arc<Host>], allow: Option<&Arc<[String]>>) -> Arc<ToolSet> {
        let published = *self.0.published.borrow();
        let mut sets = self.0.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let serials = own.iter().map(|host| host.serial).collect();
        sets.get(published, serials, allow, || {
            let mut tools = self.0.local.offered();
            // A server of the session's own goes before one of all sessions that came later.
            let is_own = |host: &Arc<Host>| own.iter().any(|other| other.id() == host.id());
            let of_all = self.hosts();
            of_all.iter().filter(|host| !is_own(host)).chain(own).for_each(|host| tools.extend(host.offered()));
            tools
        })
    }

    fn publisher(&self, host: &Arc<Host>) -> Publisher {
        let registry = self.clone();
        let progress = ProgressRoom::of(self.0.feed.get().cloned()).within(&self.0.runtime);
        Publisher::new(Arc::clone(host), progress, move |events| {
            for event in events {
                if let Some(feed) = registry.0.feed.get() {
                    feed.emit_of_tree(clock::now(), event);
                }
            }
            registry.raise();
        })
    }

    fn raise(&self) {
        self.0.published.send_modify(|published| *published += 1);
    }
}
