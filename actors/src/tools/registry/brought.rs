//! The tool servers that a session has beside those of all sessions: those it brings, and those of the configuration that
//! it shares with its tenant or with none.
//!
//! What is given to a session comes into force with its next turn, and only as far as the
//! session's options name it then. Owns no process: the end of a [`Lease`] is told to the owner.

use super::known_tools::KnownTools;
use super::publisher::Host;
use crate::address::Address;
use bob_messages::ids::{ServerId, SessionId, TurnId};
use bob_messages::mcp::{ServerBrief, ServerState};
use bob_messages::options::{ServerSpec, ServerStart};
use bob_messages::tools::LocalToolsMessage;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

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

/// A host of the registry that only the sessions see that are given it.
#[derive(Debug, Clone)]
pub struct SessionHost(pub(super) Arc<Host>);

impl SessionHost {
    /// Stands for a server of the configuration while no process of it runs.
    pub fn template(spec: &ServerSpec, known: &KnownTools) -> Self {
        let asleep = ServerSpec { start: ServerStart::Lazy, ..spec.clone() };
        let address = Address::<LocalToolsMessage>::default();
        Self(Arc::new(Host::server(&asleep, Box::new(address)).isolated(known, None)))
    }

    /// Whether it is down for good, until it is restarted by hand.
    pub fn is_down(&self) -> bool {
        self.0.down().is_some()
    }
}

/// A server of the configuration that not all sessions share, for one session or for a list of tools.
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

/// One server for one session.
#[derive(Debug)]
pub struct Attachment {
    /// As the session's options name it.
    pub launch: ServerSpec,
    /// Where its tools are; `None` when every session has them.
    pub host: Option<SessionHost>,
    /// Ends when the session uses the server no longer.
    pub lease: Option<Lease>,
}

#[derive(Debug, Default)]
pub(super) struct Brought(RwLock<HashMap<SessionId, Entry, RandomState>>);

#[derive(Debug, Default)]
struct Entry {
    given: Vec<Given>,
    in_force: Arc<[Arc<Host>]>,
    /// Those that its running turn shares with its tenant or with none.
    shared: Vec<(Arc<Host>, Option<Lease>)>,
    /// Named by the options in force and not given in this process.
    missing: Vec<ServerId>,
    /// Those of the configuration that the running turn cannot use, and why.
    full: Vec<(ServerId, String)>,
    /// Whose turn began last.
    submission: Option<TurnId>,
}

#[derive(Debug)]
struct Given {
    attachment: Attachment,
    was_in_force: bool,
}

impl Brought {
    fn read<T>(&self, session: &SessionId, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(session).map(read)
    }

    /// Changes what a session has. Leases must not end in here: what comes back may hold some.
    fn change<T>(&self, session: &SessionId, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut sessions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = sessions.entry(session.clone()).or_default();
        let changed = change(entry);
        if entry.is_empty() {
            sessions.remove(session);
        }
        changed
    }

    /// Gives these to a session. What it has and its running turn uses stays until its next turn; what never came into
    /// force is replaced and comes back.
    pub(super) fn give(&self, session: &SessionId, attachments: Vec<Attachment>) -> Vec<Attachment> {
        self.change(session, |entry| {
            let replaced =
                entry.take_unused(|given| attachments.iter().any(|attachment| attachment.launch.id == given.launch.id));
            entry.given.extend(attachments.into_iter().map(|attachment| Given { attachment, was_in_force: false }));
            replaced
        })
    }

    pub(super) fn has_given(&self, session: &SessionId) -> bool {
        self.read(session, |entry| !entry.given.is_empty()).unwrap_or_default()
    }

    /// What the session has of its own: as its options name it, and as it was started.
    pub(super) fn given(&self, session: &SessionId) -> Vec<(ServerSpec, ServerSpec)> {
        let started =
            |attachment: &Attachment| Some((attachment.launch.clone(), attachment.host.as_ref()?.0.server.clone()?));
        let all = |entry: &Entry| entry.given.iter().filter_map(|given| started(&given.attachment)).collect();
        self.read(session, all).unwrap_or_default()
    }

    /// Takes these back, as far as they never came into force.
    pub(super) fn take_back(&self, session: &SessionId, launches: &[ServerSpec]) {
        let is_meant = |attachment: &Attachment| launches.iter().any(|launch| launch.stripped() == attachment.launch);
        let _ends_here = self.change(session, |entry| entry.take_unused(is_meant));
    }

    /// The session is over: it has nothing any more.
    pub(super) fn take_away(&self, session: &SessionId) {
        let _ends_here = self.change(session, std::mem::take);
    }

    /// A turn of the session begins, whose options name these servers, and which uses these of the configuration. Its own
    /// hosts.
    pub(super) fn turn_begins(
        &self,
        (session, submission): (&SessionId, &TurnId),
        named: &[ServerSpec],
        isolated: Vec<Isolated>,
    ) -> Arc<[Arc<Host>]> {
        if named.is_empty() && isolated.is_empty() && self.read(session, |_has_some| ()).is_none() {
            return Arc::default();
        }
        let (mut shared, mut full) = (Vec::new(), Vec::new());
        for one in isolated {
            match one {
                Isolated::Host { host, lease } => shared.push((host.0, lease)),
                Isolated::Missing { id, why } => full.push((id, why)),
            }
        }
        let (in_force, _ends_here, _used_before) = self.change(session, |entry| {
            // The last that was given counts.
            let last = |launch: &ServerSpec| entry.given.iter().rposition(|given| given.attachment.launch == *launch);
            let used: Vec<Option<usize>> = named.iter().map(last).collect();
            let hosts = used.iter().flatten().filter_map(|at| entry.given[*at].attachment.host.as_ref());
            let shares = shared.iter().map(|(host, _)| Arc::clone(host));
            entry.in_force = hosts.map(|host| Arc::clone(&host.0)).chain(shares).collect();
            entry.submission = Some(submission.clone());
            entry.full = full;
            let used_before = std::mem::replace(&mut entry.shared, shared);
            let missing = named.iter().zip(&used).filter(|(_, at)| at.is_none()).map(|(launch, _)| launch.id.clone());
            let before = std::mem::replace(&mut entry.missing, missing.collect());
            for id in entry.missing.iter().filter(|id| !before.contains(id)) {
                tracing::warn!(%session, server = %id, "{NOT_GIVEN}");
            }
            let mut over = Vec::new();
            for (at, given) in std::mem::take(&mut entry.given).into_iter().enumerate() {
                let is_used = used.contains(&Some(at));
                match is_used || !given.was_in_force {
                    true => entry.given.push(Given { was_in_force: is_used, ..given }),
                    false => over.push(given),
                }
            }
            (Arc::clone(&entry.in_force), over, used_before)
        });
        in_force
    }

    /// The turn of this submission has ended: what it shares is not used any more. Its end may be told after the next one has
    /// begun.
    pub(super) fn rest(&self, session: &SessionId, submission: &TurnId) {
        let uses = |entry: &Entry| !entry.is_resting() && entry.submission.as_ref() == Some(submission);
        if self.read(session, uses).unwrap_or(false) {
            let _ends_here = self.change(session, Entry::rest);
        }
    }

    /// No turn of the session runs.
    pub(super) fn release(&self, session: &SessionId) {
        if self.read(session, Entry::is_resting).unwrap_or(true) {
            return;
        }
        let _ends_here = self.change(session, Entry::rest);
    }

    /// No turn of any session runs.
    pub(super) fn all_rest(&self) {
        let mut sessions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let ends_here: Vec<_> = sessions.values_mut().map(Entry::rest).collect();
        sessions.retain(|_, entry| !entry.is_empty());
        drop(sessions);
        drop(ends_here);
    }

    pub(super) fn hosts(&self, session: &SessionId) -> Arc<[Arc<Host>]> {
        self.read(session, |entry| Arc::clone(&entry.in_force)).unwrap_or_default()
    }

    /// The host of this server among those of the session; `Err` when it brought it in
    /// another process only, or cannot use it now.
    pub(super) fn host(&self, session: &SessionId, server: &str) -> Result<Option<Arc<Host>>, String> {
        let host = |entry: &Entry| match entry.in_force.iter().find(|host| host.is_server(server)) {
            Some(host) => Ok(Some(Arc::clone(host))),
            None if entry.missing.iter().any(|id| id.as_str() == server) => Err(NOT_GIVEN.to_owned()),
            None => match entry.full.iter().find(|(id, _)| id.as_str() == server) {
                Some((_, why)) => Err(why.clone()),
                None => Ok(None),
            },
        };
        self.read(session, host).unwrap_or(Ok(None))
    }

    pub(super) fn briefs(&self, session: &SessionId) -> Vec<ServerBrief> {
        let missing = |id: &ServerId, why: &str| ServerBrief {
            id: id.clone(),
            state: ServerState::Stopped,
            note: Some(why.to_owned()),
        };
        let briefs = |entry: &Entry| {
            let there = entry.in_force.iter().filter_map(|host| host.brief());
            let not_given = entry.missing.iter().map(|id| missing(id, NOT_GIVEN));
            there.chain(not_given).chain(entry.full.iter().map(|(id, why)| missing(id, why))).collect()
        };
        self.read(session, briefs).unwrap_or_default()
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.given.is_empty() && self.missing.is_empty() && self.is_resting()
    }

    fn is_resting(&self) -> bool {
        self.shared.is_empty() && self.full.is_empty()
    }

    /// Takes out what its last turn shared.
    fn rest(&mut self) -> Vec<(Arc<Host>, Option<Lease>)> {
        let shared = std::mem::take(&mut self.shared);
        let is_shared = |host: &Arc<Host>| shared.iter().any(|(other, _)| Arc::ptr_eq(host, other));
        self.in_force = self.in_force.iter().filter(|host| !is_shared(host)).cloned().collect();
        self.full.clear();
        shared
    }

    /// Takes these out, as far as no turn of the session has begun with them.
    fn take_unused(&mut self, is_meant: impl Fn(&Attachment) -> bool) -> Vec<Attachment> {
        let is_taken = |given: &mut Given| !given.was_in_force && is_meant(&given.attachment);
        self.given.extract_if(.., is_taken).map(|given| given.attachment).collect()
    }
}

/// Why a server that a session's journal names is not there.
const NOT_GIVEN: &str = "the session brought this tool server to an earlier process or before it was closed; \
                         a journal starts nothing, so open or configure the session with it again";
