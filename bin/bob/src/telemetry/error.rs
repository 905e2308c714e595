//! Why no telemetry is sent.

use std::io;

/// Why the settings of telemetry cannot be used, or its sender cannot start. Its text quotes no header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A variable has a value that cannot be used.
    #[error("{name} {why}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it must be; it follows the name.
        why: String,
    },
    /// The address of a receiver is none of HTTP.
    #[error("the address of the receiver of {of} must begin with http:// or https://")]
    Address {
        /// What the receiver is sent: `spans` or `metrics`.
        of: &'static str,
    },
    /// A header has a name or a value that HTTP does not allow.
    #[error("a header for telemetry is no valid header")]
    Header,
    /// The thread that sends cannot start.
    #[error("telemetry cannot start: {source}")]
    Start {
        /// The error of the system.
        source: io::Error,
    },
    /// The HTTP client cannot start.
    #[error("the HTTP client for telemetry cannot start: {source}")]
    Client {
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TelemetryError {
    pub(super) fn of(name: &'static str, why: impl Into<String>) -> Self {
        Self::Variable { name, why: why.into() }
    }
}
