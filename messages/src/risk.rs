//! The risk of a tool call, and its origin.

use serde::{Deserialize, Serialize};

/// The possible damage of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It reads.
    Low,
    /// It changes something local.
    #[default]
    Medium,
    /// It writes to a network, runs a shell, accesses secrets, or does not describe its effects.
    High,
}

impl Risk {
    /// Its name: `low`, `medium` or `high`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The origin of a tool's risk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RiskSource {
    /// The program that provides the tool: Bob, or the embedding program.
    #[default]
    Program,
    /// An annotation that its server gives it.
    Annotation {
        /// As the protocol calls it, for example `readOnlyHint`.
        name: String,
        /// The value of the hint.
        value: bool,
    },
    /// No origin: the server declares the tool neither read-only nor non-destructive, so the risk is high.
    Default,
    /// The configuration.
    Configuration {
        /// The name or pattern of the setting.
        pattern: String,
    },
}

impl RiskSource {
    /// Whether it is the tool's own program.
    pub fn is_program(&self) -> bool {
        *self == Self::Program
    }
}
