//! The exit codes, and errors that end a command.
//!
//! Scripts rely on these numbers; this is the only table of them. A turn that failed, was cancelled or reached a
//! guard has an outcome that determines the code; any other error of a command is a [`Failure`].

use std::{fmt, io};

use bob::AgentError;
use bob::model::LlmError;
use bob::sessions::{FinishReason, GuardReason, InvalidId, TurnOutcome};
use bob::store::StoreError;
use bob_config::ConfigError;

use crate::terminal::advice::can_be_taken_from;
use crate::terminal::{settings, stderr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// There is a final answer, or the command did its work.
    Success = 0,
    /// A soak's verdict is FAIL, a replay found a difference, or a skill is broken.
    Failed = 1,
    /// Arguments, configuration, session id, size of the input, provider or model.
    Usage = 2,
    /// A guard ended the turn.
    Guard = 3,
    /// The turn waits for a person.
    Suspended = 4,
    /// The model failed.
    Model = 5,
    /// The tools could not be started or listed.
    Tools = 6,
    /// The store failed, or the end of a turn is not in it.
    Store = 7,
    /// The runtime gave up, or had an internal error.
    GaveUp = 70,
    /// Busy or overloaded: a retry may succeed.
    TryLater = 75,
    /// SIGHUP.
    HungUp = 129,
    /// SIGINT, or the turn was cancelled in another way.
    Interrupted = 130,
    /// Stdout was closed: 128 plus the number of SIGPIPE.
    StdoutClosed = 141,
    /// SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// Ends the process with this code and restores the terminal. Waits up to half a second for queued stderr output;
    /// other threads, which may be blocked on a terminal or a pipe, are not waited for.
    pub(crate) fn leave(self) -> ! {
        stderr::finish();
        if matches!(self, Self::Interrupted) {
            settings::forget_typed();
        }
        settings::restore();
        std::process::exit(i32::from(self as u8))
    }

    pub(crate) fn of(outcome: &TurnOutcome) -> Self {
        match outcome.finish_reason {
            _ if is_lost(outcome) => Self::Store,
            FinishReason::Final => Self::Success,
            FinishReason::GuardExceeded => Self::Guard,
            FinishReason::Suspended => Self::Suspended,
            FinishReason::Cancelled => Self::Interrupted,
            FinishReason::Error => outcome.error.as_ref().map_or(Self::GaveUp, Self::of_error),
        }
    }

    /// The code of a failed turn or of a request that was not taken.
    pub(crate) fn of_error(error: &AgentError) -> Self {
        match error {
            AgentError::Llm(error) if error.is_usage() => Self::Usage,
            AgentError::Llm(_) => Self::Model,
            AgentError::Tool(_) => Self::Tools,
            AgentError::Skill(_) | AgentError::Policy(_) | AgentError::Invalid(_) => Self::Usage,
            AgentError::Store(StoreError::Busy { .. } | StoreError::Unreachable { .. }) => Self::TryLater,
            AgentError::Store(_) | AgentError::Kept(_) => Self::Store,
            AgentError::Timeout { .. } | AgentError::Busy { .. } | AgentError::Overloaded { .. } => Self::TryLater,
            AgentError::GuardExceeded(_) => Self::Guard,
            _stopped_or_a_fault_of_ours => Self::GaveUp,
        }
    }

    pub(crate) fn is_cancelled(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::StdoutClosed | Self::Terminated)
    }
}

/// Whether the end of a turn could not be saved. A stopped turn is reported before it is saved.
pub(crate) fn is_lost(outcome: &TurnOutcome) -> bool {
    match outcome.finish_reason {
        FinishReason::Final | FinishReason::Suspended => !outcome.saved,
        FinishReason::GuardExceeded => {
            let is_stopped = matches!(outcome.guard_reason, Some(GuardReason::TurnTimeout | GuardReason::NoProgress));
            !outcome.saved && !is_stopped
        }
        FinishReason::Cancelled | FinishReason::Error => false,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The kind, as named by `--output json`.
    pub(crate) kind: &'static str,
    /// The problem and the remedy: a lowercase fragment. Empty if there is no reader.
    pub(crate) message: String,
    /// Whether a retry may succeed.
    pub(crate) is_retryable: bool,
    /// A report for people that replaces the message, if it has several lines.
    pub(crate) report: Option<String>,
}

impl Failure {
    /// The person can put it right by asking differently.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "invalid", message)
    }

    /// A fault of this program.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::GaveUp, "internal", message)
    }

    /// A process has ended or does not respond.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self { is_retryable: true, ..Self::new(Exit::TryLater, "unavailable", message) }
    }

    /// A signal came where there is no turn to cancel.
    pub(crate) fn signalled(exit: Exit) -> Self {
        Self::new(exit, "cancelled", "interrupted")
    }

    fn new(exit: Exit, kind: &'static str, message: impl Into<String>) -> Self {
        Self { exit, kind, message: message.into(), is_retryable: false, report: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let is_retryable = error.is_retryable();
        let mut message = error.to_string();
        let owner = match &error {
            AgentError::Busy { owner, .. } => owner.as_deref(),
            AgentError::Store(StoreError::Busy { owner }) => Some(&**owner),
            _not_in_use => None,
        };
        if let Some(owner) = owner {
            message.push_str(match can_be_taken_from(owner) {
                true => "; end that process, or take the session over with `run` or `chat` and --take-over",
                false => "; end that process, or try again when it has ended",
            });
        }
        Self { is_retryable, ..Self::new(Exit::of_error(&error), error.kind(), message) }
    }
}

impl From<LlmError> for Failure {
    fn from(error: LlmError) -> Self {
        AgentError::from(error).into()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        AgentError::from(error).into()
    }
}

impl From<InvalidId> for Failure {
    fn from(error: InvalidId) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let places = error.problems().iter().map(|problem| match problem.line {
            0 => problem.message.clone(),
            line => format!("line {line}, column {}: {}", problem.column, problem.message),
        });
        let message = places.collect::<Vec<_>>().join("; ");
        let is_coloured = crate::terminal::print::stderr_takes_colour();
        Self { report: Some(error.render(is_coloured)), ..Self::usage(message) }
    }
}

/// Writing to stdout failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // A terminal that was closed answers every write with this error.
        let is_hung_up = rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::IO);
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::StdoutClosed, "cancelled", ""),
            _ if is_hung_up => Self::new(Exit::StdoutClosed, "cancelled", ""),
            _ => Self::internal(format!("cannot write to stdout: {error}")),
        }
    }
}

#[cfg(test)]
#[path = "exit_tests.rs"]
mod tests;
