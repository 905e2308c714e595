//! The tool servers that sessions bring, as the plane knows them: which hosts the calls of a
//! session may go to besides those of all sessions.
//!
//! What is given to a session comes into force with its next turn, and only as far as the
//! session's options name it then. Owns no process: dropping a [`Lease`] tells whoever does.

use super::shelf::Host;
use bob_messages::ids::{ServerId, SessionId};
use bob_messages::mcp::{ServerBrief, ServerState};
use bob_messages::options::ServerSpec;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Kept for as long as a session may use a server; what it holds is called at its end.
pub struct Lease(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Lease {
    /// A lease at whose end this is called, once. It must not block.
    pub fn new(over: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(over)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(over) = self.0.take() {
            over();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

/// A host of the plane that only the sessions see that are given it.
#[derive(Debug, Clone)]
pub struct GuestHost(pub(super) Arc<Host>);

impl GuestHost {
    /// Whether it is down for good, until somebody asks for it by hand.
    pub fn is_down(&self) -> bool {
        self.0.down().is_some()
    }
}

/// One server for one session.
#[derive(Debug)]
pub struct Gift {
    /// As the session's options name it.
    pub launch: ServerSpec,
    /// Where its tools are; `None` when every session has them.
    pub host: Option<GuestHost>,
    /// Ends when the session can use it no longer.
    pub lease: Option<Lease>,
}

/// The sessions that were given servers.
#[derive(Debug, Default)]
pub(super) struct Brought {
    sessions: RwLock<HashMap<SessionId, Entry>>,
    /// How many there are, so that a house without any pays one look.
    entries: AtomicUsize,
}

#[derive(Debug, Default)]
struct Entry {
    given: Vec<Given>,
    in_force: Arc<[Arc<Host>]>,
    /// Named by the options in force and not given in this process.
    missing: Vec<ServerId>,
}

#[derive(Debug)]
struct Given {
    gift: Gift,
    was_in_force: bool,
}

impl Brought {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<SessionId, Entry>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<SessionId, Entry>> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Acquire) == 0
    }

    /// Gives these to a session. What it has and its running turn uses stays until its next turn.
    pub(super) fn give(&self, session: &SessionId, gifts: Vec<Gift>) {
        let mut sessions = self.write();
        let entry = sessions.entry(session.clone()).or_default();
        let is_again = |given: &Given| gifts.iter().any(|gift| gift.launch.id == given.gift.launch.id);
        // What never came into force is replaced; leases end when the lock is free.
        let (replaced, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut entry.given).into_iter().partition(|given| !given.was_in_force && is_again(given));
        entry.given = kept;
        entry.given.extend(gifts.into_iter().map(|gift| Given { gift, was_in_force: false }));
        self.entries.store(sessions.len(), Ordering::Release);
        drop(sessions);
        drop(replaced);
    }

    pub(super) fn has_given(&self, session: &SessionId) -> bool {
        !self.is_empty() && self.read().get(session).is_some_and(|entry| !entry.given.is_empty())
    }

    /// Takes these back, as far as they never came into force.
    pub(super) fn take_back(&self, session: &SessionId, launches: &[ServerSpec]) {
        let mut sessions = self.write();
        let Some(entry) = sessions.get_mut(session) else { return };
        let is_meant = |given: &Given| launches.iter().any(|launch| launch.stripped() == given.gift.launch);
        let (back, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut entry.given).into_iter().partition(|given| !given.was_in_force && is_meant(given));
        entry.given = kept;
        if entry.given.is_empty() && entry.in_force.is_empty() && entry.missing.is_empty() {
            sessions.remove(session);
        }
        self.entries.store(sessions.len(), Ordering::Release);
        drop(sessions);
        drop(back);
    }

    /// The session is over: it has nothing any more.
    pub(super) fn take_away(&self, session: &SessionId) {
        if self.is_empty() {
            return;
        }
        let mut sessions = self.write();
        let entry = sessions.remove(session);
        self.entries.store(sessions.len(), Ordering::Release);
        drop(sessions);
        drop(entry);
    }

    /// A turn of the session begins, whose options name these servers. Its own hosts.
    pub(super) fn turn_begins(&self, session: &SessionId, named: &[ServerSpec]) -> Arc<[Arc<Host>]> {
        if named.is_empty() && self.is_empty() {
            return Arc::default();
        }
        let mut sessions = self.write();
        if named.is_empty() && !sessions.contains_key(session) {
            return Arc::default();
        }
        let entry = sessions.entry(session.clone()).or_default();
        let (mut hosts, mut missing, mut used) = (Vec::new(), Vec::new(), vec![false; entry.given.len()]);
        for launch in named {
            // The last that was given counts.
            match entry.given.iter().rposition(|given| given.gift.launch == *launch) {
                Some(at) => {
                    used[at] = true;
                    hosts.extend(entry.given[at].gift.host.as_ref().map(|host| Arc::clone(&host.0)));
                }
                None => missing.push(launch.id.clone()),
            }
        }
        let mut used = used.into_iter();
        let mut over = Vec::new();
        for mut given in std::mem::take(&mut entry.given) {
            let is_used = used.next().unwrap_or_default();
            match is_used || !given.was_in_force {
                true => {
                    given.was_in_force = is_used;
                    entry.given.push(given);
                }
                false => over.push(given),
            }
        }
        for id in missing.iter().filter(|id| !entry.missing.contains(id)) {
            tracing::warn!(%session, server = %id, "{NOT_GIVEN}");
        }
        entry.missing = missing;
        entry.in_force = hosts.into();
        let in_force = Arc::clone(&entry.in_force);
        if entry.given.is_empty() && entry.missing.is_empty() {
            sessions.remove(session);
        }
        self.entries.store(sessions.len(), Ordering::Release);
        drop(sessions);
        // Whoever is told of the end of a lease may ask the plane.
        drop(over);
        in_force
    }

    /// The hosts only this session sees.
    pub(super) fn hosts(&self, session: &SessionId) -> Arc<[Arc<Host>]> {
        if self.is_empty() {
            return Arc::default();
        }
        self.read().get(session).map(|entry| Arc::clone(&entry.in_force)).unwrap_or_default()
    }

    /// The host of this server among those the session brought; `Err` when it brought it in
    /// another process only.
    pub(super) fn host(&self, session: &SessionId, server: &str) -> Result<Option<Arc<Host>>, &'static str> {
        if self.is_empty() {
            return Ok(None);
        }
        let sessions = self.read();
        let Some(entry) = sessions.get(session) else { return Ok(None) };
        match entry.in_force.iter().find(|host| host.is_server(server)) {
            Some(host) => Ok(Some(Arc::clone(host))),
            None if entry.missing.iter().any(|id| id.as_str() == server) => Err(NOT_GIVEN),
            None => Ok(None),
        }
    }

    /// How the session's own servers are doing, and which of them are not there.
    pub(super) fn briefs(&self, session: &SessionId) -> Vec<ServerBrief> {
        if self.is_empty() {
            return Vec::new();
        }
        let sessions = self.read();
        let Some(entry) = sessions.get(session) else { return Vec::new() };
        let missing = entry.missing.iter().map(|id| ServerBrief {
            id: id.clone(),
            state: ServerState::Stopped,
            note: Some(NOT_GIVEN.to_owned()),
        });
        entry.in_force.iter().filter_map(|host| host.brief()).chain(missing).collect()
    }
}

/// Why a server that a session's journal names is not there.
const NOT_GIVEN: &str = "the session brought this tool server to an earlier process or before it was closed; \
                         a journal starts nothing, so open or configure the session with it again";
