//! The tool servers of a runtime: those of its configuration, and those that sessions brought.

use crate::children::ChildSpec;
use bob_actors::mcp::McpServerArguments;
use bob_actors::tools::registry::{Lease, SessionHost};
use std::sync::Weak;

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

/// The servers of a runtime.
#[derive(Default)]
pub(super) struct Servers {
    /// Those of the configuration.
    pub(super) configured: Vec<McpServerArguments>,
    /// Those that left the configuration and may still be ending: one that comes back waits for that.
    pub(super) left: Vec<McpServerArguments>,
    /// Servers of sessions in use.
    pub(super) brought: Vec<Server>,
    /// Servers of sessions that may still be ending.
    pub(super) ending: Vec<McpServerArguments>,
    /// Counts all servers of sessions, to name them in the tree.
    pub(super) count: u64,
}

/// A server brought by sessions.
pub(super) struct Server {
    /// Its name in the tree, which no configured server can have.
    pub(super) name: String,
    pub(super) arguments: McpServerArguments,
    pub(super) child: ChildSpec,
    pub(super) host: SessionHost,
    /// Shared by the sessions that use it.
    pub(super) lease: Weak<Lease>,
    /// Counts its leases, so that the end of an old one finds it in use.
    pub(super) leases: u64,
}
