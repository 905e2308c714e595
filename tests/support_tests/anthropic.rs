//! The Anthropic messages format.

use serde_json::{Value, json};

use crate::support::anthropic::SIGNATURE;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support_tests::client::{Answer, ask};

const PATH: &str = "/v1/messages";

fn question(stream: bool) -> Value {
    json!({"model": "claude-x", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}], "stream": stream})
}

async fn plain(reply: Reply) -> Answer {
    ask(FakeProvider::start([reply]).address(), PATH, &question(false)).await
}

async fn streamed(reply: Reply) -> Answer {
    ask(FakeProvider::start([reply]).address(), PATH, &question(true)).await
}

fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[tokio::test]
async fn a_plain_answer_is_one_message() {
    let answer = plain(Reply::text("Hello there")).await;
    assert_eq!((answer.status, answer.complete), (200, true));
    let expected = json!({
        "id": "msg_fake_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": "Hello there"}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7},
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn a_stream_is_named_events_in_the_published_order() {
    let answer = streamed(Reply::text("Hello")).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(answer.complete && answer.body.starts_with("event: message_start\ndata: {"));
    assert!(answer.body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), "{}", answer.body);
    let usage =
        json!({"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1});
    let message = json!({"id": "msg_fake_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let text =
        |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let expected = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        text("He"),
        text("ll"),
        text("o"),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(answer.data(), expected);
    for ((name, _), data) in answer.events().iter().zip(&expected) {
        assert_eq!(data["type"], name.as_str(), "the event line and the type agree");
    }
}

#[tokio::test]
async fn thoughts_words_and_calls_are_blocks_in_this_order() {
    let calls = vec![("toolu_1".to_owned(), "list_dir".to_owned(), r#"{"path":"."}"#.to_owned())];
    let reply = Reply::Reasoning { thought: "Hmm".into(), text: "Let me look".into(), calls };
    let answer = plain(reply.clone()).await.json();
    let expected = json!([
        {"type": "thinking", "thinking": "Hmm", "signature": SIGNATURE},
        {"type": "text", "text": "Let me look"},
        {"type": "tool_use", "id": "toolu_1", "name": "list_dir", "input": {"path": "."}},
    ]);
    assert_eq!((&answer["content"], &answer["stop_reason"]), (&expected, &json!("tool_use")));

    let events = streamed(reply).await.data();
    let starts: Vec<&Value> = events.iter().filter(|event| event["type"] == "content_block_start").collect();
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "list_dir", "input": {}});
    assert_eq!(starts[2], &json!({"type": "content_block_start", "index": 2, "content_block": block}));
    assert_eq!(joined(&events, "/delta/thinking"), "Hmm");
    assert_eq!(joined(&events, "/delta/signature"), SIGNATURE);
    assert_eq!(joined(&events, "/delta/text"), "Let me look");
    assert_eq!(joined(&events, "/delta/partial_json"), r#"{"path":"."}"#);
    let pieces: Vec<&Value> = events.iter().filter(|event| event["delta"]["type"] == "input_json_delta").collect();
    assert_eq!((pieces.len(), &pieces[0]["delta"]["partial_json"]), (5, &json!("")));
    assert_eq!(events.iter().filter(|event| event["type"] == "content_block_stop").count(), 3);
}

#[tokio::test]
async fn limits_refusals_and_emptiness_have_their_reasons() {
    for (reply, reason) in [(Reply::MaxTokens("On".into()), "max_tokens"), (Reply::Refusal("No".into()), "refusal")] {
        assert_eq!(plain(reply.clone()).await.json()["stop_reason"], reason);
        assert_eq!(joined(&streamed(reply).await.data(), "/delta/stop_reason"), reason);
    }
    assert_eq!(plain(Reply::EmptyChoices).await.json()["content"], json!([]));
    let types: Vec<Value> =
        streamed(Reply::EmptyChoices).await.data().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["message_start", "message_delta", "message_stop"]);
}

#[tokio::test]
async fn errors_have_the_shape_of_this_wire() {
    let answer = plain(Reply::too_many_requests("Wed, 21 Oct 2099 07:28:00 GMT")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("Wed, 21 Oct 2099 07:28:00 GMT")));
    assert_eq!(
        (&answer.json()["type"], &answer.json()["error"]["type"]),
        (&json!("error"), &json!("rate_limit_error"))
    );

    let stream = streamed(Reply::ErrorBody200).await;
    let data = r#"{"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}"#;
    assert_eq!(serde_json::from_str::<Value>(data).expect("JSON"), stream.data()[0]);
    assert_eq!((stream.status, stream.events()[0].0.as_str(), stream.events().len()), (200, "error", 1));
    assert_eq!(plain(Reply::ErrorBody200).await.json()["type"], "error");
}

#[tokio::test]
async fn a_request_a_real_provider_refuses_is_refused() {
    let provider = FakeProvider::repeating([Reply::text("fine")]);
    let user = json!({"role": "user", "content": "hi"});
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "noon"}]});
    for (messages, status) in [
        (json!([user, call, result]), 200),
        (json!([user, call]), 400),
        (json!([user, call, user, result]), 400),
        (json!([user, result]), 400),
        (json!([{"role": "system", "content": "be kind"}, user]), 400),
    ] {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
        assert_eq!(ask(provider.address(), PATH, &body).await.status, status, "{messages}");
    }
    let unbounded = json!({"model": "m", "messages": [user]});
    assert_eq!(ask(provider.address(), PATH, &unbounded).await.status, 400, "max_tokens is required");
}
