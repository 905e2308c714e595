//! Why an actor of a turn is ended from outside.

use super::TurnOutcome;
use crate::chat::{FinishReason, GuardReason};
use crate::ids::{SessionId, TurnId};
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Why an actor of a turn is ended from outside. Supervisors and actors exchange
/// it as text, since an actor system carries reasons as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Cancelled by its user or program.
    Cancelled,
    /// `turn_timeout_ms` passed.
    TurnTimeout,
    /// `progress_timeout_ms` passed without progress.
    NoProgress,
    /// The program ends.
    Shutdown,
    /// It was idle and holds nothing that the journal does not.
    Passivated,
    /// Another process continues its turn, which stays open.
    HandedOver,
}

impl EndReason {
    /// How a turn finishes that is ended for this reason.
    pub fn finishes(self) -> (FinishReason, Option<GuardReason>) {
        match self {
            Self::TurnTimeout => (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout)),
            Self::NoProgress => (FinishReason::GuardExceeded, Some(GuardReason::NoProgress)),
            Self::Cancelled | Self::Shutdown | Self::Passivated | Self::HandedOver => (FinishReason::Cancelled, None),
        }
    }

    /// The reason for which a turn that finished so was ended from outside; `None` for one that ended by itself.
    pub fn of(finished: FinishReason, guard: Option<GuardReason>) -> Option<Self> {
        match (finished, guard) {
            (FinishReason::Cancelled, _) => Some(Self::Cancelled),
            (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout)) => Some(Self::TurnTimeout),
            (FinishReason::GuardExceeded, Some(GuardReason::NoProgress)) => Some(Self::NoProgress),
            _by_itself => None,
        }
    }
}

/// The outcome of a turn that never ran. Its text is that of the limit that ended it, if one did, or else `text`.
pub fn never_ran(
    session: SessionId,
    turn: TurnId,
    reason: EndReason,
    limits: Option<&Limits>,
    text: &str,
) -> TurnOutcome {
    let (finish_reason, guard_reason) = reason.finishes();
    let guarded = guard_reason.zip(limits).map(|(guard, limits)| limits.sentence(guard));
    let content = guarded.unwrap_or_else(|| text.to_owned());
    TurnOutcome { guard_reason, ..TurnOutcome::bare(session, turn, finish_reason, content) }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "cancelled",
            Self::TurnTimeout => "turn_timeout",
            Self::NoProgress => "no_progress",
            Self::Shutdown => "shutdown",
            Self::Passivated => "passivated",
            Self::HandedOver => "handed_over",
        })
    }
}

impl FromStr for EndReason {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cancelled" => Ok(Self::Cancelled),
            "turn_timeout" => Ok(Self::TurnTimeout),
            "no_progress" => Ok(Self::NoProgress),
            "shutdown" => Ok(Self::Shutdown),
            "passivated" => Ok(Self::Passivated),
            "handed_over" => Ok(Self::HandedOver),
            _ => Err(()),
        }
    }
}
