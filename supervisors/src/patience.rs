//! When a running turn has taken too long: in all, or without progress.
//!
//! Pure: the time and the count of signs of life are handed in.

use bob_messages::outcome::EndReason;
use bob_messages::reply::Signs;
use std::time::Duration;
use tokio::time::Instant;

/// How often within the time without progress the count is read. A sign of life is noticed at the next reading, so a
/// turn ends at most this part of the time later than it could.
const LOOKS: u32 = 8;

/// How often a turn is looked at whose work waits for something that counts for none of its times.
const WAIT_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// When its time in all is over.
    pub(crate) until: Instant,
    /// How long it may make no progress; zero is no bound.
    quiet: Duration,
    /// Since when no sign of life was noticed.
    since: Instant,
    /// The signs of life until then.
    signs: Signs,
}

impl Patience {
    /// Of a turn that begins or goes on at `now`.
    pub(crate) fn new(now: Instant, left: Duration, quiet: Duration, signs: Signs) -> Self {
        Self { until: now + left, quiet, since: now, signs }
    }

    /// What is left of its time in all, given these signs.
    pub(crate) fn left(&self, now: Instant, signs: Signs) -> Duration {
        (self.until + self.waited_since(signs)).saturating_duration_since(now)
    }

    /// How long its work waited for what counts for none of its times, since the last look.
    fn waited_since(&self, signs: Signs) -> Duration {
        Duration::from_millis(signs.waited_ms.saturating_sub(self.signs.waited_ms))
    }

    pub(crate) fn next(&self, now: Instant) -> Instant {
        if self.quiet.is_zero() {
            return self.until;
        }
        let look = now + (self.quiet / LOOKS).max(Duration::from_millis(1));
        self.until.min(self.since + self.quiet).min(look)
    }

    /// Whether there were signs of life since the last look.
    pub(crate) fn is_alive(&self, signs: Signs) -> bool {
        signs != self.signs
    }

    /// Lets the time without progress begin anew. Returns when to look again.
    pub(crate) fn begin_anew(&mut self, now: Instant) -> Instant {
        self.since = now;
        self.next(now)
    }

    /// Checks the time limits. Returns when to check them again.
    pub(crate) fn look(&mut self, now: Instant, signs: Signs) -> Result<Instant, EndReason> {
        self.until += self.waited_since(signs);
        let is_alive = signs != self.signs || signs.waits;
        self.signs = signs;
        if signs.waits {
            self.since = now;
            return Ok(now + WAIT_LOOK);
        }
        if now >= self.until {
            return Err(EndReason::TurnTimeout);
        }
        if is_alive {
            self.since = now;
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
        let mut patience = Patience::new(began, ALL, quiet, Signs::default());
        let mut now = patience.next(began);
        loop {
            let beats = signs.iter().filter(|second| began + Duration::from_secs(**second) <= now).count();
            match patience.look(now, Signs { beats: beats as u64, ..Signs::default() }) {
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
    fn the_time_that_a_model_is_installed_counts_for_no_limit() {
        let began = Instant::now();
        let at = |second: u64| began + Duration::from_secs(second);
        let mut patience = Patience::new(began, ALL, QUIET, Signs { waited_ms: 5_000, ..Signs::default() });
        let waits = Signs { waits: true, waited_ms: 5_000, ..Signs::default() };
        // It begins at second 10 and takes until second 2,010, beyond both limits.
        for second in [10, 90, 1_000, 2_009] {
            assert_eq!(patience.look(at(second), waits), Ok(at(second + 1)));
        }
        let over = Signs { waited_ms: 2_005_000, ..Signs::default() };
        assert_eq!(patience.left(at(2_010), over), Duration::from_secs(990));
        assert_eq!(patience.look(at(2_010), over), Ok(at(2_020)));
        assert_eq!(patience.left(at(2_010), over), Duration::from_secs(990), "counted once");
        assert_eq!(patience.look(at(2_090), over), Err(EndReason::NoProgress), "from then on it counts again");
        let alive = |beats| Signs { beats, ..over };
        for second in 2_011..3_000 {
            assert!(patience.look(at(second), alive(second)).is_ok());
        }
        assert_eq!(patience.look(at(3_000), alive(3_000)), Err(EndReason::TurnTimeout));
    }

    #[test]
    fn progress_does_not_move_the_end_of_all_time() {
        let signs: Vec<u64> = (0..200).map(|n| n * 50).collect();
        assert_eq!(ends(QUIET, &signs), (1_000, EndReason::TurnTimeout));
        assert_eq!(ends(Duration::ZERO, &[]), (1_000, EndReason::TurnTimeout), "no bound");
        assert_eq!(ends(ALL, &[]), (1_000, EndReason::TurnTimeout), "both at once");
    }
}
