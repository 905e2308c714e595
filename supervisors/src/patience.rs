//! When a running turn has taken too long: in all, or without progress.
//!
//! Pure: the time and the count of signs of life are handed in.

use bob_messages::outcome::EndReason;
use std::time::Duration;
use tokio::time::Instant;

/// How often within the time without progress the count is read. A sign of life is noticed at the next reading, so a
/// turn ends at most this part of the time later than it could.
const LOOKS: u32 = 8;

/// The time limits of a running turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// When its time in all is over.
    pub(crate) until: Instant,
    /// How long it may make no progress; zero is no bound.
    quiet: Duration,
    /// Since when no sign of life was noticed.
    since: Instant,
    /// The signs of life until then.
    beats: u64,
}

impl Patience {
    /// Of a turn that begins or goes on at `now`.
    pub(crate) fn new(now: Instant, left: Duration, quiet: Duration, beats: u64) -> Self {
        Self { until: now + left, quiet, since: now, beats }
    }

    /// When to look again.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        if self.quiet.is_zero() {
            return self.until;
        }
        let look = now + (self.quiet / LOOKS).max(Duration::from_millis(1));
        self.until.min(self.since + self.quiet).min(look)
    }

    /// Looks at the turn, of which there were so many signs of life.
    ///
    /// # Errors
    /// Why it ends, when one of its times is over.
    pub(crate) fn look(&mut self, now: Instant, beats: u64) -> Result<Instant, EndReason> {
        if now >= self.until {
            return Err(EndReason::TurnTimeout);
        }
        if beats != self.beats {
            (self.since, self.beats) = (now, beats);
        }
        if !self.quiet.is_zero() && now >= self.since + self.quiet {
            return Err(EndReason::NoProgress);
        }
        Ok(self.next(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(80);
    const ALL: Duration = Duration::from_secs(1_000);

    /// When and why a turn ends whose signs of life come at these seconds.
    fn ends(quiet: Duration, signs: &[u64]) -> (u64, EndReason) {
        let began = Instant::now();
        let mut patience = Patience::new(began, ALL, quiet, 0);
        let mut now = patience.next(began);
        loop {
            let beats = signs.iter().filter(|second| began + Duration::from_secs(**second) <= now).count();
            match patience.look(now, beats as u64) {
                Ok(next) => {
                    assert!(next > now, "time goes on");
                    now = next;
                }
                Err(reason) => return (now.duration_since(began).as_secs(), reason),
            }
        }
    }

    #[test]
    fn a_turn_without_progress_ends_when_its_quiet_time_is_over() {
        assert_eq!(ends(QUIET, &[]), (80, EndReason::NoProgress));
    }

    #[test]
    fn each_sign_of_life_begins_the_quiet_time_anew() {
        assert_eq!(ends(QUIET, &[10]), (90, EndReason::NoProgress));
        assert_eq!(ends(QUIET, &[10, 85, 160]), (240, EndReason::NoProgress));
        // Noticed at the next look, which is at most an eighth of the time later.
        assert_eq!(ends(QUIET, &[11]), (100, EndReason::NoProgress));
        // The last moment is soon enough.
        assert_eq!(ends(QUIET, &[80]), (160, EndReason::NoProgress));
        assert_eq!(ends(QUIET, &[81]), (80, EndReason::NoProgress));
    }

    #[test]
    fn progress_does_not_move_the_end_of_all_time() {
        let signs: Vec<u64> = (0..200).map(|n| n * 50).collect();
        assert_eq!(ends(QUIET, &signs), (1_000, EndReason::TurnTimeout));
        assert_eq!(ends(Duration::ZERO, &[]), (1_000, EndReason::TurnTimeout), "no bound");
        assert_eq!(ends(ALL, &[]), (1_000, EndReason::TurnTimeout), "both at once");
    }
}
