//! What a store knows of all processes that use it.

use bob_messages::ids::PoolName;
use serde::{Deserialize, Serialize};

/// The most processes that an overview names.
#[cfg(feature = "postgres")]
pub(super) const MOST_NODES: i64 = 100;

/// A process among those that own sessions of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreNode {
    /// Its number, which no other process has had.
    pub number: u32,
    /// Its name, for people.
    pub name: String,
    /// The address from which it reached the store; `None` for one beside it.
    pub address: Option<String>,
    /// Whether its lease is good. One that was killed a moment ago may be noted as alive.
    pub is_alive: bool,
    /// How long ago it renewed its lease, in milliseconds.
    pub renewed_ms: u64,
    /// How many sessions it owns.
    pub sessions: u64,
    /// In how many of them a turn is open that is not suspended.
    pub running: u64,
    /// The pools of machines in which it is.
    pub pools: Vec<PoolName>,
    /// What it counted, as of that renewal; `None` for a process of an older program, and for one that runs no turns.
    pub figures: Option<NodeFigures>,
}

/// What a process counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFigures {
    /// For how long its runtime has been there, in milliseconds.
    pub uptime_ms: u64,
    /// Inputs that wait for a turn in it now; those in the inbox are not among them.
    pub waiting: u64,
    /// Turns that ended.
    pub ended: u64,
    /// Of these, those that ended with an error.
    pub failed: u64,
    /// Model calls of turns that ended.
    pub steps: u64,
    /// Tool calls of turns that ended.
    pub tool_calls: u64,
    /// Tokens of turns that ended.
    pub tokens: u64,
    /// Actors that were started again.
    pub restarts: u64,
    /// The median from a submission to its outcome, in microseconds: of the last 10 to 20 s, or of all where there was none.
    pub turn_p50_us: u64,
    /// 99 of 100 took at most so long, in microseconds.
    pub turn_p99_us: u64,
}

/// A pool of machines in which no living process is, and for which messages wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyPool {
    /// Its name.
    pub name: PoolName,
    /// How many messages wait for it.
    pub waiting: u64,
}

/// What a store knows of its processes and messages, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOverview {
    /// The processes, those that are alive first, and of these the newest; at most 100. Empty where the store does not know.
    pub nodes: Vec<StoreNode>,
    /// How many processes there are, also those that are not named.
    pub all_nodes: u64,
    /// How many sessions have an open turn that is not suspended, and no living owner. 0 where the store does not know.
    pub open_turns: u64,
    /// How many messages wait in the inbox.
    pub waiting: u64,
    /// For how many sessions.
    pub waiting_sessions: u64,
    /// For how long the oldest of them waits, in milliseconds.
    pub oldest_ms: Option<u64>,
    /// How many messages were refused, of about the last day.
    pub refused: u64,
    /// The pools without a living process for which messages wait, at most 100. Empty where the store does not know.
    pub empty_pools: Vec<EmptyPool>,
}
