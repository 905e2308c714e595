//! The tool servers of a runtime: those of its configuration, and those that sessions brought.

use crate::children::ChildSpec;
use bob_actors::mcp::McpServerArguments;
use bob_actors::tools::registry::{KnownTools, SessionHost};
use bob_messages::options::ServerSpec;
use bob_messages::pool::{Pool, PoolBounds, ServerOwner};
use std::time::Duration;

/// Default time until a server ends after the last session detached it.
pub const ENDS_AFTER: Duration = Duration::from_secs(600);

/// Limits of different tool servers that sessions may bring. A shared one counts once; an unused one that still runs
/// is ended for another.
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

/// The processes of servers of the configuration that not all sessions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerPool {
    /// How long an unused process is kept.
    pub idle_ttl: Duration,
    /// The most processes at a time. An unused one is ended for another.
    pub max_processes: usize,
}

impl Default for ServerPool {
    fn default() -> Self {
        Self { idle_ttl: ENDS_AFTER, max_processes: 64 }
    }
}

pub(super) struct Servers {
    pub(super) configured: Vec<Configured>,
    /// Those that left the configuration and may still be ending: one that comes back waits for that.
    pub(super) left: Vec<McpServerArguments>,
    /// Which processes there are of servers that not all sessions share, and who uses them.
    pub(super) pool: Pool<ServerSpec>,
    /// Those processes.
    pub(super) pooled: Vec<Server>,
    /// Of those, the ones that may still be ending.
    pub(super) ending: Vec<(ServerOwner, McpServerArguments)>,
    /// Whether a task waits for the next one to have been unused for too long.
    pub(super) is_swept: bool,
}

#[derive(Clone)]
pub(super) struct Configured {
    pub(super) arguments: McpServerArguments,
    /// What is known of its tools, and what stands for it without a process; `None` if all sessions share one.
    pub(super) isolated: Option<(KnownTools, SessionHost)>,
}

pub(super) struct Server {
    /// Its number in the pool.
    pub(super) number: u64,
    /// Its name in the tree, which no shared server can have.
    pub(super) name: String,
    pub(super) owner: ServerOwner,
    pub(super) arguments: McpServerArguments,
    pub(super) child: ChildSpec,
    pub(super) host: SessionHost,
}

impl Servers {
    pub(super) fn new(pool: ServerPool, ends_after: Duration, bounds: BroughtBounds) -> Self {
        let bounds_of = |idle_ttl: Duration, most| PoolBounds { idle_ttl_ms: in_ms(idle_ttl), most };
        let pool = Pool::new(bounds_of(pool.idle_ttl, pool.max_processes), bounds_of(ends_after, bounds.runtime));
        let (configured, left, pooled, ending) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { configured, left, pool, pooled, ending, is_swept: false }
    }

    pub(super) fn has_isolated(&self) -> bool {
        self.configured.iter().any(|server| server.isolated.is_some())
    }
}

pub(super) fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
