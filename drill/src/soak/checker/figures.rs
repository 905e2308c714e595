//! Figures: percentiles, and the slope of memory. Pure.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::soak::parent::Sample;

/// A day in microseconds.
const A_DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Times {
    pub(crate) fn of(times: impl IntoIterator<Item = u64>) -> Self {
        // Three significant digits; values above a day are clamped.
        let Ok(mut histogram) = Histogram::<u64>::new_with_bounds(1, A_DAY_US, 3) else { return Self::default() };
        times.into_iter().for_each(|time| histogram.saturating_record(time.max(1)));
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        let (count, max) = (histogram.len(), histogram.max() as f64 / 1_000.0);
        Self { count, p50: at(0.5), p90: at(0.9), p99: at(0.99), max }
    }

    pub(crate) fn text(&self) -> String {
        if self.count == 0 {
            return "none".to_owned();
        }
        let Self { count, p50, p90, p99, max } = self;
        format!("p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, max {max:.1} ms of {count}")
    }
}

/// How memory went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Memory {
    pub(crate) peak_mib: f64,
    /// The mean after warm-up, in MiB.
    pub(crate) mean_mib: f64,
    /// The least-squares slope after warm-up, in MiB an hour.
    pub(crate) slope_mib_h: f64,
    /// How long the stretch is that the slope is of, in seconds.
    pub(crate) window_s: f64,
    /// Where that stretch begins, in milliseconds of the run, and the line's height there, in MiB.
    pub(crate) line_from: (f64, f64),
}

/// The part of a life that is warm-up.
const WARM_UP: f64 = 0.3;

/// Samples that a slope needs at least.
const FEWEST: usize = 4;

impl Memory {
    /// Of the longest life, since memory begins anew with each.
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let mib = |sample: &Sample| sample.figures.rss_kib as f64 / 1_024.0;
        let peak_mib = samples.iter().map(mib).fold(0.0, f64::max);
        let lives = samples.chunk_by(|a, b| a.life == b.life);
        let longest = lives.max_by_key(|life| life.len()).unwrap_or_default();
        let warm = (longest.len() as f64 * WARM_UP) as usize;
        let points: Vec<(f64, f64)> =
            longest.iter().skip(warm).map(|sample| (sample.at_ms as f64, mib(sample))).collect();
        if points.len() < FEWEST {
            return Self { peak_mib, ..Self::default() };
        }
        let (slope, mean_x, mean_y) = least_squares(&points);
        let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(0.0, |p| p.0));
        Self {
            peak_mib,
            mean_mib: mean_y,
            slope_mib_h: slope * 3_600_000.0,
            window_s: (last - first) / 1_000.0,
            line_from: (first, mean_y + slope * (first - mean_x)),
        }
    }

    pub(crate) fn growth_mib(&self) -> f64 {
        self.slope_mib_h * self.window_s / 3_600.0
    }

    /// Growth up to this many MiB is not a leak: allocators and caches are still warming up in a short run, and must
    /// be stable in a long one. In some seconds a few large results of tools, which are there at the same time, are a slope.
    pub(crate) fn most_growth_mib(&self) -> f64 {
        let (share, least) = match self.window_s {
            0.0..10.0 => (0.25, 128.0),
            10.0..60.0 => (0.25, 64.0),
            60.0..600.0 => (0.25, 24.0),
            _ => (0.05, 8.0),
        };
        (self.mean_mib * share).max(least)
    }
}

fn least_squares(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (if below > 0.0 { above / below } else { 0.0 }, mean_x, mean_y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::parent::Figures;

    fn samples(rss_mib: impl Fn(u64) -> u64) -> Vec<Sample> {
        let at = |n: u64| Sample {
            at_ms: n * 1_000,
            figures: Figures { rss_kib: rss_mib(n) * 1_024, ..Figures::default() },
            ..Sample::default()
        };
        (0..100).map(at).collect()
    }

    #[test]
    fn memory_that_grows_has_its_slope_and_memory_that_warmed_up_has_none() {
        let grows = Memory::of(&samples(|n| 100 + n));
        assert!((grows.slope_mib_h - 3_600.0).abs() < 1e-6, "{grows:?}");
        assert!((grows.growth_mib() - 69.0).abs() < 1e-6 && grows.growth_mib() > grows.most_growth_mib());
        let warm = Memory::of(&samples(|n| if n < 20 { n * 5 } else { 100 }));
        assert_eq!((warm.slope_mib_h, warm.peak_mib), (0.0, 100.0));
    }

    #[test]
    fn percentiles_are_those_of_the_times() {
        let times = Times::of((1..=1_000).map(|n| n * 1_000));
        assert!((times.p50 - 500.0).abs() < 1.0 && (times.p99 - 990.0).abs() < 1.0, "{times:?}");
        assert_eq!(Times::of([]).text(), "none");
    }
}
