//! The OpenAI chat completions format.

use serde_json::{Value, json};

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support_tests::client::{Answer, Client, ask};

const PATH: &str = "/v1/chat/completions";

fn question(stream: bool) -> Value {
    json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "stream": stream})
}

async fn plain(reply: Reply) -> Answer {
    ask(FakeProvider::start([reply]).address(), PATH, &question(false)).await
}

async fn streamed(reply: Reply) -> Answer {
    ask(FakeProvider::start([reply]).address(), PATH, &question(true)).await
}

fn joined(chunks: &[Value], pointer: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk.pointer(pointer)?.as_str()).collect()
}

#[tokio::test]
async fn a_plain_answer_is_one_json_document() {
    let answer = plain(Reply::text("Hello there")).await;
    assert_eq!((answer.status, answer.complete), (200, true));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let expected = json!({
        "id": "chatcmpl-fake-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there", "refusal": null, "annotations": []},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn a_stream_is_data_lines_and_ends_with_done() {
    let answer = streamed(Reply::text("Hello")).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(answer.complete && answer.body.starts_with("data: {") && answer.body.ends_with("}\n\ndata: [DONE]\n\n"));
    assert!(answer.events().iter().all(|(name, _)| name.is_empty()), "chunks carry no event name");
    let chunks = answer.data();
    let envelope = json!({"id": "chatcmpl-fake-1", "object": "chat.completion.chunk", "created": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18", "service_tier": "default", "system_fingerprint": "fp_fake"});
    let choice = |delta: Value, finish: Value| {
        let mut chunk = envelope.clone();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        chunk
    };
    let expected = [
        choice(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null),
        choice(json!({"content": "He"}), Value::Null),
        choice(json!({"content": "ll"}), Value::Null),
        choice(json!({"content": "o"}), Value::Null),
        choice(json!({}), json!("stop")),
    ];
    assert_eq!(chunks, expected);
}

#[tokio::test]
async fn usage_comes_in_a_chunk_of_its_own_when_asked_for() {
    let provider = FakeProvider::start([Reply::text("Hello").with_usage(100, 20)]);
    let mut body = question(true);
    body["stream_options"] = json!({"include_usage": true});
    let chunks = ask(provider.address(), PATH, &body).await.data();
    let (last, others) = chunks.split_last().expect("chunks");
    assert_eq!(last["choices"], json!([]));
    assert_eq!((&last["usage"]["prompt_tokens"], &last["usage"]["total_tokens"]), (&json!(100), &json!(120)));
    assert!(others.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)), "null until the last chunk");
}

#[tokio::test]
async fn tool_calls_are_native_and_their_arguments_come_in_pieces() {
    let calls = vec![
        ("call_1".to_owned(), "list_dir".to_owned(), r#"{"path":"."}"#.to_owned()),
        ("call_2".to_owned(), "now".to_owned(), String::new()),
    ];
    let message = plain(Reply::Calls(calls.clone())).await.json()["choices"][0].clone();
    assert_eq!(message["finish_reason"], "tool_calls");
    assert_eq!(message["message"]["content"], Value::Null);
    let expected = json!([
        {"id": "call_1", "type": "function", "function": {"name": "list_dir", "arguments": "{\"path\":\".\"}"}},
        {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": ""}},
    ]);
    assert_eq!(message["message"]["tool_calls"], expected);

    let chunks = streamed(Reply::TextAndCalls("Let me look".into(), calls)).await.data();
    let pieces: Vec<&Value> = chunks.iter().filter_map(|c| c.pointer("/choices/0/delta/tool_calls/0")).collect();
    let opening =
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "list_dir", "arguments": ""}});
    assert_eq!(pieces[0], &opening);
    assert_eq!(pieces[1], &json!({"index": 0, "function": {"arguments": "{\"p"}}));
    assert_eq!(pieces.len(), 6, "an opening and four pieces, then an opening without any");
    assert_eq!(pieces[5]["index"], 1);
    assert_eq!(joined(&chunks, "/choices/0/delta/content"), "Let me look");
    assert_eq!(joined(&chunks, "/choices/0/delta/tool_calls/0/function/arguments"), r#"{"path":"."}"#);
    assert_eq!(joined(&chunks, "/choices/0/finish_reason"), "tool_calls");
}

#[tokio::test]
async fn thoughts_refusals_and_limits_have_their_fields() {
    let thinking = || Reply::Reasoning { thought: "Hmm, well".into(), text: "Yes".into(), calls: Vec::new() };
    assert_eq!(plain(thinking()).await.json()["choices"][0]["message"]["reasoning_content"], "Hmm, well");
    assert_eq!(joined(&streamed(thinking()).await.data(), "/choices/0/delta/reasoning_content"), "Hmm, well");

    let refused = plain(Reply::Refusal("No.".into())).await.json()["choices"][0].clone();
    assert_eq!((&refused["message"]["refusal"], &refused["message"]["content"]), (&json!("No."), &Value::Null));
    assert_eq!(refused["finish_reason"], "stop");
    assert_eq!(joined(&streamed(Reply::Refusal("No.".into())).await.data(), "/choices/0/delta/refusal"), "No.");

    for (reply, reason) in
        [(Reply::MaxTokens("Once".into()), "length"), (Reply::ContentFilter("On".into()), "content_filter")]
    {
        assert_eq!(plain(reply.clone()).await.json()["choices"][0]["finish_reason"], reason);
        assert_eq!(joined(&streamed(reply).await.data(), "/choices/0/finish_reason"), reason);
    }
}

#[tokio::test]
async fn well_formed_nonsense_is_served_as_asked() {
    assert_eq!(plain(Reply::EmptyChoices).await.json()["choices"], json!([]));
    assert_eq!(streamed(Reply::EmptyChoices).await.data()[0]["choices"], json!([]));

    let error = plain(Reply::ErrorBody200).await;
    assert_eq!((error.status, &error.json()["error"]["type"]), (200, &json!("server_error")));
    let error = streamed(Reply::ErrorBody200).await;
    assert_eq!((error.status, &error.data()[0]["error"]["type"]), (200, &json!("server_error")));
}

#[tokio::test]
async fn a_status_comes_with_its_headers_and_the_error_body_of_the_wire() {
    let answer = streamed(Reply::too_many_requests("3")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3")));
    let expected = json!({"error": {"message": "the fake provider was told to fail", "type": "requests", "param": null,
        "code": "rate_limit_exceeded"}});
    assert_eq!(answer.json(), expected);

    let own = Reply::Status {
        code: 502,
        headers: vec![("Content-Type".into(), "text/html".into())],
        body: Some("<p>".into()),
    };
    let answer = plain(own).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.header("content-type")), (502, "<p>", Some("text/html")));
    assert_eq!(answer.head.matches("ontent-").count(), 2, "one type and one length: {}", answer.head);
}

#[tokio::test]
async fn replies_are_served_in_order_on_one_connection_and_recorded() {
    let provider = FakeProvider::start([Reply::text("one"), Reply::status(500), Reply::text("three")]);
    let mut client = Client::connect(provider.address()).await;
    let mut said = Vec::new();
    for stream in [true, false, false, false] {
        client.post("/v1/chat/completions?x=1", &question(stream)).await;
        let answer = client.answer().await;
        said.push((answer.status, answer.complete));
    }
    assert_eq!(said, [(200, true), (500, true), (200, true), (400, true)], "past the script is a refusal");
    let requests = provider.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/chat/completions?x=1"));
    assert_eq!(requests[0].body, question(true));
    assert_eq!(requests[0].header("x-api-key"), Some("k1"));
}

#[tokio::test]
async fn a_closure_sees_the_request_and_the_last_reply_can_repeat() {
    let echo = FakeProvider::answering(|body| Reply::text(body["messages"][0]["content"].as_str().unwrap_or_default()));
    let answer = ask(echo.address(), PATH, &question(false)).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "hi");

    let provider = FakeProvider::repeating([Reply::text("first"), Reply::text("again")]);
    for expected in ["first", "again", "again"] {
        let answer = ask(provider.address(), PATH, &question(false)).await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], expected);
    }
}

#[tokio::test]
async fn a_history_a_real_provider_refuses_is_refused() {
    let provider = FakeProvider::repeating([Reply::text("fine")]);
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function",
        "function": {"name": "now", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "noon"});
    let user = json!({"role": "user", "content": "hi"});
    for (messages, status) in [
        (json!([user, call, result]), 200),
        (json!([user, call, result, result]), 400),
        (json!([user, call]), 400),
        (json!([user, call, user, result]), 400),
        (json!([user, result]), 400),
        (json!([]), 400),
    ] {
        let answer = ask(provider.address(), PATH, &json!({"model": "m", "messages": messages})).await;
        assert_eq!(answer.status, status, "{messages}");
    }
    assert_eq!(ask(provider.address(), "/v1/elsewhere", &question(false)).await.status, 404);
    let mut client = Client::connect(provider.address()).await;
    client.get("/v1/models").await;
    assert_eq!(client.answer().await.json()["data"][0]["id"], "fake");
}
