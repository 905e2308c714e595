//! Which tool servers sessions have brought, and who uses them.

use crate::children::ChildSpec;
use bob_actors::mcp::McpServerArguments;
use bob_actors::tools::plane::GuestHost;
use bob_messages::ids::SessionId;
use bob_messages::options::ServerLaunch;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many different servers sessions may bring. One that is shared counts once; one that nobody uses any more and
/// that is still there makes room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroughtBounds {
    /// In a runtime.
    pub runtime: usize,
    /// By one session: named at a time, and besides those until its next turn that are in force.
    pub session: usize,
}

impl Default for BroughtBounds {
    fn default() -> Self {
        Self { runtime: 64, session: 16 }
    }
}

/// The servers that were brought and have not ended.
#[derive(Default)]
pub(super) struct Brought(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) servers: Vec<Server>,
    /// Those that were let go of and may still be ending.
    pub(super) left: Vec<McpServerArguments>,
    /// How many there ever were; makes their names in the tree.
    pub(super) count: u64,
}

pub(super) struct Server {
    /// Its name in the tree, which no configured server can have.
    pub(super) name: String,
    /// As the options of those sessions name it.
    pub(super) launch: ServerLaunch,
    pub(super) arguments: McpServerArguments,
    pub(super) child: ChildSpec,
    pub(super) host: GuestHost,
    /// How many leases each session has.
    pub(super) users: HashMap<SessionId, usize>,
    /// Counts how often it got its first user, so that an old end finds it in use.
    pub(super) used: u64,
}

impl Brought {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The server of this description that the session has.
    pub(super) fn used_by(&self, session: &SessionId, launch: &ServerLaunch) -> Option<&Server> {
        self.servers.iter().rfind(|server| server.launch == *launch && server.users.contains_key(session))
    }
}
