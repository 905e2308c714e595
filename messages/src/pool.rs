//! The pool of tool servers that not all sessions share: which process a session uses, and when one ends.
//!
//! It decides and starts nothing: the tools supervisor passes the time, and starts and ends the processes.

use crate::ids::{SessionId, TenantId};
use serde::{Deserialize, Serialize};

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

/// Who shares a process of a tool server, the widest circle first.
#[doc(alias = "McpConnectionPool")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// All sessions. Of a server that a session brings: all sessions of its tenant that bring the same.
    #[default]
    Shared,
    /// The sessions of one tenant; those without a tenant share one, too.
    Tenant,
    /// One session has it alone, and it ends with the session.
    Session,
}

impl Isolation {
    /// Whether all sessions share one process.
    pub fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// Whose calls a process of a tool server runs. It is never given to another owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOwner {
    /// The sessions of a tenant, or those of none.
    Tenant(Option<TenantId>),
    /// One session.
    Session(SessionId),
    /// No session: it was started to read its list of tools.
    Listing,
}

impl ServerOwner {
    /// The owner of the process that this session of this tenant uses; `None` if all sessions share it. Without a session,
    /// that of the process that is asked for the tools.
    pub fn of(isolation: Isolation, tenant: Option<&TenantId>, session: Option<&SessionId>) -> Option<Self> {
        match (isolation, session) {
            (Isolation::Shared, _) => None,
            (Isolation::Tenant, _) => Some(Self::Tenant(tenant.cloned())),
            (Isolation::Session, Some(session)) => Some(Self::Session(session.clone())),
            (Isolation::Session, None) => Some(Self::Listing),
        }
    }
}

impl std::fmt::Display for ServerOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tenant(Some(tenant)) => write!(f, "tenant {tenant}"),
            Self::Tenant(None) => f.write_str("no tenant"),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Listing => f.write_str("list of tools"),
        }
    }
}

/// Where a server of the pool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the configuration.
    Configured,
    /// A session brought it.
    Brought,
}

/// The bounds of the servers of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBounds {
    /// How long an unused server is kept, in milliseconds.
    pub idle_ttl_ms: u64,
    /// The most servers at a time. An unused one is ended for another.
    pub most: usize,
}

/// The servers of a pool. `S` identifies what is started: equal ones of one owner are one server.
#[derive(Debug)]
pub struct Pool<S> {
    configured: PoolBounds,
    brought: PoolBounds,
    servers: Vec<Pooled<S>>,
    /// Counts all servers there ever were, to number them.
    started: u64,
}

#[derive(Debug)]
struct Pooled<S> {
    number: u64,
    origin: Origin,
    spec: S,
    owner: ServerOwner,
    /// How many sessions use it now.
    users: usize,
    /// Since when none does, in milliseconds of the caller's clock.
    idle_since: u64,
}

impl<S: PartialEq> Pool<S> {
    /// An empty pool.
    pub fn new(configured: PoolBounds, brought: PoolBounds) -> Self {
        Self { configured, brought, servers: Vec::new(), started: 0 }
    }

    /// Makes room for these servers of one origin, which may be there already. Returns the unused servers that end for
    /// them, those that were unused longest first.
    ///
    /// # Errors
    /// How many servers are in use, if there is no room. Then nothing changes.
    pub fn make_room(&mut self, origin: Origin, wanted: &[(&S, &ServerOwner)]) -> Result<Vec<u64>, usize> {
        let is_wanted = |server: &Pooled<S>| wanted.iter().any(|(spec, owner)| server.is(origin, spec, owner));
        let (there, others): (Vec<_>, Vec<_>) =
            self.servers.iter().filter(|server| server.origin == origin).partition(|server| is_wanted(server));
        let more = wanted.len().saturating_sub(there.len());
        let too_many = (there.len() + others.len() + more).saturating_sub(self.bounds(origin).most);
        let mut unused: Vec<_> = others.into_iter().filter(|server| server.users == 0).collect();
        if more > 0 && unused.len() < too_many {
            return Err(self.servers.iter().filter(|server| server.origin == origin).count() - unused.len());
        }
        unused.sort_by_key(|server| (server.idle_since, server.number));
        let ending: Vec<_> = unused.iter().take(too_many).map(|server| server.number).collect();
        self.servers.retain(|server| !ending.contains(&server.number));
        Ok(ending)
    }

    /// One more session uses a server. Returns its number, and whether it is new and to be started. Needs
    /// [room](Self::make_room).
    pub fn take(&mut self, origin: Origin, spec: &S, owner: &ServerOwner) -> (u64, bool)
    where
        S: Clone,
    {
        if let Some(server) = self.servers.iter_mut().find(|server| server.is(origin, spec, owner)) {
            server.users += 1;
            return (server.number, false);
        }
        self.started += 1;
        let (number, spec, owner) = (self.started, spec.clone(), owner.clone());
        self.servers.push(Pooled { number, origin, spec, owner, users: 1, idle_since: 0 });
        (number, true)
    }

    /// A session uses a server no longer. One that has ended is ignored.
    pub fn release(&mut self, number: u64, now_ms: u64) {
        let Some(server) = self.servers.iter_mut().find(|server| server.number == number) else { return };
        server.users = server.users.saturating_sub(1);
        if server.users == 0 {
            server.idle_since = now_ms;
        }
    }

    /// Removes the servers that are unused for too long by now, and returns them.
    pub fn expired(&mut self, now_ms: u64) -> Vec<u64> {
        let (configured, brought) = (self.configured.idle_ttl_ms, self.brought.idle_ttl_ms);
        self.remove(|server| {
            let ttl = if server.origin == Origin::Configured { configured } else { brought };
            server.users == 0 && now_ms.saturating_sub(server.idle_since) >= ttl
        })
    }

    /// When the next unused server is to end, in milliseconds of the caller's clock.
    pub fn next_expiry(&self) -> Option<u64> {
        let unused = self.servers.iter().filter(|server| server.users == 0);
        unused.map(|server| server.idle_since.saturating_add(self.bounds(server.origin).idle_ttl_ms)).min()
    }

    /// Removes the servers that a session had alone, and returns them: the session has ended.
    pub fn end_session(&mut self, session: &SessionId) -> Vec<u64> {
        self.remove(|server| matches!(&server.owner, ServerOwner::Session(owner) if owner == session))
    }

    /// Removes the servers of the configuration that it no longer has, used or not, and returns them.
    pub fn end_configured(&mut self, is_gone: impl Fn(&S) -> bool) -> Vec<u64> {
        self.remove(|server| server.origin == Origin::Configured && is_gone(&server.spec))
    }

    /// Removes the servers that no session uses, and returns them.
    pub fn end_unused(&mut self) -> Vec<u64> {
        self.remove(|server| server.users == 0)
    }

    fn remove(&mut self, is_removed: impl Fn(&Pooled<S>) -> bool) -> Vec<u64> {
        self.servers.extract_if(.., |server| is_removed(server)).map(|server| server.number).collect()
    }

    fn bounds(&self, origin: Origin) -> PoolBounds {
        match origin {
            Origin::Configured => self.configured,
            Origin::Brought => self.brought,
        }
    }
}

impl<S: PartialEq> Pooled<S> {
    fn is(&self, origin: Origin, spec: &S, owner: &ServerOwner) -> bool {
        (self.origin, &self.spec, &self.owner) == (origin, spec, owner)
    }
}
