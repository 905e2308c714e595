//! The port through which tools come in.
//!
//! Whoever has tools implements [`ToolPort`] and hands it to the actor when it
//! starts. The actor calls it from a task of its own for each call, only after the
//! gate has allowed the call; a port never judges policy.

use super::progress::{ProgressRoom, ProgressSink};
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

/// A port: some tools, and the way to run them.
pub trait ToolPort: Send + Sync + 'static {
    /// The tools, asked for once when the actor starts. Names must be unique in a
    /// runtime, whatever port they come from.
    fn list_tools(&self) -> Vec<ToolDescriptor>;

    /// Runs one call whose arguments fit the tool's schema.
    ///
    /// The future is dropped when the call is cancelled or its deadline passes:
    /// whatever it holds must let go in its `Drop`. It must not block its thread;
    /// blocking work belongs in [`tokio::task::spawn_blocking`]. A panic in it is
    /// caught and becomes an error result.
    ///
    /// A result that is not there yet and comes from outside is [`ToolOutput::waits_for`]: the turn is suspended, and the
    /// reply to its token is the result.
    ///
    /// # Errors
    /// [`ToolError`] when the tool could not do what was asked; the model reads it.
    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
}

/// One call on its way to a tool.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// What to run; its arguments have been checked against the tool's schema.
    pub call: Arc<ToolCall>,
    /// Who asks, where and under which trace.
    pub context: Arc<CallContext>,
    /// When the call is given up, on tokio's clock.
    pub deadline: Instant,
    /// Whether running it again does no more than running it once: it reads only, or is
    /// idempotent, by the rules or its own word.
    pub may_repeat: bool,
    /// Where its progress is told.
    pub progress: ProgressRoom,
}

impl Invocation {
    /// The key under which a side effect happens once, even when a call is repeated
    /// after a crash: `session/turn/call`.
    pub fn idempotency_key(&self) -> String {
        self.context.idempotency_key(&self.call.id)
    }

    /// The way to say how far the call is. Taken once and kept: each one counts its own ten a second.
    pub fn progress(&self) -> ProgressSink {
        self.progress.sink(&self.call, &self.context)
    }

    /// The arguments as a type of the tool's own.
    ///
    /// # Errors
    /// When the type and the schema disagree.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, ToolError> {
        A::deserialize(&self.call.arguments)
            .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))
    }
}

/// Why a tool could not do what was asked. A person and a model read the same
/// text, so it says what to do instead where that is known, and holds no secrets.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    text: String,
    outcome_unknown: bool,
}

impl ToolError {
    /// An error with this text: a lowercase fragment without a full stop.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), outcome_unknown: false }
    }

    /// The way to the tool broke while it may have been at work: nobody knows whether
    /// the call ran. The text is `outcome unknown: ` and then why.
    pub fn outcome_unknown(why: impl fmt::Display) -> Self {
        Self { text: format!("outcome unknown: {why}"), outcome_unknown: true }
    }

    /// Whether the call may have run.
    pub fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolError({:?})", self.text)
    }
}

impl From<String> for ToolError {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for ToolError {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}
