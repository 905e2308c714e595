//! Refusals of providers: by an error status, within a stream, with and without a delay.

use crate::model_faults::client::{ALL, KEY, ask, hello, port};
use crate::model_faults::recordings::Player;
use crate::support::reply::Reply;
use bob_actors::llm::RetryPolicy;
use bob_actors::llm::providers::ProviderKind;
use bob_actors::llm::retry::{Failure, MOST_RETRY_AFTER_MS, Verdict};
use bob_messages::llm::{LlmError, LlmErrorKind as Kind};

/// Text in the provider's message.
const CANARY: &str = "canary-4711";

#[track_caller]
fn assert_told_well(error: &LlmError, place: &str) {
    let told = format!("{error} {error:?}");
    assert!(!told.contains(KEY), "{place} repeats a key: {told}");
    let (ours, said) = error.message.split_once("; it said: ").unwrap_or((&error.message, ""));
    assert!(!ours.contains(CANARY) && ours.len() <= 200 && said.chars().count() <= 500, "{place} says {told}");
}

/// Errors in a stream that began with status 200, in each provider's format.
#[tokio::test]
async fn l7_errors_in_a_good_stream_are_failures_of_their_kind() {
    let openai: &[(&str, Kind)] = &[
        (r#"{"error":{"message":"CANARY","type":"server_error","param":null,"code":null}}"#, Kind::Unavailable),
        (r#"{"error":{"message":"CANARY","type":"requests","code":"rate_limit_exceeded"}}"#, Kind::RateLimited),
        (
            r#"{"error":{"message":"CANARY","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Kind::QuotaExhausted,
        ),
        (
            r#"{"error":{"message":"CANARY","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            Kind::ContextExceeded,
        ),
        (r#"{"error":{"message":"CANARY","type":"invalid_request_error","code":null}}"#, Kind::Rejected),
        (r#"{"error":{"message":"CANARY","code":502}}"#, Kind::Unavailable),
        (r#"{"error":{"code":400,"message":"CANARY","type":"exceed_context_size_error"}}"#, Kind::ContextExceeded),
        (r#"{"error":"CANARY: model runner has unexpectedly stopped"}"#, Kind::Unavailable),
        (r#"{"error":{}}"#, Kind::Unavailable),
    ];
    let anthropic: &[(&str, Kind)] = &[
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"CANARY"}}"#, Kind::Unavailable),
        (r#"{"type":"error","error":{"type":"api_error","message":"CANARY"}}"#, Kind::Unavailable),
        (r#"{"type":"error","error":{"type":"rate_limit_error","message":"CANARY"}}"#, Kind::RateLimited),
        (r#"{"type":"error","error":{"type":"authentication_error","message":"CANARY"}}"#, Kind::Unauthorized),
        (r#"{"type":"error","error":{"type":"permission_error","message":"CANARY"}}"#, Kind::Unauthorized),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long CANARY"}}"#,
            Kind::ContextExceeded,
        ),
        (r#"{"type":"error","error":{"type":"invalid_request_error","message":"CANARY"}}"#, Kind::Rejected),
    ];
    let gemini: &[(&str, Kind)] = &[
        (r#"{"error":{"code":503,"message":"CANARY","status":"UNAVAILABLE"}}"#, Kind::Unavailable),
        (r#"{"error":{"code":500,"message":"CANARY","status":"INTERNAL"}}"#, Kind::Unavailable),
        (r#"{"error":{"code":429,"message":"CANARY","status":"RESOURCE_EXHAUSTED"}}"#, Kind::RateLimited),
        (r#"{"error":{"code":429,"message":"CANARY","details":[{"quotaId":"RequestsPerDay"}]}}"#, Kind::QuotaExhausted),
        (r#"{"error":{"code":400,"message":"CANARY","status":"INVALID_ARGUMENT"}}"#, Kind::Rejected),
        (r#"{"error":{"code":403,"message":"CANARY","status":"PERMISSION_DENIED"}}"#, Kind::Unauthorized),
    ];
    let mut shapes = 0;
    for kind in ALL {
        let rows = match kind {
            ProviderKind::Anthropic => anthropic,
            ProviderKind::Gemini => gemini,
            _speaks_openai => openai,
        };
        // Long enough that repeating the text would show in the length.
        let canary = format!("{CANARY} {KEY} ").repeat(100);
        let event = if kind == ProviderKind::Anthropic { "event: error\n" } else { "" };
        let player = Player::new(kind, move |number| {
            Reply::Pieces(vec![format!("{event}data: {}\n\n", rows[number].0.replace("CANARY", &canary)).into_bytes()])
        });
        for (number, (body, expected)) in rows.iter().enumerate() {
            let error = player.play(number).await.expect_err("an error");
            assert_eq!(error.kind, *expected, "{kind:?} {body}: {error}");
            assert_told_well(&error, body);
            assert_eq!(
                error.message.contains(CANARY),
                body.contains("CANARY"),
                "{body}: what it said is shown: {error}"
            );
            shapes += 1;
        }
    }
    println!("L7: {shapes} shapes");
}

/// Status 429 with header and body, and its effect with 90 s and with 5 s left.
#[tokio::test]
async fn l2_every_429_is_understood_and_no_wait_is_too_long() {
    let busy = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
    let quota = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let headers: &[(&str, Option<u64>)] = &[
        ("0", Some(0)),
        ("1", Some(1_000)),
        ("7", Some(7_000)),
        ("59", Some(59_000)),
        ("60", Some(60_000)),
        ("61", Some(61_000)),
        ("0.5", Some(500)),
        ("1.25", Some(1_250)),
        (" 3 ", Some(3_000)),
        ("1382400", Some(1_382_400_000)),
        ("99999999999999999999", Some(u64::MAX)),
        ("1e9", Some(1_000_000_000_000)),
        ("-1", None),
        ("-0.5", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("1 2", None),
        ("10s", None),
        ("0x10", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
        ("Fri, 99 Foo 2099 08:49:37 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(1)),
    ];
    let bodies = [
        (busy.to_owned(), Kind::RateLimited),
        (quota.to_owned(), Kind::QuotaExhausted),
        (String::new(), Kind::RateLimited),
        (r#"{"type":"error","error":{"type":"rate_limit_error"}}"#.to_owned(), Kind::RateLimited),
        (r#"{"error":{"message":"Insufficient Balance"}}"#.to_owned(), Kind::QuotaExhausted),
    ];
    let script: Vec<(String, String)> = headers
        .iter()
        .flat_map(|(header, _)| bodies.iter().map(|(body, _)| ((*header).to_owned(), body.clone())))
        .collect();
    let cases = script.len();
    let player = Player::new(ProviderKind::OpenAi, move |number| {
        let (header, body) = &script[number];
        Reply::Status { code: 429, headers: vec![("retry-after".into(), header.clone())], body: Some(body.clone()) }
    });
    for number in 0..cases {
        let ((header, asked), (body, expected)) = (headers[number / bodies.len()], &bodies[number % bodies.len()]);
        let error = player.play(number).await.expect_err("a 429");
        assert_eq!((error.kind, error.status), (*expected, Some(429)), "{header:?} {body}");
        match (error.retry_after_ms, asked) {
            // A date far away moves while the test runs.
            (Some(got), Some(1)) => assert!(got > 1_000_000_000, "{header:?}: {got}"),
            (got, asked) => assert_eq!(got, asked, "{header:?}"),
        }
        for remaining_ms in [5_000, 90_000] {
            let failure =
                Failure { error: &error, repeated: 0, remaining_ms, chance: 1.0, has_fallback: false, is_down: false };
            match RetryPolicy::default().rule(failure, || true) {
                Verdict::Again { delay_ms } => {
                    assert_eq!(error.kind, Kind::RateLimited, "a used up quota is final");
                    assert!(delay_ms <= MOST_RETRY_AFTER_MS.min(remaining_ms), "{header:?} waits {delay_ms} ms");
                    assert!(delay_ms >= asked.unwrap_or(0).min(MOST_RETRY_AFTER_MS), "{header:?} waits {delay_ms} ms");
                }
                Verdict::GiveUp => {
                    let too_long = error.retry_after_ms.unwrap_or(0).min(MOST_RETRY_AFTER_MS) >= remaining_ms;
                    assert!(error.kind == Kind::QuotaExhausted || too_long, "{header:?} {body}");
                }
                Verdict::Fallback => panic!("there is none"),
            }
        }
    }
    println!("L2: {cases} cases");
    assert!(cases >= 30);
}

#[tokio::test]
async fn l10_refusals_name_the_variable_and_never_the_key() {
    for kind in ALL {
        for (code, word) in [(401, "FAKE_KEY"), (403, "FAKE_KEY"), (404, "m-1")] {
            let body = format!(r#"{{"error":{{"message":"{CANARY} {KEY}","code":"x"}}}}"#);
            let provider = crate::support::provider::FakeProvider::start([Reply::Status {
                code,
                headers: Vec::new(),
                body: Some(body),
            }]);
            let error = ask(&port(&provider, kind, 10_000), hello()).await.unwrap_err();
            assert!(error.message.contains(word) && !error.is_retryable(), "{kind:?} {code}: {error}");
            assert_told_well(&error, word);
            assert!(error.message.ends_with(&format!("; it said: {CANARY} [hidden] (x)")), "{error}");
        }
    }
}
