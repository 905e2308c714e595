//! Where telemetry is sent, and what of it.

use bob_actors::telemetry::names;
use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of an exporter. Its debugging form leaves out the headers, which may hold keys.
#[derive(Clone)]
pub struct TelemetrySettings {
    pub(super) traces: Option<String>,
    pub(super) metrics: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) resource: Vec<(String, String)>,
    pub(super) service: String,
    pub(super) timeout: Duration,
    pub(super) sampler: Sampler,
    pub(super) has_contents: bool,
    /// The time between two requests with metrics.
    pub(super) metrics_each: Duration,
    pub(super) of_traces: Own,
    pub(super) of_metrics: Own,
}

/// What the variables say of one receiver alone, instead of what they say of both.
#[derive(Clone, Default)]
pub(super) struct Own {
    pub(super) headers: Option<BTreeMap<String, String>>,
    pub(super) timeout: Option<Duration>,
}

/// Which traces are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sampler {
    /// Whether the flag of the caller's `traceparent` decides, if there is one.
    pub(super) follows_parent: bool,
    /// The part of the other traces that is sent, 0 to 1.
    pub(super) ratio: f64,
}

impl TelemetrySettings {
    /// Settings for a receiver of OTLP over HTTP at this address, such as `http://127.0.0.1:4318`, for a service of this
    /// name. All traces are sent, except those that the caller's `traceparent` leaves out.
    pub fn new(endpoint: &str, service: &str) -> Self {
        let base = endpoint.trim_end_matches('/');
        Self {
            traces: Some(format!("{base}/v1/traces")),
            metrics: Some(format!("{base}/v1/metrics")),
            headers: BTreeMap::new(),
            resource: vec![(names::SERVICE.to_owned(), service.to_owned())],
            service: service.to_owned(),
            timeout: Duration::from_secs(10),
            sampler: Sampler { follows_parent: true, ratio: 1.0 },
            has_contents: false,
            metrics_each: Duration::from_secs(60),
            of_traces: Own::default(),
            of_metrics: Own::default(),
        }
    }

    /// What a receiver is sent whose address is none of HTTP.
    pub(super) fn has_other_scheme(&self) -> Option<&'static str> {
        let is_other = |url: &&String| !url.starts_with("http://") && !url.starts_with("https://");
        let receivers = [("spans", &self.traces), ("metrics", &self.metrics)];
        receivers.into_iter().find(|(_, url)| url.as_ref().filter(is_other).is_some()).map(|(of, _)| of)
    }

    /// Sends the texts of the user's messages, of answers, arguments and results as well, each cut at 16 KiB. They may
    /// hold anything that people, models and tools said, including secrets.
    #[must_use]
    pub fn with_contents(mut self) -> Self {
        self.has_contents = true;
        self
    }

    /// Sends this header with each request to either receiver, such as a key.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sends spans to this whole address, instead of `/v1/traces` below the endpoint.
    #[must_use]
    pub fn traces_to(mut self, address: &str) -> Self {
        self.traces = Some(address.to_owned());
        self
    }

    /// Sends metrics to this whole address, instead of `/v1/metrics` below the endpoint.
    #[must_use]
    pub fn metrics_to(mut self, address: &str) -> Self {
        self.metrics = Some(address.to_owned());
        self
    }

    /// Sends no spans. Two sinks, one without spans and one without metrics, send to two receivers with headers of their own.
    #[must_use]
    pub fn without_traces(mut self) -> Self {
        self.traces = None;
        self
    }

    /// Sends no metrics.
    #[must_use]
    pub fn without_metrics(mut self) -> Self {
        self.metrics = None;
        self
    }

    /// Says this of the sender, too, such as `deployment.environment.name`. `service.name` is the name of the service.
    #[must_use]
    pub fn resource(mut self, name: &str, value: &str) -> Self {
        if name == names::SERVICE {
            self.service = value.to_owned();
        }
        self.resource.retain(|(other, _)| other != name);
        self.resource.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this part of the traces for which no `traceparent` of a caller decides, from 0 to 1; default 1. Processes that share
    /// a trace decide alike.
    #[must_use]
    pub fn sampled(mut self, ratio: f64) -> Self {
        self.sampler.ratio = ratio.clamp(0.0, 1.0);
        self
    }

    /// Lets the ratio decide about all traces, whatever the `traceparent` of a caller says.
    #[must_use]
    pub fn ignoring_parents(mut self) -> Self {
        self.sampler.follows_parent = false;
        self
    }

    /// How long one request may take; default 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The time between two requests with metrics; default 60 s, at least 1 ms.
    #[must_use]
    pub fn metrics_every(mut self, interval: Duration) -> Self {
        self.metrics_each = interval.max(Duration::from_millis(1));
        self
    }
}

impl Sampler {
    /// Whether this trace is sent: all processes that share it decide alike.
    pub(super) fn takes(self, trace: &str, traceparent: Option<&str>) -> bool {
        let flags = traceparent.filter(|header| bob_messages::trace::parent_span(header).is_some());
        let flags = flags.and_then(|header| u8::from_str_radix(header.split('-').nth(3)?.get(..2)?, 16).ok());
        if let Some(flags) = flags.filter(|_| self.follows_parent) {
            return flags & 1 == 1;
        }
        // The last 56 bits are random in ids of version 7 as well.
        let random = trace.get(18..).and_then(|tail| u64::from_str_radix(tail, 16).ok()).unwrap_or(0);
        (random as f64) < self.ratio * (1_u64 << 56) as f64
    }
}

impl std::fmt::Debug for TelemetrySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (service, sampler) = (&self.service, &self.sampler);
        let headers = self.headers.len();
        f.debug_struct("TelemetrySettings")
            .field("service", service)
            .field("sampler", sampler)
            .field("headers", &headers)
            .field("has_contents", &self.has_contents)
            .finish_non_exhaustive()
    }
}
