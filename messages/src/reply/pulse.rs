//! Signs of life of work whose result is awaited.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A count of signs of life: pieces of an answer, output of a tool, results. Clones share it; the default counts
/// nothing. A watcher compares two readings, so that no clock is read where the work is done.
#[derive(Clone, Default)]
pub struct Pulse(Option<Arc<Counts>>);

#[derive(Default)]
struct Counts {
    beats: AtomicU64,
    /// How many waits of the work are under way that are no part of it.
    waits: AtomicU64,
    /// How long the waits that ended took, in milliseconds.
    waited_ms: AtomicU64,
    /// The pulse of the work that waits for this one.
    above: Pulse,
    /// That work has ended: signs of life are no longer its own.
    is_left: AtomicBool,
}

/// A reading of a [`Pulse`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    /// How many signs of life there were.
    pub beats: u64,
    /// Whether the work waits for something that is no part of it, such as the installation of a model.
    pub waits: bool,
    /// How long such waits took that have ended, in milliseconds. No time limit of the work counts them.
    pub waited_ms: u64,
}

impl Pulse {
    /// A pulse that counts.
    pub fn counting() -> Self {
        Self(Some(Arc::default()))
    }

    /// A pulse that counts, of work that another one waits for: each sign of life is one of both.
    pub fn below(above: &Self) -> Self {
        Self(Some(Arc::new(Counts { above: above.clone(), ..Counts::default() })))
    }

    /// Counts one sign of life. Never blocks.
    pub fn beat(&self) {
        let mut pulse = self;
        while let Some(counts) = &pulse.0 {
            counts.beats.fetch_add(1, Ordering::Relaxed);
            if counts.is_left.load(Ordering::Relaxed) {
                return;
            }
            pulse = &counts.above;
        }
    }

    /// The work that waited for this one has ended: signs of life from now on are not those of what it does next.
    #[doc(hidden)]
    pub fn leave(&self) {
        if let Some(counts) = &self.0 {
            counts.is_left.store(true, Ordering::Relaxed);
        }
    }

    /// Counts with this pulse and those of the work that waits for it.
    fn each_above(&self, count: impl Fn(&Counts)) {
        let mut pulse = self;
        while let Some(counts) = &pulse.0 {
            count(counts);
            pulse = &counts.above;
        }
    }

    /// How many signs of life there were.
    pub fn beats(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.beats.load(Ordering::Relaxed))
    }

    /// The work begins to wait for something that is no part of it.
    #[doc(hidden)]
    pub fn wait_begins(&self) {
        self.each_above(|counts| {
            counts.waits.fetch_add(1, Ordering::AcqRel);
        });
    }

    /// A wait that [began](Self::wait_begins) has ended after so many milliseconds.
    #[doc(hidden)]
    pub fn wait_ends(&self, waited_ms: u64) {
        self.each_above(|counts| {
            // A reader that sees no wait under way sees how long it took.
            counts.waited_ms.fetch_add(waited_ms, Ordering::AcqRel);
            counts.waits.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// How long waits took that have ended, in milliseconds.
    #[doc(hidden)]
    pub fn waited_ms(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.waited_ms.load(Ordering::Relaxed))
    }

    /// Everything that was counted.
    #[doc(hidden)]
    pub fn signs(&self) -> Signs {
        let Some(counts) = &self.0 else { return Signs::default() };
        let waits = counts.waits.load(Ordering::Acquire) > 0;
        Signs {
            beats: counts.beats.load(Ordering::Relaxed),
            waits,
            waited_ms: counts.waited_ms.load(Ordering::Acquire),
        }
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
        one.leave();
        lowest.beat();
        assert_eq!([top.beats(), one.beats(), lowest.beats()], [2, 2, 2]);
    }
}
