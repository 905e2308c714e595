//! The servers of the configuration that not all sessions share: a process for each tenant, or for each session.
//!
//! One is started by the first list of tools or call of its owner, and is used by a session while a turn of it runs.

use super::registry::{Configured, Server};
use super::servers::{Inner, ToolServers};
use bob_actors::tools::registry::{Isolated, IsolatedServer, IsolatedServers};
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::pool::{Origin, ServerOwner};
use std::fmt;
use std::sync::{Arc, Weak};

/// The servers, for the tool registry, which must not keep them alive.
struct Isolating(Weak<Inner>);

impl ToolServers {
    /// Has the tool registry offer the servers that not all sessions share.
    pub fn offer_isolated(&self) {
        let inner = self.inner();
        inner.surroundings.registry.isolate(Arc::new(Isolating(Arc::downgrade(inner))));
    }
}

impl IsolatedServers for Isolating {
    fn attach(&self, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Vec<Isolated> {
        self.0.upgrade().map(|inner| inner.attach(tenant, session)).unwrap_or_default()
    }

    fn all(&self) -> Vec<IsolatedServer> {
        self.0.upgrade().map(|inner| inner.all()).unwrap_or_default()
    }
}

impl fmt::Debug for Isolating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Isolating")
    }
}

impl Inner {
    fn attach(self: &Arc<Self>, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Vec<Isolated> {
        if !self.has_isolated() {
            return Vec::new();
        }
        let mut servers = self.servers();
        let mut attached = Vec::new();
        let isolated = |one: &Configured| Some((one.arguments.spec.clone(), one.isolated.clone()?));
        for (spec, (known, template)) in servers.configured.iter().filter_map(isolated).collect::<Vec<_>>() {
            let Some(owner) = ServerOwner::of(spec.isolation, tenant, session) else { continue };
            if session.is_none() && known.get().is_some() {
                attached.push(Isolated::Host { host: template, lease: None });
                continue;
            }
            match servers.pool.make_room(Origin::Configured, &[(&spec, &owner)]) {
                Ok(ended) => {
                    self.end_now(&mut servers, &ended);
                    let (host, lease) = self.take(&mut servers, &spec, &owner, Some(&known));
                    attached.push(Isolated::Host { host, lease: Some(lease) });
                }
                Err(in_use) => {
                    let why = format!(
                        "{in_use} processes of tool servers are in use, which is the most; try again later, or raise \
                         mcp.pool.max_processes"
                    );
                    attached.push(Isolated::Missing { id: spec.id.clone(), why });
                }
            }
        }
        attached
    }

    fn all(&self) -> Vec<IsolatedServer> {
        if !self.has_isolated() {
            return Vec::new();
        }
        let servers = self.servers();
        let all = servers.configured.iter().filter_map(|Configured { arguments, isolated }| {
            let (_, template) = isolated.as_ref()?;
            let is_its = |server: &&Server| server.arguments.spec.id == arguments.spec.id;
            let processes = servers.pooled.iter().filter(is_its).map(|server| server.host.clone()).collect();
            Some(IsolatedServer { template: template.clone(), processes })
        });
        all.collect()
    }
}
