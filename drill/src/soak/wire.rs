//! What the worker tells its parent: one JSON object a line, each with the time of the worker's clock.
//!
//! The parent writes every line down as it came, and the checker reads what was written. It is the acknowledgement log: a
//! request counts as answered when its line was there, whatever happened to the worker afterwards.

use bob_messages::chat::{CallStatus, FinishReason};
use serde::{Deserialize, Serialize};

use super::chaos::Kind;

/// A line and when it was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Milliseconds since the epoch.
    pub(crate) at: u64,
    pub(crate) told: Told,
}

/// What is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// The runtime is ready, and nothing was asked of it.
    Ready {
        /// How many actors there are.
        actors: usize,
    },
    /// A request goes in.
    Asked { session: String, request: String },
    /// It has its outcome.
    Answered(Box<Answer>),
    /// It was not taken.
    Refused { session: String, request: String, why: String },
    /// An event said that a turn is over.
    Ended { session: String, turn: String },
    /// Something was done to it on purpose. `sessions` are those that may feel it; none means all.
    Fault { kind: Kind, target: String, sessions: Vec<String> },
    /// A tool server, or another actor, is back.
    Back { who: String, after_ms: u64 },
    /// A sample of the runtime.
    Sample { live: usize, running: usize, waiting: usize },
    /// Nothing is asked any more, and every session was closed.
    Quiet {
        /// Sessions that are still live.
        live: usize,
        /// How many actors there are.
        actors: usize,
    },
}

/// An outcome as it was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) session: String,
    pub(crate) request: String,
    /// The turn that ran for it.
    pub(crate) turn: String,
    pub(crate) reason: FinishReason,
    pub(crate) content: String,
    /// Whether the outcome was said to be durable.
    pub(crate) saved: bool,
    /// Model calls.
    pub(crate) steps: u32,
    /// The turn's calls: id and how each ended.
    pub(crate) calls: Vec<(String, CallStatus)>,
    /// What failed, in words.
    pub(crate) error: Option<String>,
    /// From the request to the outcome, in microseconds.
    pub(crate) took_us: u64,
    /// When a running turn was cancelled: how long that took.
    pub(crate) cancel: Option<CancelTime>,
}

/// From a cancel to the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CancelTime {
    /// In microseconds.
    pub(crate) us: u64,
    /// For how much of it an empty task of the same process was late.
    pub(crate) late_us: u64,
}
