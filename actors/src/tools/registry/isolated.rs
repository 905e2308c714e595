//! The servers of the configuration that not all sessions share: a session uses the process of its tenant, or one of its
//! own, for as long as a turn of it runs.
//!
//! Owns no process: the supervisor of the tools starts and ends them, and chooses the one for a session.

use super::brought::{Lease, SessionHost};
use super::publisher::{Host, Publisher};
use super::{HostAddress, ToolRegistry};
use crate::address::Address;
use bob_messages::ids::{ServerId, SessionId, TenantId};
use bob_messages::mcp::ServerStatus;
use bob_messages::options::ServerSpec;
use bob_messages::pool::ServerOwner;
use bob_messages::tools::{ToolDescriptor, ToolsMessage};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

/// The tools that a server offered when one of its processes was last asked. Prompts are made with them before the process
/// of a session is ready. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct KnownTools(Arc<Mutex<Option<Tools>>>);

type Tools = Arc<[Arc<ToolDescriptor>]>;

impl KnownTools {
    /// The list; `None` before a process was ready.
    pub fn get(&self) -> Option<Tools> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, tools: Tools) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tools);
    }

    pub(super) fn is_read(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// One server for one session, or for a list of tools.
#[derive(Debug)]
pub enum Isolated {
    /// It can be used.
    Host {
        /// Where its tools are.
        host: SessionHost,
        /// Kept while it is used; `None` if no process runs.
        lease: Option<Lease>,
    },
    /// It cannot be used now.
    Missing {
        /// The server.
        id: ServerId,
        /// Why, for the model and the caller.
        why: String,
    },
}

/// A server with all its processes.
#[derive(Debug)]
pub struct IsolatedServer {
    /// Stands for the server while it has no process.
    pub template: SessionHost,
    /// Its processes.
    pub processes: Vec<SessionHost>,
}

/// Chooses the processes of servers that not all sessions share.
pub trait IsolatedServers: Debug + Send + Sync {
    /// The servers for a turn of this session, which are started if need be. Without a session, for a list of tools: then
    /// only those are started whose tools are not known. Must not wait.
    fn attach(&self, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Vec<Isolated>;

    /// All servers.
    fn all(&self) -> Vec<IsolatedServer>;
}

impl ToolRegistry {
    /// Offers these servers, too. The first call counts.
    pub fn isolate(&self, servers: Arc<dyn IsolatedServers>) {
        let _the_first_stay = self.0.isolated.set(servers);
    }

    /// A process of a server joins that only the sessions of its owner use; `node` is its name in the tree.
    pub fn join_isolated(
        &self,
        spec: &ServerSpec,
        address: impl HostAddress,
        known: &KnownTools,
        (node, owner): (&str, &ServerOwner),
    ) -> (SessionHost, Publisher) {
        let host = Host::server(spec, Box::new(address)).isolated(known, Some((node, owner)));
        let host = Arc::new(host);
        let publisher = self.publisher(&host);
        (SessionHost(host), publisher)
    }

    /// Stands for a server while it has no process.
    pub fn template(spec: &ServerSpec, known: &KnownTools) -> SessionHost {
        let asleep = ServerSpec { start: bob_messages::options::ServerStart::Lazy, ..spec.clone() };
        let address = Address::<ToolsMessage>::default();
        SessionHost(Arc::new(Host::server(&asleep, Box::new(address)).isolated(known, None)))
    }

    /// No turn of the session runs any more: it uses no process that it shares.
    pub fn rest(&self, session: &SessionId) {
        if self.0.isolated.get().is_some() {
            self.0.brought.rest(session);
        }
    }

    /// No turn of any session runs.
    pub fn all_rest(&self) {
        if self.0.isolated.get().is_some() {
            self.0.brought.all_rest();
        }
    }

    pub(super) fn attach(&self, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Vec<Isolated> {
        self.0.isolated.get().map(|servers| servers.attach(tenant, session)).unwrap_or_default()
    }

    /// The servers as they are listed without a session, and what keeps them while they are.
    pub(super) fn for_a_list(&self) -> (Arc<[Arc<Host>]>, Vec<Lease>) {
        let (mut hosts, mut leases) = (Vec::new(), Vec::new());
        for isolated in self.attach(None, None) {
            if let Isolated::Host { host, lease } = isolated {
                hosts.push(host.0);
                leases.extend(lease);
            }
        }
        (hosts.into(), leases)
    }

    pub(super) fn templates(&self) -> Vec<Arc<Host>> {
        self.isolated_servers().into_iter().map(|server| server.template.0).collect()
    }

    /// The processes, and the servers without one.
    pub(super) fn isolated_statuses(&self) -> Vec<ServerStatus> {
        let of = |server: IsolatedServer| match server.processes.is_empty() {
            true => vec![server.template],
            false => server.processes,
        };
        self.isolated_servers().into_iter().flat_map(of).filter_map(|host| host.0.status()).collect()
    }

    fn isolated_servers(&self) -> Vec<IsolatedServer> {
        self.0.isolated.get().map(|servers| servers.all()).unwrap_or_default()
    }
}
