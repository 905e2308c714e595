//! Counts and durations since the exporter began.

use super::spans::{Span, Value};
use bob_actors::telemetry::names;

const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The attributes of a span that its durations are kept apart by.
const KEYS: [&str; 5] = [names::OPERATION, names::PROVIDER, names::REQUEST_MODEL, names::TOOL, names::ERROR];
/// Names of tools and models come from outside; those beyond this are not counted.
const MOST_SERIES: usize = 500;

/// One metric with one set of attributes; without bounds a plain count.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) bounds: &'static [f64],
    pub(super) buckets: Vec<u64>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

/// All series.
#[derive(Debug, Default)]
pub(super) struct Metrics(Vec<Series>);

impl Metrics {
    /// Counts a span that ended.
    pub(super) fn count(&mut self, span: &Span) {
        let text = |key: &str| {
            span.attributes.iter().find_map(|(name, value)| match value {
                Value::Text(text) if *name == key => Some(text.clone()),
                _ => None,
            })
        };
        let attributes: Vec<_> = KEYS.into_iter().filter_map(|key| Some((key, text(key)?))).collect();
        let metric = match text(names::OPERATION).as_deref() {
            Some(names::INVOKE_AGENT) => names::AGENT_SECONDS,
            Some(names::EXECUTE_TOOL) => names::TOOL_SECONDS,
            _ => names::CHAT_SECONDS,
        };
        let seconds = (span.end - span.began).max(0) as f64 / 1_000.0;
        self.add(metric, "s", attributes.clone(), &SECONDS, seconds);
        if metric != names::CHAT_SECONDS {
            return;
        }
        for (key, kind) in [(names::INPUT_TOKENS, "input"), (names::OUTPUT_TOKENS, "output")] {
            for (_, value) in span.attributes.iter().filter(|(name, _)| *name == key) {
                let Value::Number(tokens) = value else { continue };
                let mut attributes = attributes.clone();
                attributes.push((names::TOKEN_TYPE, kind.to_owned()));
                self.add(names::TOKENS, "{token}", attributes, &TOKENS, *tokens as f64);
            }
        }
    }

    /// What is sent: the series, and how many spans were dropped.
    pub(super) fn series(&self, dropped: u64) -> Vec<Series> {
        let (attributes, buckets) = (Vec::new(), Vec::new());
        let (name, unit, bounds) = (names::DROPPED, "{span}", &[][..]);
        let lost = Series { name, unit, attributes, bounds, buckets, count: dropped, sum: 0.0 };
        self.0.iter().cloned().chain([lost]).collect()
    }

    fn add(
        &mut self,
        name: &'static str,
        unit: &'static str,
        attributes: Vec<(&'static str, String)>,
        bounds: &'static [f64],
        value: f64,
    ) {
        let found = self.0.iter().position(|one| one.name == name && one.attributes == attributes);
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            if at >= MOST_SERIES {
                return;
            }
            let buckets = vec![0; bounds.len() + 1];
            self.0.push(Series { name, unit, attributes, bounds, buckets, count: 0, sum: 0.0 });
        }
        let series = &mut self.0[at];
        series.count += 1;
        series.sum += value;
        series.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
    }
}
