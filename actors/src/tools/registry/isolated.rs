//! The servers of the configuration that not all sessions share: a session uses the process of its tenant, or one of its
//! own, for as long as a turn of it runs.
//!
//! Owns no process: the supervisor of the tools starts and ends them, and chooses the one for a session.

use super::brought::{Isolated, Lease, SessionHost};
use super::publisher::Host;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::mcp::ServerStatus;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

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

/// Where the registry has such servers from, if there are any.
#[derive(Debug, Default)]
pub(super) struct Source(OnceLock<Arc<dyn IsolatedServers>>);

impl Source {
    /// The first stays.
    pub(super) fn set(&self, servers: Arc<dyn IsolatedServers>) {
        let _the_first_stays = self.0.set(servers);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn attach(&self, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Vec<Isolated> {
        self.0.get().map(|servers| servers.attach(tenant, session)).unwrap_or_default()
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
        self.all().into_iter().map(|server| server.template.0).collect()
    }

    pub(super) fn statuses(&self) -> Vec<ServerStatus> {
        let of = |server: IsolatedServer| match server.processes.is_empty() {
            true => vec![server.template],
            false => server.processes,
        };
        self.all().into_iter().flat_map(of).filter_map(|host| host.0.status()).collect()
    }

    fn all(&self) -> Vec<IsolatedServer> {
        self.0.get().map(|servers| servers.all()).unwrap_or_default()
    }
}
