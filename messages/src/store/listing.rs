//! Sessions as listed by a store without reading their journals.

use crate::Millis;
use crate::agent::is_named_after;
use crate::ids::{SessionId, TenantId};
use crate::store::{Glance, SessionState};
use serde::{Deserialize, Serialize};

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFilter {
    /// Only ids that start so.
    pub prefix: Option<String>,
    /// Only those in this state. A session of an older program has none until it is written to.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// Only those that work for this session.
    #[serde(default)]
    pub parent: Option<SessionId>,
    /// Only those that belong to this tenant.
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// Maximum of sessions on a page; 0 means 100.
    pub limit: usize,
}

/// One page of a listing, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page starts; `None` on the last.
    pub cursor: Option<String>,
    /// Journals that could not be read, by name, with the reason.
    pub quarantined: Vec<(String, String)>,
}

/// A session from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id.
    pub session: SessionId,
    /// When its journal was last written.
    pub updated_at: Millis,
    /// The size of its journal in bytes; 0 where a store does not know.
    pub bytes: u64,
    /// Its title: the one it was given, else the beginning of its first message; `None` also if the store does not
    /// record it.
    #[serde(default)]
    pub title: Option<Box<str>>,
    /// Its state, as far as the journal shows; `None` if the store does not record it.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// How many of its turns have ended; `None` where a store does not know.
    #[serde(default)]
    pub turns: Option<u64>,
    /// The session it works for.
    #[serde(default)]
    pub parent: Option<SessionId>,
    /// The tenant it belongs to; `None` also where a store does not know.
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// Its working folder; `None` also where it has none or a store does not know.
    #[serde(default)]
    pub cwd: Option<Box<str>>,
    /// When it was begun; `None` where a store does not know, as of a session that an older program wrote.
    #[serde(default)]
    pub created_at: Option<Millis>,
}

impl SessionSummary {
    /// Whether it is the session of a sub-agent. It is deleted with the one that it works for.
    pub fn is_of_agent(&self) -> bool {
        self.parent.as_ref().is_some_and(|parent| is_named_after(parent, &self.session))
    }

    /// A session with only its id, time and size.
    pub fn bare(session: SessionId, updated_at: Millis, bytes: u64) -> Self {
        let (title, state, turns, parent) = (None, None, None, None);
        Self { session, updated_at, bytes, title, state, turns, parent, tenant: None, cwd: None, created_at: None }
    }

    /// Adds the listing entry.
    #[must_use]
    pub fn seen(self, glance: &Glance) -> Self {
        let Glance { title, state, turns, parent, tenant, cwd, created_at, pool: _not_listed } = glance.clone();
        Self { title, state: Some(state), turns: Some(turns), parent, tenant, cwd, created_at, ..self }
    }
}
