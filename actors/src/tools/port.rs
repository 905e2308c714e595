//! The port through which tools come in.
//!
//! A program with tools implements [`ToolPort`] and passes it to the actor when it starts. The actor calls it from a
//! task of its own for each call, only after the gate has allowed the call; a port never judges policy.

use super::progress::{ProgressRoom, ProgressSink};
use bob_messages::chat::{ServerWait, ToolCall};
use bob_messages::ids::SessionId;
use bob_messages::reply::SoFar;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// A port: some tools, and the way to run them.
pub trait ToolPort: Send + Sync + 'static {
    /// The tools. Asked when the actor starts for the first time, which waits for it, and again after each of the
    /// [`changes`](Self::changes).
    /// Names must be unique in a runtime, whatever port they come from: a later list with a name of another port is not
    /// taken, and the one before stays in force. The future may be dropped; one that takes longer than 10 s, or panics,
    /// is an error at the first start of the actor, and leaves the tools as they were later.
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>>;

    /// Notifies of changes of the list, whose value means nothing. Turns that begin afterwards are offered what is listed
    /// then; a call of a tool that is gone is answered as one of a tool that never was. `None`, and the default: the list
    /// stays as it is.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Runs one call whose arguments fit the tool's schema.
    ///
    /// The future is dropped when the call is cancelled or its deadline passes: whatever it holds must let go in its
    /// `Drop`. It must not block its thread; blocking work belongs in [`tokio::task::spawn_blocking`]. A panic in it is
    /// caught and becomes an error result.
    ///
    /// A result that is not there yet and comes from outside is [`ToolOutput::waits_for`]: the turn is suspended, and the
    /// reply to its token is the result.
    ///
    /// # Errors
    /// [`ToolError`] when the tool could not do what was asked; the model reads it.
    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;

    /// What a call names that a person must be asked about, or that no call may touch, whatever the risk of the tool.
    /// The outer `None` is for tools that have nothing to look at, and the default. The gate's actor asks it for each call
    /// that a rule has not refused, and waits for the answer in a task; what is then allowed is exactly this call.
    fn concern(
        &self,
        _call: &Arc<ToolCall>,
        _context: &Arc<CallContext>,
    ) -> Option<BoxFuture<'static, Option<Concern>>> {
        None
    }

    /// How long this call may run, in milliseconds; `ruled_ms` is what the rules say of its tool, if they do. `None`, and
    /// the default: as long as the rules say, else as long as its context does.
    fn limit_ms(&self, _call: &ToolCall, _ruled_ms: Option<u64>) -> Option<u64> {
        None
    }

    /// A call ended whose tool server was still working on it: the server may stop. Only for ports of tool servers. Must not
    /// block.
    fn give_up(&self, _wait: &Arc<ServerWait>) {}

    /// The actor that hosts the tools has ended, however: what its calls left running ends now. Must not block.
    fn host_ended(&self) {}

    /// A session was closed or deleted: what its calls left running ends now. Must not block.
    fn session_ended(&self, _session: &SessionId) {}
}

/// What calls leave running behind them.
pub(crate) trait Leaving: Send + Sync + 'static {
    /// See [`ToolPort::host_ended`].
    fn host_ended(&self);

    /// See [`ToolPort::session_ended`].
    fn session_ended(&self, session: &SessionId);
}

/// Why a call that the rules let through does not run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concern {
    /// A person must allow exactly this call; approvals of a risk or of the tool do not count. Why: a fragment that is read
    /// behind "it".
    Ask(String),
    /// It is not run, even with an approval; why, for the model.
    Deny(String),
    /// It is not known whether it may run: it is not run now, and a question about it that a person looks at stays open.
    /// Why: a fragment that is read behind "not run: ".
    Unknown(String),
}

impl Concern {
    /// Two that are about one call: a denial is the last word, what is not known is no yes, and two questions are one.
    pub(crate) fn joined(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(Self::Deny(reason)), _) | (_, Some(Self::Deny(reason))) => Some(Self::Deny(reason)),
            (Some(Self::Unknown(why)), _) | (_, Some(Self::Unknown(why))) => Some(Self::Unknown(why)),
            (Some(Self::Ask(first)), Some(Self::Ask(second))) => Some(Self::Ask(format!("{first}, and it {second}"))),
            (one, None) | (None, one) => one,
        }
    }
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
    /// The key under which a side effect happens once, even when a call is repeated after a crash: `session/turn/call`.
    pub fn idempotency_key(&self) -> String {
        self.context.idempotency_key(&self.call.id)
    }

    /// The way to say how far the call is. Taken once and kept: each one counts its own ten a second.
    pub fn progress(&self) -> ProgressSink {
        self.progress.sink(&self.call, &self.context)
    }

    /// The runtime that makes the call, if it is a `T` and has not ended. Programs use `Runtime::of` of the library.
    pub fn runtime<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.progress.runtime().get()
    }

    /// Where a call puts what it has produced before its result: the last 64 KiB of it are part of the result of a call
    /// that is cancelled, or that takes too long.
    pub fn so_far(&self) -> &SoFar {
        self.progress.so_far()
    }

    /// The arguments as a type of the tool's own.
    ///
    /// # Errors
    /// When the type and the schema disagree.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, ToolError> {
        A::deserialize(&*self.call.arguments)
            .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))
    }
}

/// Why a tool could not do what was asked. A person and a model read the same
/// text, so it says what to do instead where that is known, and holds no secrets.
///
/// Every type that implements [`std::error::Error`] converts into it with `?`; its text is the error and its sources,
/// separated by `: `. For that reason it does not implement [`std::error::Error`] itself. A `String`, a
/// `Box<dyn Error + Send + Sync>` and an `anyhow::Error` do not implement that trait: map them with
/// `.map_err(|error| ToolError::new(error.to_string()))`, which for `anyhow` is `format!("{error:#}")` if the sources
/// are to be in the text.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolError {
    text: String,
    kind: ErrorKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    Failed,
    OutcomeUnknown,
    Unavailable,
}

impl ToolError {
    /// An error with this text: a lowercase fragment without a full stop.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: ErrorKind::Failed }
    }

    /// The way to the tool broke while it may have been at work: it is not known whether
    /// the call ran. The text is `outcome unknown: ` and then why.
    pub fn outcome_unknown(why: impl fmt::Display) -> Self {
        Self { text: format!("outcome unknown: {why}"), kind: ErrorKind::OutcomeUnknown }
    }

    /// What would run the call is not there now, so nothing of it was run; no error of the model, and none that
    /// counts as one. The text is `not run: ` and then why.
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self { text: format!("not run: {why}"), kind: ErrorKind::Unavailable }
    }

    pub(crate) fn noted(self, note: &str) -> Self {
        Self { text: format!("{}\n{note}", self.text), ..self }
    }

    /// Whether the call may have run.
    pub fn is_outcome_unknown(&self) -> bool {
        self.kind == ErrorKind::OutcomeUnknown
    }

    /// Whether nothing was run, since what would run it is not there.
    pub fn is_unavailable(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolError({:?})", self.text)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            // Some errors have their source in their own text.
            if !text.ends_with(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        Self::new(text)
    }
}
