//! What a host of tools returns of a call.

use crate::chat::{CallStatus, ToolOutput};
use serde::{Deserialize, Serialize};

/// The return of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// How it ended.
    pub status: CallStatus,
    /// Its output.
    pub output: ToolOutput,
    /// How long it ran.
    pub duration_ms: u64,
}

impl ToolReturn {
    /// A result that is one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { status: CallStatus::Ok, output: ToolOutput::text(text), duration_ms: 0 }
    }

    /// The return of a call that was not run because its host is unavailable, which is not an error of the caller.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self::note(CallStatus::Cancelled, why)
    }

    /// A return of this output, which says whether it is a failure.
    pub fn of(output: ToolOutput) -> Self {
        let status = if output.is_error { CallStatus::Error } else { CallStatus::Ok };
        Self { status, output, duration_ms: 0 }
    }

    /// A return without an output of the tool's own.
    pub fn note(status: CallStatus, text: impl Into<String>) -> Self {
        Self { status, output: ToolOutput::error(text), duration_ms: 0 }
    }
}
