//! Counts, sums and durations since the exporter began.

use super::spans::{Span, Value};
use bob_actors::telemetry::names;

const SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// For what is short in a healthy process: the wait in a queue, and that for the first piece of an answer.
const SHORT_SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
const TOKENS: &[f64] = &[
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

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    Count,
    /// What they add up to.
    Sum,
    /// How many were in each of the ranges between these bounds.
    Histogram(&'static [f64]),
}

type Attributes = Vec<(&'static str, String)>;

/// One metric with one set of attributes.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) attributes: Attributes,
    pub(super) form: Form,
    pub(super) buckets: Vec<u64>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

#[derive(Debug, Default)]
pub(super) struct Metrics(Vec<Series>);

impl Metrics {
    pub(super) fn count(&mut self, span: &Span) {
        let text = |key: &str| {
            span.attributes.iter().find_map(|(name, value)| match value {
                Value::Text(text) if *name == key => Some(text.clone()),
                _ => None,
            })
        };
        let attributes: Attributes = KEYS.into_iter().filter_map(|key| Some((key, text(key)?))).collect();
        let metric = match text(names::OPERATION).as_deref() {
            Some(names::INVOKE_AGENT) => names::AGENT_SECONDS,
            Some(names::EXECUTE_TOOL) => names::TOOL_SECONDS,
            _ => names::CHAT_SECONDS,
        };
        let seconds = (span.end - span.began).max(0) as f64 / 1_000.0;
        self.add((metric, "s"), attributes.clone(), Form::Histogram(SECONDS), seconds);
        if metric != names::CHAT_SECONDS {
            return;
        }
        for (name, value) in &span.attributes {
            match (*name, value) {
                (names::INPUT_TOKENS | names::OUTPUT_TOKENS, Value::Number(tokens)) => {
                    let kind = if *name == names::INPUT_TOKENS { "input" } else { "output" };
                    let of_kind = attributes.iter().cloned().chain([(names::TOKEN_TYPE, kind.to_owned())]).collect();
                    self.add((names::TOKENS, "{token}"), of_kind, Form::Histogram(TOKENS), *tokens as f64);
                }
                (names::COST, Value::Amount(cost)) => {
                    self.add((names::COST, "{currency}"), attributes.clone(), Form::Sum, *cost);
                }
                (names::FIRST_CHUNK, Value::Amount(seconds)) => {
                    let form = Form::Histogram(SHORT_SECONDS);
                    self.add((names::FIRST_CHUNK_SECONDS, "s"), attributes.clone(), form, *seconds);
                }
                _no_metric => {}
            }
        }
    }

    /// Counts the time from a submission to the beginning of its run, in seconds.
    pub(super) fn waited(&mut self, seconds: f64) {
        self.add((names::QUEUE_WAIT, "s"), Vec::new(), Form::Histogram(SHORT_SECONDS), seconds);
    }

    pub(super) fn restarted(&mut self, actor: &str) {
        self.add((names::RESTARTS, "{restart}"), vec![(names::ACTOR, actor.to_owned())], Form::Count, 1.0);
    }

    /// What is sent: the series, and how many spans were dropped.
    pub(super) fn series(&self, dropped: u64) -> Vec<Series> {
        let lost = Series { count: dropped, ..Series::new((names::DROPPED, "{span}"), Vec::new(), Form::Count) };
        self.0.iter().cloned().chain([lost]).collect()
    }

    fn add(&mut self, metric: (&'static str, &'static str), attributes: Attributes, form: Form, value: f64) {
        let found = self.0.iter().position(|one| one.name == metric.0 && one.attributes == attributes);
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            if at >= MOST_SERIES {
                return;
            }
            self.0.push(Series::new(metric, attributes, form));
        }
        let series = &mut self.0[at];
        series.count += 1;
        series.sum += value;
        if let Form::Histogram(bounds) = form {
            series.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
        }
    }
}

impl Series {
    fn new((name, unit): (&'static str, &'static str), attributes: Attributes, form: Form) -> Self {
        let buckets = match form {
            Form::Histogram(bounds) => vec![0; bounds.len() + 1],
            Form::Count | Form::Sum => Vec::new(),
        };
        Self { name, unit, attributes, form, buckets, count: 0, sum: 0.0 }
    }
}
