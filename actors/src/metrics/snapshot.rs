//! The figures of a runtime as plain data.
//!
//! Names and kinds are such that an exporter needs nothing else: what is called a count only rises while the runtime
//! lives (a counter), a time has its quantiles (a summary) and its cumulative buckets (a histogram), everything else is
//! what it is now (a gauge).

use bob_messages::chat::{CallStatus, FinishReason, GuardReason};
use bob_messages::llm::ProviderState;
use bob_messages::mcp::ServerStatus;
use bob_messages::submission::SessionsLoad;
use enum_map::{Enum, EnumMap};
use serde::de::IntoDeserializer;
use serde::de::value::{self, StringDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The form of a [`MetricsSnapshot`]; a reader ignores what it does not know.
pub const SCHEMA: u32 = 1;

/// All figures of a runtime at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsSnapshot {
    /// The form: [`SCHEMA`].
    pub schema: u32,
    /// For how long the runtime has been there, in milliseconds.
    pub uptime_ms: u64,
    /// Live sessions, running turns, queued submissions, now.
    pub sessions: SessionsLoad,
    /// Operations that wait for the store now.
    pub store_queue: usize,
    /// Turns, by how they ended.
    pub turns: TurnCounts,
    /// Of these, those a guard ended, by the guard.
    #[serde(deserialize_with = "known")]
    pub guards: EnumMap<GuardReason, u64>,
    /// Model calls of turns that ended; repetitions after a failure are not counted.
    pub steps: u64,
    /// Tool calls of turns that ended, by how they ended.
    #[serde(deserialize_with = "known")]
    pub tool_calls: EnumMap<CallStatus, u64>,
    /// Tokens of turns that ended, as the providers told them.
    pub tokens: TokenCounts,
    /// Actors that were started again.
    pub restarts: RestartCounts,
    /// Events that sinks of the runtime took too slowly and lost; turns and readers of sessions are not concerned.
    #[serde(default)]
    pub events_lost: u64,
    /// From the submission to its outcome, waiting included.
    pub turn_latency: LatencyFigures,
    /// From the submission until its turn might run.
    pub queue_wait: LatencyFigures,
    /// From a cancel to the outcome of the turn it cancelled.
    pub cancel_latency: LatencyFigures,
    /// Every provider that was asked, with its breaker.
    pub providers: Vec<ProviderState>,
    /// Every tool server; one that gave up is one whose breaker is open.
    pub servers: Vec<ServerStatus>,
}

impl Default for MetricsSnapshot {
    /// The figures of a runtime in which nothing has happened yet.
    fn default() -> Self {
        super::Metrics::default().snapshot()
    }
}

/// Submissions, and the ends of turns.
///
/// `submitted` is `refused`, `repeated`, the five ends, and what is still owed; a turn that an earlier process left has
/// an end and no submission here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCounts {
    /// Inputs handed in, and suspended turns resumed.
    pub submitted: u64,
    /// Not taken: busy, overloaded, invalid, or the store failed before the input was durable.
    pub refused: u64,
    /// Answered with the outcome an earlier submission of the same request had.
    pub repeated: u64,
    /// Those that ended, by how they ended.
    #[serde(flatten, deserialize_with = "known")]
    pub ends: EnumMap<FinishReason, u64>,
    /// Of all that ended: those whose outcome was told before it was known to be durable.
    pub unsaved: u64,
}

impl TurnCounts {
    /// How many runs ended, in whatever way.
    pub fn ended(&self) -> u64 {
        self.ends.values().sum()
    }
}

/// The counts that this version knows: a newer program may count more.
fn known<'de, K: Enum + Deserialize<'de>, D: Deserializer<'de>>(counts: D) -> Result<EnumMap<K, u64>, D::Error> {
    let mut known = EnumMap::default();
    for (name, count) in BTreeMap::<String, u64>::deserialize(counts)? {
        let name: StringDeserializer<value::Error> = name.into_deserializer();
        if let Ok(key) = K::deserialize(name) {
            known[key] = count;
        }
    }
    Ok(known)
}

/// Tokens, summed over the turns that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Of the prompts.
    pub input: u64,
    /// Of the answers.
    pub output: u64,
    /// Both, or what the providers say instead.
    pub total: u64,
    /// Of the input, read from a provider's cache, where reported.
    pub cached_input: u64,
}

/// How often actors were started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartCounts {
    /// Actors of sessions that crashed in a turn.
    pub sessions: u64,
    /// Every other actor of the tree, tool servers among them.
    pub children: u64,
    /// How often one of these died too often and was left down.
    pub gave_up: u64,
}

/// How long something took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// The sum of all times since the runtime began, in microseconds.
    pub sum_us: u64,
    /// All times since then.
    pub all: LatencyQuantiles,
    /// Those of the last 10 to 20 s.
    pub recent: LatencyQuantiles,
    /// All times, cumulative; empty when there are none.
    pub buckets: Vec<LatencyBucket>,
}

/// Quantiles of a number of times; zeros when there are none. Three digits count; an hour stands for whatever took longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyQuantiles {
    /// How many times.
    pub count: u64,
    /// The median, in microseconds.
    pub p50_us: u64,
    /// Nine of ten took at most so long, in microseconds.
    pub p90_us: u64,
    /// 99 of 100, in microseconds.
    pub p99_us: u64,
    /// 999 of 1,000, in microseconds.
    pub p999_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

/// How many took at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LatencyBucket {
    /// So long, in microseconds.
    pub at_most_us: u64,
    /// So many.
    pub count: u64,
}
