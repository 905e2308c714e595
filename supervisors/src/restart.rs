//! When a child that died is started again: pure, with the time and chance passed in.
//!
//! Owns the rule and what it remembers of one child. A supervisor asks it at every
//! death, a failed start included, and does what the verdict says. Nothing here
//! reads a clock, waits or knows an actor.

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

/// Everything that decides about the restarts of one kind of child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartRule {
    /// After which ends it is started again.
    pub restart: RestartType,
    /// How often.
    pub intensity: RestartIntensity,
    /// How many restarts in a row are made without a delay.
    pub at_once: u32,
    /// How long each further restart in a row waits.
    pub backoff: Backoff,
    /// A child that lived this long, in milliseconds, begins a new row: its next
    /// delay is the first one again. The intensity is not reset by it.
    pub healthy_ms: u64,
}

impl RestartRule {
    /// The rule of the actors a house cannot do without: the first restart is made
    /// at once, since everybody waits for it.
    pub const CORE: Self = Self { at_once: 1, ..Self::SERVER };

    /// The rule of servers outside this process: a delay before each restart, since
    /// what failed is rarely well again at once.
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
    /// Whether it stopped by itself or was asked to, and was neither killed nor failed.
    pub normally: bool,
}

/// What the rule says about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again.
    RestartAfter {
        /// The delay before it, in milliseconds.
        delay_ms: u64,
    },
    /// Its end is as it should be.
    LeaveEnded,
    /// It died too often in its period.
    GiveUp,
}

/// What the rule remembers of one child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartLog {
    /// When the restarts of the last period were, or are to be, made.
    restarts: VecDeque<u64>,
    /// Restarts since the child was last healthy.
    in_a_row: u32,
    up_since: Option<u64>,
}

impl RestartLog {
    /// The child runs since `now_ms`.
    pub fn started(&mut self, now_ms: u64) {
        self.up_since = Some(now_ms);
    }

    /// Rules on a death at `now_ms`. Times are milliseconds since any fixed moment
    /// and never go back; `chance` is uniform in `0.0..=1.0`.
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
