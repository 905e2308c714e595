//! The worker's reports to its parent: one JSON object a line, each with the time of the worker's clock.
//!
//! The parent logs every line as received, and the checker reads that log. It is the acknowledgement log: a request
//! counts as answered when its line was written, regardless of later events in the worker.

use bob_messages::chat::{CallStatus, FinishReason};
use serde::{Deserialize, Serialize};

use super::chaos::Kind;

/// A line and when it was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Milliseconds since the epoch.
    pub(crate) at: u64,
    pub(crate) told: Report,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The runtime is ready and idle.
    Ready { actors: usize },
    /// A request goes in.
    Asked { session: String, request: String },
    /// It has its outcome.
    Answered(Box<Answer>),
    /// It was not taken.
    Refused { session: String, request: String, why: String },
    /// An event reported the end of a turn, and whether the store has it.
    Ended { session: String, turn: String, saved: bool },
    /// Something was done to it on purpose. `sessions` are those that may feel it; none means all.
    Fault { kind: Kind, target: String, sessions: Vec<String> },
    /// A tool server, or another actor, is back.
    Back { who: String, after_ms: u64 },
    /// A sample of the runtime.
    Sample { live: usize, running: usize, waiting: usize },
    /// One of several workers owns a session under this epoch.
    Claimed { who: String, session: String, epoch: u64 },
    /// It gave the session back.
    Released { who: String, session: String },
    /// A worker saw this outcome of a message.
    Worked { who: String, answer: Box<Answer> },
    /// A worker did nothing for so long: it was stopped, or the machine was busy.
    Stalled { who: String, ms: u64 },
    /// The load has ended, and every session was closed.
    Quiet {
        /// Sessions that are still live.
        live: usize,
        actors: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) session: String,
    pub(crate) request: String,
    pub(crate) turn: String,
    pub(crate) reason: FinishReason,
    pub(crate) content: String,
    /// Whether the outcome was reported as durable.
    pub(crate) saved: bool,
    pub(crate) steps: u32,
    /// The turn's calls: id and how each ended.
    pub(crate) calls: Vec<(String, CallStatus)>,
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
    /// Scheduling latency of an empty task in that time.
    pub(crate) late_us: u64,
}
