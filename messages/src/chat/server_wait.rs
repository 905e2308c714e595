//! A call that a tool server has taken, and has not answered with its result.

use super::output::ToolOutput;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// What a tool server gave instead of the result of a call. The result can be asked for with it, also by another process;
/// the tool is not called again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerWait {
    /// The server works on the call as a task.
    Task {
        /// The server's name for the task.
        id: Arc<str>,
    },
}

impl ServerWait {
    /// What is waited for, for people; `note` is what is known of it now.
    pub fn what(&self, note: &str) -> String {
        let Self::Task { id } = self;
        let colon = if note.is_empty() { "" } else { ": " };
        format!("the result of the tool server's task {id}{colon}{note}")
    }

    /// The output of a call that has no result yet.
    pub fn output(&self, note: &str) -> ToolOutput {
        ToolOutput { structured: Some(json!({"server": self})), ..ToolOutput::waits_for(self.what(note)) }
    }

    /// What the server gave, if the output of a call says so.
    pub(crate) fn of(output: &ToolOutput) -> Option<Self> {
        output.waits_for.as_ref()?;
        Self::deserialize(output.structured.as_ref()?.get("server")?).ok()
    }
}
