//! The lines of a tape.
//!
//! A tape is JSON lines: a header, then entries in the order in which they were written. Texts and messages that many
//! requests share have their own lines, once, and are referenced by number.

use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, ToolName};
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, ToolMode};
use bob_messages::tools::{ToolDescriptor, ToolOutput};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::error::Error;
use std::io;
use std::sync::Arc;

/// The format of the tapes this program writes. Another one is refused.
pub const TAPE_FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The format of the lines behind it.
    pub tape: u32,
    /// The version of the program that wrote them.
    pub bob: String,
    /// A note of its author.
    pub note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A model's capabilities, from the provider's configuration.
    Profile { model: ModelName, capabilities: Capabilities },
    /// The tools of a port, which a replay offers.
    Offered { tools: Vec<ToolDescriptor> },
    /// Instructions.
    System { id: u32, text: String },
    /// The tools of a request, as a model was offered them.
    Tools { id: u32, tools: Vec<Arc<ToolDescriptor>> },
    /// A message of a request.
    Message { id: u32, message: Message },
    /// A model call.
    Asked(Asked),
    /// A tool was called.
    Called(Called),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The start order: earlier starts have smaller numbers.
    pub(super) began: u64,
    /// The session; not compared, it only separates concurrent entries.
    pub(super) session: String,
    /// Which step of its turn, to be read.
    pub(super) step: u32,
    pub(super) model: ModelName,
    pub(super) mode: ToolMode,
    pub(super) system: u32,
    pub(super) tools: u32,
    pub(super) messages: Vec<u32>,
    pub(super) end: AskedEnd,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AskedEnd {
    /// With an answer; its pieces are joined.
    Answered(LlmAnswer),
    Failed(LlmError),
    /// Abandoned by a cancel or a timeout. A replay never returns it.
    Abandoned,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Called {
    pub(super) began: u64,
    pub(super) session: String,
    pub(super) tool: ToolName,
    pub(super) arguments: Value,
    pub(super) end: CalledEnd,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CalledEnd {
    Returned(ToolOutput),
    Failed {
        text: String,
        /// Whether it may have run nevertheless.
        unknown: bool,
    },
    /// Abandoned by a cancel or a timeout.
    Abandoned,
    /// The tool panicked.
    Panicked,
}

/// An error of a tape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The file cannot be written or read.
    #[error("the tape {path}: {why}")]
    File {
        /// Which file.
        path: String,
        /// The reason, with advice.
        why: String,
        /// The error of the system, where there is one.
        source: Option<io::Error>,
    },
    /// A line is not one of a tape.
    #[error("the tape {path} cannot be read at line {line}: {why}")]
    Line {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// The error.
        why: String,
        /// The error of the system, or of the JSON, where there is one.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}
