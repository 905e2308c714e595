//! What other sessions used for a call.

use super::Usage;
use crate::cost::Cost;
use serde::{Deserialize, Serialize};

/// What sessions used that worked for a call, or for the calls of a turn: those at all levels below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// How many sessions there were.
    pub sessions: u32,
    /// Their model calls.
    pub steps: u32,
    /// Their tool calls.
    pub tool_calls: u32,
    /// Their tokens.
    pub usage: Usage,
    /// What their model calls cost, as far as it is known.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
}

impl Delegated {
    /// Adds what others used.
    pub fn add(&mut self, other: &Self) {
        self.sessions = self.sessions.saturating_add(other.sessions);
        self.steps = self.steps.saturating_add(other.steps);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.usage.add(&other.usage);
        self.cost = self.cost.plus(other.cost);
    }
}
