//! What the standard `OTEL_*` variables say of telemetry.

use super::error::TelemetryError;
use super::settings::{Own, Sampler, TelemetrySettings};
use bob_actors::telemetry::names;
use std::collections::BTreeMap;
use std::time::Duration;

/// Standard variables that have no effect here.
const WITHOUT_EFFECT: [&str; 31] = [
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_INSECURE",
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_METRICS_INSECURE",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_PROPAGATORS",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
];

/// The variables that are set to something else than what is done anyway, and have no effect.
pub(super) fn without_effect(variable: &dyn Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let is_done = |name: &str, value: &str| match value {
        "" => true,
        "none" => name.ends_with("_COMPRESSION"),
        "explicit_bucket_histogram" => name.ends_with("_HISTOGRAM_AGGREGATION"),
        value => name.ends_with("_TEMPORALITY_PREFERENCE") && value.eq_ignore_ascii_case("cumulative"),
    };
    let is_set = |name: &&str| variable(name).is_some_and(|value| !is_done(name, value.trim()));
    WITHOUT_EFFECT.into_iter().filter(is_set).collect()
}

impl TelemetrySettings {
    /// Reads the standard variables through `variable`; `None` without an address or when they switch telemetry off.
    ///
    /// # Errors
    /// A variable has a value that cannot be used. The text names it and what is possible, and quotes no header.
    pub fn from_variables(
        variable: &dyn Fn(&str) -> Option<String>,
        service: &str,
    ) -> Result<Option<Self>, TelemetryError> {
        let nowhere = Self { traces: None, metrics: None, ..Self::new("", service) };
        nowhere.overridden_by(variable)
    }

    /// These settings where the standard variables say nothing; `None` when they switch telemetry off. Headers of these
    /// settings are not sent to an address of the variables, nor the other way round: a key is for the receiver it was set
    /// for. What belongs to a receiver that is switched off is not read. A variable with the address of a receiver that these
    /// settings leave out switches it on.
    ///
    /// # Errors
    /// A variable names the receiver of spans or that of metrics alone, the other one is in these settings, and there are
    /// headers that would go to both. A variable has a value that cannot be used. The text names it and what is possible,
    /// and quotes no header.
    pub fn overridden_by(mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, TelemetryError> {
        let get = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let is_off = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("none"));
        if get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let base = get("OTEL_EXPORTER_OTLP_ENDPOINT");
        let address = |own: &str, path: &str| {
            get(own).or_else(|| base.as_ref().map(|base| format!("{}{path}", base.trim_end_matches('/'))))
        };
        let (no_traces, no_metrics) = (is_off("OTEL_TRACES_EXPORTER"), is_off("OTEL_METRICS_EXPORTER"));
        self.traces.take_if(|_| no_traces);
        self.metrics.take_if(|_| no_metrics);
        let traces = address("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces").filter(|_| !no_traces);
        let metrics = address("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1/metrics").filter(|_| !no_metrics);
        let mut live = (traces.clone().or(self.traces.clone()), metrics.clone().or(self.metrics.clone()));
        speaks(&mut live.0, &mut live.1, &get)?;
        let (traces, metrics) = (traces.filter(|_| live.0.is_some()), metrics.filter(|_| live.1.is_some()));
        self.traces.take_if(|_| live.0.is_none());
        self.metrics.take_if(|_| live.1.is_none());
        if traces.is_some() || metrics.is_some() {
            // One that the variables do not name would get the headers of the other, unless that one has its own.
            let is_apart = (traces.is_none() && self.traces.is_some()) || (metrics.is_none() && self.metrics.is_some());
            let is_general = get("OTEL_EXPORTER_OTLP_HEADERS").is_some();
            let (named, own) = match traces.is_some() {
                true => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
                false => ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"),
            };
            if is_apart && (is_general || (!self.headers.is_empty() && get(own).is_none())) {
                let why = format!(
                    "names one of two receivers, and headers are set, which would go to both; set {own} and no \
                     OTEL_EXPORTER_OTLP_HEADERS, name both receivers by variables, or switch the other one off: \
                     OTEL_TRACES_EXPORTER=none or OTEL_METRICS_EXPORTER=none"
                );
                return Err(TelemetryError::of(named, why));
            }
            if !is_apart {
                self.headers.clear();
            }
            (self.traces, self.metrics) = (traces.or(self.traces), metrics.or(self.metrics));
        }
        if self.traces.is_none() && self.metrics.is_none() {
            return Ok(None);
        }
        if let Some(of) = self.has_other_scheme() {
            let own = match of {
                "spans" => "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                _metrics => "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            };
            let named = [own, "OTEL_EXPORTER_OTLP_ENDPOINT"].into_iter().find(|name| get(name).is_some());
            return Err(match named {
                Some(name) => TelemetryError::of(name, "must begin with http:// or https://"),
                None => TelemetryError::Address { of },
            });
        }
        let said = pairs("OTEL_RESOURCE_ATTRIBUTES", get("OTEL_RESOURCE_ATTRIBUTES"))?;
        let named = said.get(names::SERVICE).cloned();
        self.service = get("OTEL_SERVICE_NAME").or(named).unwrap_or(self.service);
        let mut resource: BTreeMap<_, _> = self.resource.into_iter().chain(said).collect();
        resource.insert(names::SERVICE.to_owned(), self.service.clone());
        self.resource = resource.into_iter().collect();
        let time = |name: &'static str| {
            let error = |_not_a_number| TelemetryError::of(name, "must be a number of milliseconds");
            get(name).map(|text| text.parse().map(Duration::from_millis).map_err(error)).transpose()
        };
        self.timeout = time("OTEL_EXPORTER_OTLP_TIMEOUT")?.unwrap_or(self.timeout);
        // What is switched off is not read.
        let own = |receiver: &Option<String>, headers: &'static str, timeout: &'static str| {
            if receiver.is_none() {
                return Ok(Own::default());
            }
            let headers = get(headers).map(|text| pairs(headers, Some(text))).transpose()?;
            Ok::<_, TelemetryError>(Own { headers, timeout: time(timeout)? })
        };
        let (headers, timeout) = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
        self.of_traces = own(&self.traces, headers, timeout)?;
        let (headers, timeout) = ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT");
        self.of_metrics = own(&self.metrics, headers, timeout)?;
        let is_read = |name: &&str| match name {
            name if name.contains("_METRIC") => self.metrics.is_some(),
            name if name.contains("_TRACES_") || name.contains("_BSP_") => self.traces.is_some(),
            _for_both => true,
        };
        for name in without_effect(variable).into_iter().filter(is_read) {
            tracing::warn!(target: "bob::telemetry", name, "the variable is not supported and has no effect");
        }
        if let Some(each) = get("OTEL_METRIC_EXPORT_INTERVAL").filter(|_| self.metrics.is_some()) {
            let error =
                || TelemetryError::of("OTEL_METRIC_EXPORT_INTERVAL", "must be a number of milliseconds, at least 1");
            let each = each.parse().ok().filter(|each| *each > 0);
            self.metrics_each = Duration::from_millis(each.ok_or_else(error)?);
        }
        self.headers.extend(pairs("OTEL_EXPORTER_OTLP_HEADERS", get("OTEL_EXPORTER_OTLP_HEADERS"))?);
        if let Some(sampler) = get("OTEL_TRACES_SAMPLER").filter(|_| self.traces.is_some()) {
            self.sampler = Sampler::of(&sampler, get("OTEL_TRACES_SAMPLER_ARG").as_deref())?;
        }
        Ok(Some(self))
    }
}

/// Switches a receiver off that wants another protocol, if the other one does not.
fn speaks(
    traces: &mut Option<String>,
    metrics: &mut Option<String>,
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<(), TelemetryError> {
    let general = "OTEL_EXPORTER_OTLP_PROTOCOL";
    let receivers = [(traces, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), (metrics, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")];
    let mut refused = Vec::new();
    let mut is_one_left = false;
    for (receiver, own) in receivers.into_iter().filter(|(receiver, _)| receiver.is_some()) {
        let name = if get(own).is_some() { own } else { general };
        match get(name).filter(|value| value != "http/protobuf") {
            None => is_one_left = true,
            Some(other) => {
                *receiver = None;
                let why = format!("is {other:?}; only \"http/protobuf\" is sent, usually to port 4318");
                refused.push(TelemetryError::of(name, why));
            }
        }
    }
    match refused.into_iter().next() {
        Some(why) if !is_one_left => Err(why),
        Some(why) => {
            tracing::warn!(target: "bob::telemetry", %why, "one of two receivers is sent nothing");
            Ok(())
        }
        None => Ok(()),
    }
}

impl Sampler {
    fn of(name: &str, ratio: Option<&str>) -> Result<Self, TelemetryError> {
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio
                .map_or(Ok(1.0), str::parse)
                .ok()
                .filter(|ratio| (0.0..=1.0).contains(ratio))
                .ok_or_else(|| TelemetryError::of("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1"))?,
            _ => {
                let why = format!(
                    "is {name:?}; possible are always_on, always_off and traceidratio, each also with parentbased_ \
                     before it"
                );
                return Err(TelemetryError::of("OTEL_TRACES_SAMPLER", why));
            }
        };
        Ok(Self { follows_parent, ratio })
    }
}

/// `key=value` pairs between commas, in the encoding of URLs.
fn pairs(name: &'static str, text: Option<String>) -> Result<BTreeMap<String, String>, TelemetryError> {
    let text = text.unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        Some((key.trim().to_owned(), decoded(value.trim())?)).filter(|(key, _)| !key.is_empty())
    };
    let all: Option<_> = parts.map(pair).collect();
    all.ok_or_else(|| TelemetryError::of(name, "must be key=value pairs with commas between them"))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
