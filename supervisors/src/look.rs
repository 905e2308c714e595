//! The live tree as it can be shown.

use serde::{Deserialize, Serialize};

/// One actor of the live tree, and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name among its siblings.
    pub name: String,
    /// What it does now.
    pub state: NodeStatus,
    /// How long it has been in this state, in milliseconds.
    pub age_ms: u64,
    /// How often it was started again since the tree began.
    pub restarts: u32,
    /// Why it last ended or could not be started, if it ever did.
    pub last_error: Option<String>,
    /// How many messages wait for it, if it counts them.
    pub queued: Option<usize>,
    /// Those below it, in start order; empty also when it does not answer.
    pub children: Vec<NodeState>,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It works.
    Running,
    /// It has nothing to do and may be let go.
    Idle,
    /// It has something to do and waits: for a place, or for a person.
    Waiting,
    /// It is being stopped.
    Stopping,
    /// It is started, or waits for that.
    Restarting,
    /// It died too often; only a restart by hand brings it back.
    GaveUp,
    /// It ended and is not started again.
    Stopped,
}
