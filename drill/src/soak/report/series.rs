//! Converts the evidence to the points of the plots. Pure.

use std::collections::BTreeMap;

use super::plots::{FIRST, INK, Line, SECOND, THIRD};
use crate::soak::chaos;
use crate::soak::checker::{Evidence, Times, resumptions};
use crate::soak::verdict::Numbers;

/// Stretches of the run that percentiles are taken of.
const STRETCHES: usize = 60;

/// The edges of the histogram of cancels, in milliseconds.
const EDGES: [u64; 10] = [1, 2, 5, 10, 20, 30, 40, 50, 100, 500];

/// The edges of the histogram of sessions that go on, in milliseconds.
const RESUMED_EDGES: [u64; 10] = [100, 200, 300, 500, 700, 1_000, 2_000, 3_000, 4_000, 6_000];

/// Seconds of the run at a time of the clock.
fn second(evidence: &Evidence, at: u64) -> f64 {
    at.saturating_sub(evidence.seen.began_at) as f64 / 1_000.0
}

/// When the worker was killed. The time it took to be back is part of the run's clock, but not of the samples' one.
pub(crate) fn kills(evidence: &Evidence) -> Vec<f64> {
    evidence
        .seen
        .samples
        .windows(2)
        .filter_map(|pair| match pair {
            [before, after] if before.life != after.life => Some(before.at_ms as f64 / 1_000.0),
            _ => None,
        })
        .collect()
}

/// Percentiles of the time a turn took, over the run.
pub(crate) fn latency(evidence: &Evidence) -> Vec<Line> {
    let answers = evidence.heard.iter().filter(|(name, _)| name.starts_with('s')).flat_map(|(_, heard)| &heard.answers);
    let times: Vec<(f64, u64)> = answers.map(|(at, answer)| (second(evidence, *at), answer.took_us)).collect();
    let most = times.iter().map(|time| time.0).fold(1.0, f64::max);
    let width = most / STRETCHES as f64;
    let mut stretches: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (at, took) in times {
        stretches.entry((at / width) as usize).or_default().push(took);
    }
    let line = |name, colour, of: fn(&Times) -> f64| {
        let point =
            |(at, took): (&usize, &Vec<u64>)| ((*at as f64 + 0.5) * width, of(&Times::of(took.iter().copied())));
        Line { name, colour, points: stretches.iter().map(point).collect() }
    };
    vec![
        line("p50", FIRST, |times| times.p50),
        line("p90", THIRD, |times| times.p90),
        line("p99", SECOND, |times| times.p99),
    ]
}

pub(crate) fn memory(evidence: &Evidence, numbers: &Numbers) -> Vec<Line> {
    let memory = &numbers.memory;
    let from = (memory.line_from.0 / 1_000.0, memory.line_from.1);
    let to = (from.0 + memory.window_s, from.1 + memory.growth_mib());
    let slope = if memory.window_s > 0.0 { vec![from, to] } else { Vec::new() };
    vec![
        of_samples(evidence, "memory", FIRST, |sample| sample.figures.rss_kib as f64 / 1_024.0),
        Line { name: "growth", colour: SECOND, points: slope },
    ]
}

pub(crate) fn sessions(evidence: &Evidence) -> Vec<Line> {
    vec![
        of_samples(evidence, "in memory", FIRST, |sample| sample.live as f64),
        of_samples(evidence, "running", SECOND, |sample| sample.running as f64),
    ]
}

pub(crate) fn handles(evidence: &Evidence) -> Vec<Line> {
    vec![
        of_samples(evidence, "descriptors", FIRST, |sample| sample.figures.fds as f64),
        of_samples(evidence, "threads", SECOND, |sample| sample.figures.threads as f64),
        of_samples(evidence, "processes", INK, |sample| sample.figures.children as f64),
    ]
}

fn of_samples(
    evidence: &Evidence,
    name: &'static str,
    colour: plotters::style::RGBColor,
    value: fn(&crate::soak::parent::Sample) -> f64,
) -> Line {
    let points = evidence.seen.samples.iter().map(|sample| (sample.at_ms as f64 / 1_000.0, value(sample))).collect();
    Line { name, colour, points }
}

pub(crate) fn happenings(evidence: &Evidence) -> Vec<(String, Vec<f64>)> {
    let mut rows: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for fault in &evidence.faults {
        rows.entry(chaos::name(fault.kind)).or_default().push(second(evidence, fault.at));
    }
    for kill in &evidence.seen.kills {
        rows.entry("process-kill").or_default().push(second(evidence, *kill));
    }
    let backs = evidence.backs.iter().map(|(at, _, _)| second(evidence, *at)).collect();
    rows.insert("server back", backs);
    rows.into_iter().map(|(name, times)| (name.to_owned(), times)).rev().collect()
}

pub(crate) fn cancels(evidence: &Evidence) -> Vec<(String, u64)> {
    let answers = evidence.heard.values().flat_map(|heard| &heard.answers);
    histogram(answers.filter_map(|(_, answer)| answer.cancel.map(|cancel| cancel.us)), EDGES)
}

/// How many sessions of a replica that was struck went on after how long.
pub(crate) fn resumed(evidence: &Evidence) -> Vec<(String, u64)> {
    histogram(resumptions(evidence).into_iter().map(|gone_on| gone_on.after_ms * 1_000), RESUMED_EDGES)
}

fn histogram<const N: usize>(times: impl Iterator<Item = u64>, edges: [u64; N]) -> Vec<(String, u64)> {
    let last = edges.last().copied().unwrap_or_default();
    let (times, edges): (Vec<u64>, _) = (times.collect(), edges.map(|edge| edge * 1_000));
    let below = |edge: u64| times.iter().filter(|time| **time < edge).count() as u64;
    let mut bars: Vec<(String, u64)> = Vec::new();
    let mut counted = 0;
    for edge in edges {
        let all = below(edge);
        bars.push((format!("< {}", edge / 1_000), all - counted));
        counted = all;
    }
    bars.push((format!("≥ {last}"), times.len() as u64 - counted));
    bars
}
