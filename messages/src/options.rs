//! The options of a session, which apply to all its turns.

mod change;
mod hidden;
mod server;
mod sign_in;

pub use crate::pool::Isolation;
pub use change::{Change, Configuring, HistoryChange, OptionsPatch, SessionChange};
pub use hidden::Hidden;
pub use server::{CommandSpec, HttpSpec, Named, ServerSpec, ServerStart, ServerTransport};
pub use sign_in::{SignIn, SignInGrant};

use crate::ids::{CallId, ModelName, PoolName, SessionId, TenantId, TurnId};
use crate::permission::{PermissionMode, mode_or_risk};
use crate::tools::{AgentLine, CallContext};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Options for all turns of a session; by default those of the configuration. Journaled first and at each change,
/// effective from the next turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOptions {
    /// The tenant the session belongs to; by default that of its first input. It cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The working folder.
    pub cwd: Option<String>,
    /// Further folders the session may see. Without a `cwd` they are all it sees, and the
    /// first one is its working folder.
    pub roots: Vec<String>,
    /// The model, unless a request names one.
    pub model: Option<ModelName>,
    /// Instructions instead of the configuration's.
    pub instructions: Option<String>,
    /// The name of the agent.
    pub agent: Option<String>,
    /// The tools the session is limited to, by name or pattern.
    pub allow_tools: Option<Arc<[String]>>,
    /// What the session may do without asking; `None`: what the policy says. `approve` in older records.
    #[serde(alias = "approve", deserialize_with = "mode_or_risk", skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The tool servers that the session brings. Their keys are never journaled, and a journal starts nothing:
    /// another process must pass them again.
    pub servers: Arc<[ServerSpec]>,
    /// Which call of which session this session works for.
    pub parent: Option<ParentTurn>,
    /// The name of the session in lists; by default the beginning of its first message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// The pool of machines to which the session is bound, since its files, servers or shell are there; by default any process of
    /// the store may have it. An input that has to wait behind a turn is refused if it names another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
}

/// The call a child session works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentTurn {
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// The call.
    pub call: CallId,
    /// How many sessions are above the child: 1 when its parent has none.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub depth: u32,
    /// The agents above and with the child, if the call is one of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Arc<AgentLine>>,
    /// Set if the call does not wait for the child: what happens to it when the turn of the call ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_parent_end: Option<OnParentEnd>,
}

/// What happens to a sub-agent that runs in the background when the turn that called it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It continues, and its result becomes an input of the session that called it.
    Continue,
}

/// The depth of a child whose record does not say.
fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(depth: &u32) -> bool {
    *depth == first()
}

impl ParentTurn {
    /// The parent of a session that works for this call.
    pub fn of(context: &CallContext, call: &CallId) -> Self {
        let (session, turn) = (context.session.clone(), context.turn.clone());
        let line = context.child.as_ref().map(|terms| Arc::clone(&terms.line));
        let depth = context.depth.saturating_add(1);
        Self { session, turn, call: call.clone(), depth, line, on_parent_end: None }
    }
}

impl SessionOptions {
    /// The folders the options name, the working folder first; none: those of the configuration.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.cwd.iter().chain(&self.roots).map(String::as_str)
    }

    /// Removes everything that may hold a key.
    #[must_use]
    pub fn stripped(mut self) -> Self {
        if !self.servers.is_empty() {
            self.servers = self.servers.iter().map(ServerSpec::stripped).collect();
        }
        self
    }
}
