//! How long something took: all times since the beginning, and those of the last moments.

use super::snapshot::{LatencyBucket, LatencyFigures, LatencyQuantiles};
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that is told from longer ones, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// How precise: three digits.
const DIGITS: u8 = 3;

/// After this long what was recent makes room; so the recent times are those of the last 10 to 20 s.
const TURN: Duration = Duration::from_secs(10);

/// The upper ends of the buckets an exporter gets, in microseconds.
const BUCKETS_US: [u64; 19] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    120_000_000,
    600_000_000,
];

/// One kind of time. Empty, it takes no room to speak of; full, about a quarter of a megabyte.
#[derive(Debug, Default)]
pub(super) struct Latency(Mutex<Option<Kept>>);

#[derive(Debug, Clone)]
struct Kept {
    all: Histogram<u64>,
    sum_us: u64,
    now: Histogram<u64>,
    before: Histogram<u64>,
    turned: Instant,
}

impl Latency {
    pub(super) fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).clamp(1, LONGEST_US);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Kept::new();
        }
        let Some(kept) = kept.as_mut() else { return };
        kept.turn(Instant::now());
        kept.sum_us = kept.sum_us.saturating_add(us);
        // They grow with what they are given, and no time is longer than the longest.
        let _grows = kept.all.record(us);
        let _grows = kept.now.record(us);
    }

    pub(super) fn figures(&self) -> LatencyFigures {
        let Some(Kept { all, sum_us, now, before: mut recent, .. }) = self.copy() else {
            return LatencyFigures::default();
        };
        let _of_the_same_kind = recent.add(&now);
        LatencyFigures { sum_us, all: quantiles(&all), recent: quantiles(&recent), buckets: buckets(&all) }
    }

    /// What is kept. Counting waits for this copy and not for what is made of it.
    fn copy(&self) -> Option<Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_mut()?;
        kept.turn(Instant::now());
        Some(kept.clone())
    }
}

impl Kept {
    fn new() -> Option<Self> {
        let empty = || Histogram::new(DIGITS).ok();
        Some(Self { all: empty()?, sum_us: 0, now: empty()?, before: empty()?, turned: Instant::now() })
    }

    /// What was recent becomes what was before that, and then nothing.
    fn turn(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.turned);
        if since < TURN {
            return;
        }
        self.turned = now;
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.reset();
        if since >= TURN * 2 {
            self.before.reset();
        }
    }
}

fn quantiles(histogram: &Histogram<u64>) -> LatencyQuantiles {
    LatencyQuantiles {
        count: histogram.len(),
        p50_us: histogram.value_at_quantile(0.5),
        p90_us: histogram.value_at_quantile(0.9),
        p99_us: histogram.value_at_quantile(0.99),
        p999_us: histogram.value_at_quantile(0.999),
        max_us: histogram.max(),
    }
}

/// Each bucket has what is at most its end, as a text exporter writes it.
fn buckets(histogram: &Histogram<u64>) -> Vec<LatencyBucket> {
    let mut ends = BUCKETS_US.iter().peekable();
    let (mut buckets, mut count) = (Vec::with_capacity(BUCKETS_US.len()), 0);
    for step in histogram.iter_recorded() {
        while let Some(end_us) = ends.next_if(|end_us| **end_us < step.value_iterated_to()) {
            buckets.push(LatencyBucket { at_most_us: *end_us, count });
        }
        count += step.count_since_last_iteration();
    }
    buckets.extend(ends.map(|end_us| LatencyBucket { at_most_us: *end_us, count }));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_times_are_forgotten_and_all_times_are_not() {
        let latency = Latency::default();
        assert_eq!(latency.figures(), LatencyFigures::default());
        latency.record(Duration::from_millis(7));
        let counts = |figures: LatencyFigures| (figures.all.count, figures.recent.count);
        assert_eq!(counts(latency.figures()), (1, 1));
        let turn = |by: Duration| {
            let mut kept = latency.0.lock().unwrap();
            let kept = kept.as_mut().unwrap();
            let at = kept.turned + by;
            kept.turn(at);
            // As if that were now.
            kept.turned = Instant::now();
        };
        turn(TURN);
        assert_eq!(counts(latency.figures()), (1, 1));
        turn(TURN);
        assert_eq!(counts(latency.figures()), (1, 0));
        latency.record(Duration::from_millis(1));
        turn(TURN * 2);
        assert_eq!(counts(latency.figures()), (2, 0));
        assert_eq!(latency.figures().sum_us, 8_000);
    }

    #[test]
    fn a_bucket_has_all_that_took_at_most_so_long() {
        let latency = Latency::default();
        for us in [0, 100, 101, 4_000, 9_000_000_000] {
            latency.record(Duration::from_micros(us));
        }
        let figures = latency.figures();
        let at = |us| figures.buckets.iter().find(|bucket| bucket.at_most_us == us).unwrap().count;
        assert_eq!([at(100), at(250), at(2_500), at(5_000), at(600_000_000)], [2, 3, 3, 4, 4]);
        assert_eq!(figures.all.count, 5);
        // A sixteenth of a percent of an hour.
        assert!(figures.all.max_us >= LONGEST_US && figures.all.max_us < LONGEST_US + LONGEST_US / 1_000);
    }
}
