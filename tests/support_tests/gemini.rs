//! The Gemini format of the fake provider.

use serde_json::{Value, json};

use crate::support::gemini::THOUGHT_SIGNATURE;
use crate::support::provider::FakeProvider;
use crate::support::reply::{INPUT_TOKENS, OUTPUT_TOKENS, Reply};
use crate::support_tests::client::ask;

const PLAIN: &str = "/v1beta/models/gemini-x:generateContent";
const STREAMED: &str = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";

fn question() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
}

#[tokio::test]
async fn a_plain_answer_has_its_parts_its_reason_and_its_tokens() {
    let call = Reply::Reasoning {
        thought: "hm".into(),
        text: "I look.".into(),
        calls: vec![("c1".into(), "read".into(), r#"{"path":"a"}"#.into())],
    };
    let answer = ask(FakeProvider::start([call]).address(), PLAIN, &question()).await;
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    let parts = body["candidates"][0]["content"]["parts"].as_array().expect("parts");
    assert_eq!(parts[0], json!({"text": "h", "thought": true}));
    let last = json!({"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": THOUGHT_SIGNATURE});
    assert_eq!(parts.last(), Some(&last));
    assert_eq!(body["candidates"][0]["finishReason"], "STOP");
    assert_eq!(body["usageMetadata"]["totalTokenCount"], json!(INPUT_TOKENS + OUTPUT_TOKENS));
    assert_eq!(body["modelVersion"], "gemini-x");
}

#[tokio::test]
async fn only_the_last_event_of_a_stream_has_a_reason() {
    let answer = ask(FakeProvider::start([Reply::text("Hello")]).address(), STREAMED, &question()).await;
    assert!(answer.complete && answer.body.ends_with("}\r\n\r\n"), "{}", answer.body);
    let events: Vec<Value> = answer
        .body
        .split("\r\n\r\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let said: String =
        events.iter().filter_map(|event| event["candidates"][0]["content"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(said, "Hello");
    let reasons = events.iter().map(|event| event["candidates"][0]["finishReason"].is_string());
    assert_eq!(reasons.collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test]
async fn what_the_real_one_refuses_is_refused() {
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]});
    let other = json!({"role": "user", "parts": [{"functionResponse": {"name": "write", "response": {}}}]});
    let user = question()["contents"][0].clone();
    for contents in [
        json!([]),
        json!([user, call]),
        json!([user, call, other]),
        json!([user, other]),
        json!([{"role": "tool", "parts": []}]),
    ] {
        let provider = FakeProvider::start([Reply::text("never")]);
        let answer = ask(provider.address(), STREAMED, &json!({"contents": contents})).await;
        assert!(answer.body.contains("INVALID_ARGUMENT"), "{contents}: {}", answer.body);
    }
}
