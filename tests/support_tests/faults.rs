//! Answers that go wrong on purpose, and clients that leave.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support_tests::client::{Answer, Client, DEADLINE, ask};

const OPENAI: &str = "/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";

fn question(stream: bool) -> Value {
    json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}], "stream": stream})
}

async fn one(reply: Reply, path: &str, stream: bool) -> Answer {
    ask(FakeProvider::start([reply]).address(), path, &question(stream)).await
}

#[tokio::test]
async fn a_cut_ends_the_connection_after_exactly_so_many_bytes() {
    for (path, stream) in [(OPENAI, true), (OPENAI, false), (ANTHROPIC, true), (ANTHROPIC, false)] {
        let whole = one(Reply::text("Hello there"), path, stream).await.body;
        for bytes in [0, 1, 100, whole.len(), whole.len() + 50] {
            let answer = one(Reply::text("Hello there").cut_after(bytes), path, stream).await;
            assert!(!answer.complete, "{bytes} bytes of {path} must not look complete");
            assert_eq!(answer.body, whole[..bytes.min(whole.len())]);
        }
    }
}

#[tokio::test]
async fn a_stream_can_end_cleanly_without_its_end_marker() {
    for (path, marker) in
        [(OPENAI, "data: [DONE]\n\n"), (ANTHROPIC, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")]
    {
        let whole = one(Reply::text("Hello"), path, true).await.body;
        let answer = one(Reply::text("Hello").end_without_done(), path, true).await;
        assert!(answer.complete, "clean as HTTP");
        assert_eq!(answer.body + marker, whole);

        let answer = one(Reply::text("Hello").end_after(2), path, true).await;
        assert_eq!((answer.complete, answer.events().len()), (true, 2));
        let plain = one(Reply::text("Hello").end_after(0), path, false).await;
        assert!(plain.complete && !plain.body.is_empty(), "plain answers stay whole");
    }
}

#[tokio::test]
async fn raw_bytes_replace_the_answer_and_close() {
    let provider = FakeProvider::start([Reply::Raw(b"HTTP/1.1 200 OK\r\nnonsense".to_vec()), Reply::Raw(Vec::new())]);
    for expected in [&b"HTTP/1.1 200 OK\r\nnonsense"[..], b""] {
        let mut client = Client::connect(provider.address()).await;
        client.post(OPENAI, &question(true)).await;
        assert_eq!(client.rest().await, expected);
    }
    assert_eq!(provider.closed_early(), 0, "the provider left, not the client");
}

#[tokio::test]
async fn splinters_change_the_chunks_and_not_the_body() {
    let provider = FakeProvider::repeating([Reply::text("grüße, 世界").splintered(3)]);
    let mut client = Client::connect(provider.address()).await;
    client.post(OPENAI, &question(true)).await;
    let raw = client.read_until("0\r\n\r\n").await;
    let (_, body) = raw.split_once("\r\n\r\n").expect("a body");
    assert!(body.starts_with("3\r\ndat\r\n3\r\na: \r\n3\r\n"), "{body}");
    let answer = ask(provider.address(), OPENAI, &question(true)).await;
    let said: String =
        answer.data().iter().filter_map(|chunk| chunk.pointer("/choices/0/delta/content")?.as_str()).collect();
    assert_eq!(said, "grüße, 世界");
}

#[tokio::test]
async fn silence_lasts_until_the_client_leaves_and_is_counted() {
    let provider = FakeProvider::repeating([Reply::Silence]);
    let mut first = Client::connect(provider.address()).await;
    let mut second = Client::connect(provider.address()).await;
    first.post(OPENAI, &question(true)).await;
    second.post(ANTHROPIC, &question(false)).await;
    tokio::time::timeout(DEADLINE, provider.wait_requests(2)).await.expect("both requests");
    assert_eq!(provider.closed_early(), 0);
    assert!(!provider.closed_early_within(1, Duration::from_millis(50)), "nobody has left yet");
    drop(first);
    tokio::time::timeout(DEADLINE, provider.wait_closed_early(1)).await.expect("the first left");
    drop(second);
    assert!(provider.closed_early_within(2, DEADLINE), "the second left");
}

#[tokio::test]
async fn a_stall_sends_so_many_events_and_then_nothing() {
    let provider = FakeProvider::start([Reply::text("Hello").stall_after(2)]);
    let mut client = Client::connect(provider.address()).await;
    client.post(OPENAI, &question(true)).await;
    let seen = client.read_until("\"content\":\"He\"").await;
    assert_eq!(seen.matches("data: ").count(), 2);
    assert!(!provider.closed_early_within(1, Duration::from_millis(50)));
    let more = tokio::time::timeout(Duration::from_millis(50), client.answer()).await;
    assert!(more.is_err(), "nothing more comes: {more:?}");
    drop(client);
    assert!(provider.closed_early_within(1, DEADLINE));
}

#[tokio::test]
async fn a_plain_answer_that_stalls_never_looks_complete() {
    let provider = FakeProvider::start([Reply::text("Hello").stall_after(1)]);
    let mut client = Client::connect(provider.address()).await;
    client.post(OPENAI, &question(false)).await;
    client.read_until("Hello").await;
    assert!(tokio::time::timeout(Duration::from_millis(50), client.answer()).await.is_err());
}

#[tokio::test]
async fn a_delay_comes_first_and_a_client_may_leave_during_it() {
    let provider = FakeProvider::start([
        Reply::text("Hello").delayed(Duration::from_millis(80)),
        Reply::text("Hello").delayed(Duration::from_secs(3600)),
        Reply::text("Hello").paced(Duration::from_millis(20)),
        Reply::text("Hello").paced(Duration::from_secs(3600)),
    ]);
    let start = Instant::now();
    assert!(ask(provider.address(), OPENAI, &question(false)).await.complete);
    assert!(start.elapsed() >= Duration::from_millis(80));

    let mut client = Client::connect(provider.address()).await;
    client.post(OPENAI, &question(true)).await;
    assert!(provider.asked_within(2, DEADLINE));
    drop(client);
    assert!(provider.closed_early_within(1, DEADLINE));

    let start = Instant::now();
    let answer = ask(provider.address(), OPENAI, &question(true)).await;
    assert_eq!(answer.events().len(), 6);
    assert!(start.elapsed() >= Duration::from_millis(100), "five pauses between six events");

    let mut client = Client::connect(provider.address()).await;
    client.post(OPENAI, &question(true)).await;
    client.read_until("assistant").await;
    drop(client);
    assert!(provider.closed_early_within(2, DEADLINE));
}

#[tokio::test]
async fn a_dropped_provider_hangs_up_and_stops_listening() {
    let provider = FakeProvider::start([Reply::Silence]);
    let address = provider.address();
    let mut client = Client::connect(address).await;
    client.post(OPENAI, &question(true)).await;
    tokio::time::timeout(DEADLINE, provider.wait_requests(1)).await.expect("the request");
    drop(provider);
    assert_eq!(client.rest().await, b"");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
