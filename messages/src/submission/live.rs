//! Snapshots of the live sessions and of the load.

use crate::ids::SessionId;
use serde::{Deserialize, Serialize};

/// A session with an actor or a queued submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSession {
    /// Its id.
    pub session: SessionId,
    /// Its state.
    pub state: LiveState,
    /// For how long it has done so, in milliseconds.
    pub age_ms: u64,
    /// The number of callers waiting for an outcome.
    pub pending: usize,
    /// How many of these are queued and not accepted yet.
    pub queued: usize,
    /// How often its actor was started again in the running turn.
    pub restarts: u32,
    /// Why its actor last crashed, if one did since the session became live.
    pub last_error: Option<String>,
}

/// The state of a live session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// Nothing; its actor is stopped after a while.
    Idle,
    /// It waits until a turn may run.
    Waiting,
    /// A turn runs.
    Running,
    /// Waiting for approval; the turn counts as running.
    Asking,
    /// Its actor is being stopped.
    Stopping,
}

/// How much there is to do in all sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionsLoad {
    /// Sessions with an actor or a queued submission.
    pub live: usize,
    /// Turns that run; at most one a session.
    pub running: usize,
    /// Queued submissions, which are not accepted until a turn may run.
    pub waiting: usize,
}
