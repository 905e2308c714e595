//! One row per shape a provider's refusal has.

use super::*;
use crate::llm::providers::{Provider, ProviderConfig};
use bob_messages::ids::ModelName;

fn with_attempt<T>(use_it: impl FnOnce(&Attempt<'_>) -> T) -> T {
    let config = ProviderConfig { name: "openai".into(), ..ProviderConfig::default() };
    let provider = Provider::resolve(&config, &|_| Some("sk-secret".into())).unwrap();
    let model = ModelName::parse("openai:gpt-4o").unwrap();
    let keys: Vec<_> = provider.key.iter().cloned().collect();
    use_it(&Attempt { provider: &provider, model: &model, keys: &keys })
}

const ROWS: &[(u16, &str, Kind)] = &[
    (400, r#"{"error":{"code":"context_length_exceeded"}}"#, Kind::ContextExceeded),
    (400, r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#, Kind::ContextExceeded),
    (400, r#"{"error":{"code":400,"type":"exceed_context_size_error"}}"#, Kind::ContextExceeded),
    (400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#, Kind::ContextExceeded),
    (400, r#"{"error":{"message":"The input token count (1200000) exceeds the maximum"}}"#, Kind::ContextExceeded),
    (413, r#"{"error":{"type":"request_too_large"}}"#, Kind::Rejected),
    (400, r#"{"error":{"message":"Your credit balance is too low"}}"#, Kind::QuotaExhausted),
    (400, r#"{"error":{"code":"model_not_found"}}"#, Kind::UnknownModel),
    (400, r#"{"error":{"type":"invalid_request_error"}}"#, Kind::Rejected),
    (400, "", Kind::Rejected),
    (401, r#"{"error":{"code":"invalid_api_key"}}"#, Kind::Unauthorized),
    (402, r#"{"error":{"message":"Insufficient Balance"}}"#, Kind::QuotaExhausted),
    (403, "", Kind::Unauthorized),
    (404, r#"{"error":{"code":"model_not_found"}}"#, Kind::UnknownModel),
    (404, "<html>", Kind::UnknownModel),
    (405, "", Kind::Rejected),
    (408, "", Kind::Timeout),
    (409, "", Kind::Rejected),
    (422, r#"{"detail":"extra fields"}"#, Kind::Rejected),
    (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, Kind::RateLimited),
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
        Kind::QuotaExhausted,
    ),
    (429, r#"{"error":{"type":"exceeded_current_quota_error"}}"#, Kind::QuotaExhausted),
    (
        429,
        r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"quotaId":"GenerateRequestsPerMinute"}]}}"#,
        Kind::RateLimited,
    ),
    (
        429,
        r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"quotaId":"GenerateRequestsPerDay"}]}}"#,
        Kind::QuotaExhausted,
    ),
    (429, "", Kind::RateLimited),
    (451, "", Kind::Rejected),
    (500, "", Kind::Unavailable),
    (502, "<html>", Kind::Unavailable),
    (503, r#"{"error":{"message":"Loading model"}}"#, Kind::Unavailable),
    (504, "", Kind::Unavailable),
    (529, r#"{"error":{"type":"overloaded_error"}}"#, Kind::Unavailable),
    (301, "", Kind::Rejected),
];

#[test]
fn l7_every_shape_has_its_kind() {
    with_attempt(|attempt| {
        for (status, body, kind) in ROWS {
            let error = http(*status, body, None, attempt);
            assert_eq!(error.kind, *kind, "{status} {body}");
            assert!(error.message.starts_with(&format!("HTTP {status} from provider openai: ")));
        }
    });
}

#[test]
fn l10_a_short_message_is_repeated_and_a_key_never() {
    with_attempt(|attempt| {
        for status in [400, 401, 404, 429, 500] {
            let error = http(status, "sk-secret is no key, said the provider", None, attempt);
            assert!(error.message.ends_with("; it said: [hidden] is no key, said the provider"), "{error}");
            let error = http(status, r#"{"prompt":"all that was said","key":"sk-secret"}"#, None, attempt);
            assert!(!error.message.contains("secret") && !error.message.contains("all that"), "{error}");
        }
        assert_eq!(
            http(401, "", None, attempt).message,
            "HTTP 401 from provider openai: check the key in OPENAI_API_KEY"
        );
        let in_stream = in_stream(&serde_json::json!({"message": "boom", "type": "server_error"}), attempt);
        assert_eq!(
            in_stream.message,
            "provider openai reported an error in the middle of its answer; it said: boom (server_error)"
        );
    });
}

#[test]
fn l7_errors_inside_a_stream_are_told_apart() {
    let rows = [
        (r#"{"message":"boom","type":"server_error"}"#, Kind::Unavailable),
        (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Kind::Unavailable),
        (r#"{"type":"error","error":{"type":"rate_limit_error"}}"#, Kind::RateLimited),
        (r#"{"type":"error","error":{"type":"authentication_error"}}"#, Kind::Unauthorized),
        (r#"{"code":"insufficient_quota"}"#, Kind::QuotaExhausted),
        (r#"{"code":400,"type":"exceed_context_size_error"}"#, Kind::ContextExceeded),
        (r#"{"code":502,"message":"upstream"}"#, Kind::Unavailable),
        (r#"{"type":"invalid_request_error"}"#, Kind::Rejected),
        (r#""text""#, Kind::Unavailable),
    ];
    with_attempt(|attempt| {
        for (body, kind) in rows {
            assert_eq!(in_stream(&serde_json::from_str(body).unwrap(), attempt).kind, kind, "{body}");
        }
    });
}
