//! When a child that died is started again: pure, with the time and chance passed in.
//!
//! A supervisor consults a [`RestartLog`] at every death and every failed start, and does what the verdict says.
//! Nothing here reads a clock, waits or knows an actor.

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;

use bob_messages::backoff::Backoff;
use std::collections::VecDeque;

/// How many restarts a child is allowed within which period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartIntensity {
    /// The most restarts in any period; the next death in it is given up on.
    pub max_restarts: u32,
    /// The period, in milliseconds.
    pub within_ms: u64,
}

/// After which ends a child is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartType {
    /// After every end.
    Permanent,
    /// After every end but a normal one.
    Transient,
    /// Never.
    Temporary,
}

/// When a kind of child is restarted, how often and after which delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartRule {
    /// After which ends it is restarted.
    pub restart: RestartType,
    /// The limit of restarts.
    pub intensity: RestartIntensity,
    /// How many restarts in a row are made without a delay.
    pub at_once: u32,
    /// How long each further restart in a row waits.
    pub backoff: Backoff,
    /// After this time, in milliseconds, a child counts as healthy and its next delay is the first one again. The
    /// intensity is not reset.
    pub healthy_ms: u64,
}

impl RestartRule {
    /// The rule of critical actors: the first restart has no delay, since all callers wait for it.
    pub const CORE: Self = Self { at_once: 1, ..Self::SERVER };

    /// The rule of servers outside this process: each restart is delayed, since causes rarely vanish at once.
    pub const SERVER: Self = Self {
        restart: RestartType::Permanent,
        intensity: RestartIntensity { max_restarts: 5, within_ms: 180_000 },
        at_once: 0,
        backoff: Backoff { first_ms: 200, most_ms: 60_000 },
        healthy_ms: 60_000,
    };
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died {
    /// Whether it stopped by itself or on request, and was neither killed nor failed.
    pub normally: bool,
}

/// The decision about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Restart it.
    RestartAfter {
        /// The delay before the restart, in milliseconds.
        delay_ms: u64,
    },
    /// Leave it ended, as its type allows.
    LeaveEnded,
    /// It died too often within the period.
    GiveUp,
}

/// The restarts of one child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartLog {
    /// The times of the restarts of the last period, future ones included.
    restarts: VecDeque<u64>,
    /// Restarts since the child was last healthy.
    in_a_row: u32,
    up_since: Option<u64>,
}

impl RestartLog {
    /// Records that the child runs since `now_ms`.
    pub fn started(&mut self, now_ms: u64) {
        self.up_since = Some(now_ms);
    }

    /// Decides about a death at `now_ms`. Times are milliseconds since a fixed moment and never go back; `chance` is
    /// uniform in `0.0..=1.0`.
    pub fn rule(&mut self, now_ms: u64, died: Died, rule: &RestartRule, chance: f64) -> Verdict {
        let up_since = self.up_since.take();
        match (rule.restart, died.normally) {
            (RestartType::Temporary, _) | (RestartType::Transient, true) => return Verdict::LeaveEnded,
            (RestartType::Permanent, _) | (RestartType::Transient, false) => {}
        }
        if up_since.is_some_and(|since| now_ms.saturating_sub(since) >= rule.healthy_ms) {
            self.in_a_row = 0;
        }
        // A restart is never earlier than the death it follows. So once the oldest of
        // `max_restarts` lies a whole period before this death, it also lies a whole
        // period before this restart, and no period holds more than it may.
        self.restarts.retain(|&restart| now_ms.saturating_sub(restart) < rule.intensity.within_ms);
        if self.restarts.len() >= usize::try_from(rule.intensity.max_restarts).unwrap_or(usize::MAX) {
            return Verdict::GiveUp;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let delay_ms = match self.in_a_row.saturating_sub(rule.at_once) {
            0 => 0,
            delayed => rule.backoff.delay_ms(delayed, chance),
        };
        self.restarts.push_back(now_ms.saturating_add(delay_ms));
        Verdict::RestartAfter { delay_ms }
    }
}
