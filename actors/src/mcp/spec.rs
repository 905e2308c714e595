//! What a tool server is, as its actor is told it.

use crate::child::ChildSpec;
use bob_messages::ids::ServerId;
use std::sync::Arc;
use std::time::Duration;

/// One tool server. Nothing in it changes while its actor lives.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    /// Its name, the second part of its tools' names: `mcp/<id>/<tool>`.
    pub id: ServerId,
    /// How it is reached.
    pub transport: Transport,
    /// The tools that are offered, by the names the server gives them; `None`: all.
    pub offered: Option<Vec<String>>,
    /// When it is started.
    pub start: Start,
    /// Whether the runtime refuses to start without it. The actor does not act on it.
    pub required: bool,
    /// How long a start may take, from the process to the list of tools, in
    /// milliseconds.
    pub startup_timeout_ms: u64,
    /// How long a call may run unless more is said of its tool, in milliseconds;
    /// `None`: as long as the call's context says.
    pub tool_timeout_ms: Option<u64>,
    /// The folders a server that asks is told, as absolute paths; the first is the
    /// workspace.
    pub roots: Arc<[String]>,
}

/// How a tool server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that reads requests and writes answers, one JSON text a line.
    /// Its stdin and stdout are pipes, whatever is set here.
    Stdio(ChildSpec),
}

impl Transport {
    /// In one word, to be shown.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
        }
    }
}

/// When a tool server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With its actor.
    #[default]
    Eager,
    /// With the first question, or when it is woken.
    Lazy,
}

impl ServerSpec {
    /// A server with nothing set but what it must have: every tool offered, eager, 20
    /// seconds to start.
    pub fn new(id: ServerId, transport: Transport) -> Self {
        Self {
            id,
            transport,
            offered: None,
            start: Start::Eager,
            required: false,
            startup_timeout_ms: 20_000,
            tool_timeout_ms: None,
            roots: Arc::from([]),
        }
    }

    pub(super) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.startup_timeout_ms)
    }
}
