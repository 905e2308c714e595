//! What the standard variables say.

use super::*;

#[test]
fn variables_come_before_the_settings_and_a_key_goes_to_its_own_receiver_only() {
    let read = |pairs: &'static [(&str, &str)]| {
        let find = move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let set = TelemetrySettings::new("http://127.0.0.1:1", "agent").header("x-key", "canary").with_contents();
        set.overridden_by(&find).unwrap()
    };
    let settings = read(&[]).unwrap();
    assert_eq!(settings.traces.as_deref(), Some("http://127.0.0.1:1/v1/traces"));
    assert_eq!((settings.headers.len(), settings.has_contents), (1, true));
    let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:2"), ("OTEL_SERVICE_NAME", "other")]);
    let settings = settings.unwrap();
    assert_eq!((settings.traces.as_deref(), settings.headers.len()), (Some("http://127.0.0.1:2/v1/traces"), 0));
    assert_eq!(settings.service, "other");
    assert!(read(&[("OTEL_SDK_DISABLED", "TRUE")]).is_none());
    let one = |pairs: &'static [(&str, &str)], set: TelemetrySettings| {
        let find = move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        set.overridden_by(&find)
    };
    const SPANS: &[(&str, &str)] = &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:2/x")];
    let settings = one(SPANS, TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap().unwrap();
    let (traces, metrics) = (settings.traces.as_deref(), settings.metrics.as_deref());
    assert_eq!((traces, metrics), (Some("http://127.0.0.1:2/x"), Some("http://127.0.0.1:1/v1/metrics")));
    let refused = one(SPANS, TelemetrySettings::new("http://127.0.0.1:1", "agent").header("k", "canary"))
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") && !refused.contains("canary"), "{refused}");
    // The headers of the variables would go to the receiver of the settings as well.
    const WITH_HEADERS: &[(&str, &str)] = &[SPANS[0], ("OTEL_EXPORTER_OTLP_HEADERS", "k=canary")];
    let refused = one(WITH_HEADERS, TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap_err().to_string();
    assert!(refused.starts_with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") && !refused.contains("canary"), "{refused}");
    // Headers of its own for the named one leave those that are for both, which would go to the receiver of the settings.
    const ALL_THREE: &[(&str, &str)] =
        &[SPANS[0], WITH_HEADERS[1], ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "k=canary-of-spans")];
    let refused = one(ALL_THREE, TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap_err().to_string();
    assert!(refused.starts_with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") && !refused.contains("canary"), "{refused}");
    // A receiver whose protocol is not spoken is switched off before that is judged.
    const GRPC: &[(&str, &str)] = &[SPANS[0], ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")];
    let settings = one(GRPC, TelemetrySettings::new("http://127.0.0.1:1", "agent").header("k", "canary"));
    let settings = settings.unwrap().unwrap();
    assert!(settings.traces.is_none() && settings.headers.keys().eq(["k"]), "{settings:?}");
    // What belongs to a receiver that is switched off is not read.
    const OFF: &[(&str, &str)] = &[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_TRACES_SAMPLER", "jaeger_remote")];
    assert!(one(OFF, TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap().unwrap().traces.is_none());
    const NO_METRICS: &[(&str, &str)] = &[("OTEL_METRICS_EXPORTER", "none"), ("OTEL_METRIC_EXPORT_INTERVAL", "0")];
    assert!(one(NO_METRICS, TelemetrySettings::new("http://127.0.0.1:1", "agent")).unwrap().unwrap().metrics.is_none());
    // Where only one receiver is left, the headers are for it.
    const ALONE: &[(&str, &str)] = &[SPANS[0], WITH_HEADERS[1], ("OTEL_METRICS_EXPORTER", "none")];
    let settings = one(ALONE, TelemetrySettings::new("http://127.0.0.1:1", "agent").header("other", "canary"));
    let settings = settings.unwrap().unwrap();
    assert!(settings.metrics.is_none() && settings.headers.keys().eq(["k"]), "{settings:?}");
    let settings = read(&[("OTEL_TRACES_EXPORTER", "none")]).unwrap();
    assert_eq!((settings.traces, settings.metrics.as_deref()), (None, Some("http://127.0.0.1:1/v1/metrics")));
}

#[test]
fn the_variables_say_where_and_what() {
    let read = |pairs: &'static [(&str, &str)]| {
        let find = move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::from_variables(&find, "agent")
    };
    assert!(read(&[("OTEL_SERVICE_NAME", "x")]).unwrap().is_none(), "without an address nothing is sent");
    const HERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/");
    assert!(read(&[HERE, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
    let settings = read(&[
        HERE,
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20secret-canary, other=b"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=left,host.name=h"),
        ("OTEL_SERVICE_NAME", "right"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ]);
    let settings = settings.unwrap().unwrap();
    assert_eq!((settings.traces.as_deref(), &settings.metrics), (Some("http://127.0.0.1:1/v1/traces"), &None));
    assert_eq!(settings.headers["x-key"], "a secret-canary");
    assert!(settings.resource.contains(&("service.name".into(), "right".into())), "{:?}", settings.resource);
    assert!(!format!("{settings:?}").contains("secret-canary"));
    let refused: [&'static [(&str, &str)]; 6] = [
        &[HERE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
        &[HERE, ("OTEL_EXPORTER_OTLP_HEADERS", "secret-canary")],
        &[HERE, ("OTEL_TRACES_SAMPLER", "sometimes")],
        &[HERE, ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")],
        &[HERE, ("OTEL_METRIC_EXPORT_INTERVAL", "0")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317")],
    ];
    for pairs in refused {
        let error = read(pairs).expect_err("refused").to_string();
        assert!(error.starts_with("OTEL_") && !error.contains("secret-canary"), "{error}");
    }
    let own = read(&[HERE, ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "127.0.0.1:4317")]).expect_err("refused");
    assert!(own.to_string().starts_with("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT must"), "{own}");
    let in_code = TelemetrySettings::new("http://127.0.0.1:1", "agent").traces_to("127.0.0.1:4317");
    let in_code = in_code.overridden_by(&|_| None).expect_err("refused").to_string();
    assert!(in_code.contains("the receiver of spans"), "no variable is named that is not set: {in_code}");
}

#[test]
fn each_receiver_may_have_headers_and_a_time_of_its_own_and_what_has_no_effect_is_known() {
    let all = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "both=1"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "traces=2"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "20"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "30"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
        ("OTEL_BSP_SCHEDULE_DELAY", " "),
    ];
    let find = |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let settings = TelemetrySettings::from_variables(&find, "agent").unwrap().unwrap();
    let (traces, metrics) = (&settings.of_traces, &settings.of_metrics);
    assert!(traces.headers.as_ref().is_some_and(|headers| headers.keys().eq(["traces"])));
    assert!(metrics.headers.is_none() && settings.headers.keys().eq(["both"]));
    let ms = |time: Option<Duration>| time.map(|time| time.as_millis());
    assert_eq!((ms(traces.timeout), ms(metrics.timeout)), (Some(20), Some(30)));
    let without = environment::without_effect(&find);
    assert_eq!(without, ["OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_BSP_MAX_QUEUE_SIZE"]);
    for (name, value) in
        [("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon"), ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "secret-canary")]
    {
        let wrong = |asked: &str| if asked == name { Some(value.to_owned()) } else { find(asked) };
        let error = TelemetrySettings::from_variables(&wrong, "agent").expect_err("refused").to_string();
        assert!(error.starts_with(name) && !error.contains("canary"), "{error}");
    }
}

#[test]
fn what_is_done_anyway_is_no_reason_for_a_warning() {
    let of = |name: &'static str, value: &'static str| {
        environment::without_effect(&move |asked: &str| (asked == name).then(|| value.to_owned())).len()
    };
    let temporality = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    assert_eq!((of("OTEL_EXPORTER_OTLP_COMPRESSION", "none"), of("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")), (0, 1));
    assert_eq!((of(temporality, "Cumulative"), of(temporality, "delta")), (0, 1));
    assert_eq!(of("OTEL_BSP_MAX_QUEUE_SIZE", "none"), 1);
    for name in ["TRACES_CLIENT_KEY", "METRICS_CLIENT_CERTIFICATE", "METRICS_INSECURE"] {
        assert_eq!(of(Box::leak(format!("OTEL_EXPORTER_OTLP_{name}").into_boxed_str()), "x"), 1, "{name}");
    }
    assert_eq!(of("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1"), 1);
}

#[test]
fn one_receiver_is_switched_off_by_its_protocol_and_read_nothing_of() {
    type Pairs = &'static [(&'static str, &'static str)];
    let read = |pairs: Pairs| {
        let find = move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::new("http://127.0.0.1:1", "agent").overridden_by(&find)
    };
    const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
    const METRICS: (&str, &str) = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc");
    const BOTH: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    const NO_METRICS: (&str, &str) = ("OTEL_METRICS_EXPORTER", "none");
    let left = |pairs: Pairs| {
        let settings = read(pairs).unwrap().unwrap();
        (settings.traces.is_some(), settings.metrics.is_some())
    };
    assert_eq!(left(&[METRICS, ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "soon")]), (true, false));
    assert_eq!(left(&[TRACES]), (false, true));
    assert_eq!(left(&[BOTH, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")]), (true, false));
    assert_eq!(left(&[NO_METRICS, METRICS, ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "no pair")]), (true, false));
    for pairs in [&[BOTH][..], &[TRACES, METRICS], &[NO_METRICS, TRACES]] {
        let error = read(pairs).unwrap_err().to_string();
        assert!(error.contains("is \"grpc\"; only \"http/protobuf\""), "{error}");
    }
}

#[test]
fn a_receiver_with_headers_of_its_own_leaves_the_others_to_the_other() {
    let all = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:2/x"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "own=1"),
    ];
    let find = |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let set = TelemetrySettings::new("http://127.0.0.1:1", "agent").header("x-key", "canary");
    let settings = set.overridden_by(&find).unwrap().unwrap();
    assert!(settings.headers.keys().eq(["x-key"]), "for the receiver that they were set for");
    assert!(settings.of_traces.headers.is_some_and(|headers| headers.keys().eq(["own"])));
    assert!(settings.of_metrics.headers.is_none());
}

#[test]
fn settings_in_code_say_all_that_the_variables_do_and_the_variables_come_first() {
    let set = TelemetrySettings::new("http://127.0.0.1:1", "agent")
        .traces_to("https://traces.example/in")
        .resource("host.name", "h")
        .resource("region", "eu")
        .sampled(0.25)
        .ignoring_parents()
        .timeout(Duration::from_secs(3))
        .metrics_every(Duration::ZERO);
    let settings = set.clone().overridden_by(&|_| None).unwrap().unwrap();
    assert_eq!(settings.traces.as_deref(), Some("https://traces.example/in"));
    assert_eq!(settings.metrics.as_deref(), Some("http://127.0.0.1:1/v1/metrics"));
    assert_eq!((settings.sampler.ratio, settings.sampler.follows_parent), (0.25, false));
    assert_eq!((settings.timeout, settings.metrics_each), (Duration::from_secs(3), Duration::from_millis(1)));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(settings.resource, [pair("host.name", "h"), pair("region", "eu"), pair("service.name", "agent")]);

    let all = [
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ("OTEL_RESOURCE_ATTRIBUTES", "region=us"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "9"),
    ];
    let find = |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let settings = set.clone().overridden_by(&find).unwrap().unwrap();
    assert_eq!((settings.sampler.ratio, settings.sampler.follows_parent), (0.5, true));
    assert!(settings.resource.contains(&pair("region", "us")) && settings.resource.contains(&pair("host.name", "h")));
    assert_eq!((settings.timeout, settings.metrics_each), (Duration::from_secs(3), Duration::from_millis(9)));

    assert_eq!(set.clone().resource("service.name", "other").service, "other");
    assert!(set.clone().without_traces().without_metrics().overridden_by(&|_| None).unwrap().is_none());
    assert_eq!(set.clone().sampled(7.0).sampler.ratio, 1.0);
    let refused = Telemetry::start(set.clone().metrics_to("127.0.0.1:4318")).unwrap_err();
    assert!(matches!(refused, TelemetryError::Address { of: "metrics" }), "{refused}");
    let refused = Telemetry::start(set.header("no name", "secret-canary")).unwrap_err();
    assert!(matches!(refused, TelemetryError::Header) && !refused.to_string().contains("canary"), "{refused}");
}
