//! Decisions about calls, and their effects.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A person's decision about one call. Anything not understood denies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// This call may run.
    AllowOnce,
    /// This call, and calls of this tool in this session, may run.
    AllowSession,
    /// This call, and calls of this tool, may always run.
    AllowAlways,
    /// It may run with these arguments instead.
    Edit {
        /// The arguments.
        arguments: Value,
    },
    /// This call may not run.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// Calls of this tool may never run.
    DenyAlways {
        /// Why, for the model.
        reason: String,
    },
}

/// The effect of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// It was the first: it counts.
    Counts,
    /// No such question is open in the turn that runs; nothing changed.
    NotAsked,
    /// The session has no live actor, or its journal could not be read; nothing changed.
    NotLive,
}
