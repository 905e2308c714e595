//! When faults occur and what they hit: pure functions of the seed.
//!
//! Timed faults have a list of instants; a share is drawn for each turn, call or operation by its position in the
//! run. There is no clock and no state: one seed gives one schedule, in any order of queries.

use super::chaos::{Chaos, Kind, ROWS, Unit};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strike {
    /// When, in milliseconds since the run began.
    pub(crate) at_ms: u64,
    pub(crate) kind: Kind,
    /// Selects the target, modulo the number of candidates.
    pub(crate) pick: u64,
}

/// All strikes of a run in their order, without end unless nothing strikes.
pub(crate) fn strikes(seed: u64, chaos: &Chaos) -> impl Iterator<Item = Strike> + Send + use<> {
    let rated = ROWS.iter().filter(|row| row.unit == Unit::Time && chaos.rate(row.kind) > 0.0);
    let mut lanes: Vec<(Kind, f64, u64)> = rated.map(|row| (row.kind, chaos.rate(row.kind), 0)).collect();
    std::iter::from_fn(move || {
        let next = |(kind, rate, count): &(Kind, f64, u64)| strike(seed, *kind, *rate, *count);
        let at = (0..lanes.len()).min_by_key(|index| lanes.get(*index).map_or(u64::MAX, |lane| next(lane).at_ms))?;
        let lane = lanes.get_mut(at)?;
        let strike = next(lane);
        lane.2 += 1;
        Some(strike)
    })
}

/// The n-th strike of a kind: somewhere in the n-th stretch of its rate.
fn strike(seed: u64, kind: Kind, rate: f64, count: u64) -> Strike {
    let part = share(draw(seed, kind as u64, &[count, 0]));
    // Counts stay far below what a float represents exactly.
    let at_ms = ((count as f64 + part) * 1_000.0 / rate) as u64;
    Strike { at_ms, kind, pick: draw(seed, kind as u64, &[count, 1]) }
}

/// Whether a fault of this kind hits the operation at this position.
pub(crate) fn meets(seed: u64, chaos: &Chaos, kind: Kind, place: &[u64]) -> bool {
    let rate = chaos.rate(kind);
    rate > 0.0 && share(draw(seed, kind as u64, place)) < rate
}

/// A number that follows from the seed, the purpose and the place, and looks like chance.
pub(crate) fn draw(seed: u64, purpose: u64, place: &[u64]) -> u64 {
    let mut mixed = fastrand::Rng::with_seed(seed).u64(..) ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for number in place {
        mixed = fastrand::Rng::with_seed(mixed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03)).u64(..);
    }
    fastrand::Rng::with_seed(mixed).u64(..)
}

/// A drawn number as one from 0 to below 1.
pub(crate) fn share(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws an exponentially distributed time with this mean, at most five times the mean.
pub(crate) fn exponential_ms(drawn: u64, mean_ms: u64) -> u64 {
    let mean = mean_ms as f64;
    (-(1.0 - share(drawn)).ln() * mean).min(mean * 5.0) as u64
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
