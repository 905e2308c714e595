//! Signs of life of work whose result is awaited.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of signs of life: pieces of an answer, output of a tool, results. Clones share it; the default counts
/// nothing. A watcher compares two readings, so that no clock is read where the work is done.
#[derive(Clone, Default)]
pub struct Pulse(Option<Arc<Beats>>);

#[derive(Default)]
struct Beats {
    count: AtomicU64,
    /// The pulse of the work that waits for this one.
    above: Pulse,
}

impl Pulse {
    /// A pulse that counts.
    pub fn counting() -> Self {
        Self(Some(Arc::default()))
    }

    /// A pulse that counts, of work that another one waits for: each sign of life is one of both.
    pub fn below(above: &Self) -> Self {
        Self(Some(Arc::new(Beats { count: AtomicU64::new(0), above: above.clone() })))
    }

    /// Counts one sign of life. Never blocks.
    pub fn beat(&self) {
        let mut pulse = self;
        while let Some(beats) = &pulse.0 {
            beats.count.fetch_add(1, Ordering::Relaxed);
            pulse = &beats.above;
        }
    }

    /// How many signs of life there were.
    pub fn beats(&self) -> u64 {
        self.0.as_ref().map_or(0, |beats| beats.count.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pulse({})", self.beats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_is_one_of_all_that_wait_for_it() {
        let top = Pulse::counting();
        let (one, other) = (Pulse::below(&top), Pulse::below(&top));
        let lowest = Pulse::below(&one);
        lowest.beat();
        other.beat();
        assert_eq!([top.beats(), one.beats(), other.beats(), lowest.beats()], [2, 1, 1, 1]);
    }
}
