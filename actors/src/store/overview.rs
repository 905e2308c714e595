//! What a store knows of all processes that use it.

use bob_messages::ids::PoolName;

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
