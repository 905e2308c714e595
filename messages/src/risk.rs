//! How risky a call of a tool is, and what says so.

use serde::{Deserialize, Serialize};

/// What may go wrong when a tool runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It reads.
    Low,
    /// It changes something local.
    #[default]
    Medium,
    /// It writes to a network, runs a shell, touches secrets, or says nothing of what it does.
    High,
}

/// Who says how risky a tool is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RiskSource {
    /// The program that brings the tool: Bob, or the one it is embedded in.
    #[default]
    Program,
    /// An annotation that its server gives it.
    Annotation {
        /// As the protocol calls it, for example `readOnlyHint`.
        name: String,
        /// What it says.
        value: bool,
    },
    /// Nobody: its server says neither that it changes nothing nor that it destroys nothing, so the risk is
    /// high.
    Default,
    /// The configuration.
    Configuration {
        /// The name or pattern it is said under.
        pattern: String,
    },
}

impl RiskSource {
    /// Whether it is the tool's own program.
    pub fn is_program(&self) -> bool {
        *self == Self::Program
    }
}
