//! The turn's own time, from which follows what is left for a model call, its retries and a summary.
//!
//! It runs while the turn runs, is paused while a person is asked, and starts at zero with each run of a turn: when it
//! begins, when it is resumed, and when another process continues it. The sessions supervisor keeps the same time and
//! ends the turn at its limit; here only the remainder is computed. The wall clock, which may jump, is not used for it.

use crate::Millis;
use serde::{Deserialize, Serialize};

/// When a message arrived, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of day, for records and for people. It may jump in either direction; the only decision that uses it is
    /// whether the token of a suspended turn has expired, since that one holds across processes.
    pub wall: Millis,
    /// Milliseconds by a clock that only goes forward and has the same origin for all messages of one machine.
    pub ticks: u64,
}

impl From<Millis> for Moment {
    /// The moment where one clock serves as both, which then must not jump.
    fn from(at: Millis) -> Self {
        Self { wall: at, ticks: u64::try_from(at).unwrap_or(0) }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Time {
    pub(super) wall: Millis,
    /// The other clock at the last message; `None` before the first one.
    ticks: Option<u64>,
    /// How long the run has taken, in milliseconds.
    pub(super) lasted_ms: u64,
    /// The time that counts for the turn's limit: without that in which a person was asked.
    ran_ms: u64,
}

impl Time {
    /// Counts the time until this message; `asking`: a person was asked meanwhile.
    pub(super) fn pass(&mut self, now: Moment, asking: bool) {
        let passed_ms = self.ticks.map_or(0, |before| now.ticks.saturating_sub(before));
        self.lasted_ms = self.lasted_ms.saturating_add(passed_ms);
        if !asking {
            self.ran_ms = self.ran_ms.saturating_add(passed_ms);
        }
        (self.wall, self.ticks) = (now.wall, Some(now.ticks.max(self.ticks.unwrap_or(0))));
    }

    pub(super) fn begin(&mut self) {
        (self.lasted_ms, self.ran_ms) = (0, 0);
    }

    /// Continues a run that an earlier machine of this process began.
    pub(super) fn go_on(&mut self, lasted_ms: u64, ran_ms: u64) {
        (self.lasted_ms, self.ran_ms) = (lasted_ms, ran_ms);
    }

    /// What is left of this timeout, in milliseconds.
    pub(super) fn left_of(&self, timeout_ms: u64) -> u64 {
        timeout_ms.saturating_sub(self.ran_ms)
    }
}
