//! How long to wait before trying again: doubling, capped, with full jitter.
//!
//! Full jitter (any delay between nothing and the cap of this attempt) spreads
//! callers that failed together; chance is an argument, so tests choose it.

/// A schedule of delays, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The cap of the first delay.
    pub first_ms: u64,
    /// The cap of every delay.
    pub most_ms: u64,
}

impl Backoff {
    /// The delay before attempt `attempt` (1 is the first repetition). `chance` is
    /// uniform in `0.0..=1.0`; anything else counts as the nearer bound.
    pub fn delay_ms(self, attempt: u32, chance: f64) -> u64 {
        let doublings = attempt.saturating_sub(1).min(32);
        let cap = self.first_ms.saturating_mul(1_u64 << doublings).min(self.most_ms);
        let chance = if chance.is_nan() { 1.0 } else { chance.clamp(0.0, 1.0) };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a delay needs no more precision than a double has"
        )]
        let delay = (cap as f64 * chance) as u64;
        delay.min(cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODEL: Backoff = Backoff { first_ms: 1_000, most_ms: 20_000 };

    #[test]
    fn caps_double_up_to_the_most() {
        let caps: Vec<_> = (1..8).map(|attempt| MODEL.delay_ms(attempt, 1.0)).collect();
        assert_eq!(caps, [1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000]);
    }

    proptest! {
        #[test]
        fn a_delay_never_exceeds_its_cap(attempt in any::<u32>(), chance in any::<f64>()) {
            prop_assert!(MODEL.delay_ms(attempt, chance) <= 20_000);
        }
    }
}
