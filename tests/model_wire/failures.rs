//! Failures and their messages.

use crate::model_wire::client::{ALL, DEADLINE, KEY, ask, hello, model, port};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use bob_actors::llm::LlmPort;
use bob_actors::llm::providers::ProviderKind;
use bob_messages::llm::{LlmError, LlmErrorKind};
use futures_util::future::join_all;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// How long the fake may be silent in the tests that wait for it: longer than a busy machine needs for a header, and
/// the cases wait beside each other.
const SILENCE_MS: u64 = 3_000;
const SILENCE: Duration = Duration::from_millis(SILENCE_MS);

async fn failure(reply: Reply, kind: ProviderKind, timeout_ms: u64) -> LlmError {
    let provider = FakeProvider::start([reply.clone()]);
    match ask(&port(&provider, kind, timeout_ms), hello()).await {
        Err(error) => error,
        Ok(answer) => panic!("{kind:?} took {reply:?} for an answer: {answer:?}"),
    }
}

#[tokio::test]
async fn l5_a_stream_that_ends_without_its_end_marker_is_never_an_answer() {
    for kind in ALL {
        let error = failure(Reply::text("Hello").end_without_done(), kind, 10_000).await;
        assert_eq!(error.message, "provider fake ended its answer without an end marker");
        // Gemini's last event is its end, and a call is one event there.
        let (of_text, of_call) = if kind == ProviderKind::Gemini { (3, 1) } else { (6, 6) };
        for (reply, fewer_than) in
            [(Reply::text("Hello"), of_text), (Reply::call("c1", "local__read", r#"{"path":"a"}"#), of_call)]
        {
            for chunks in 0..fewer_than {
                let error = failure(reply.clone().end_after(chunks), kind, 10_000).await;
                assert_eq!(error.kind, LlmErrorKind::Unavailable, "{kind:?} after {chunks}");
            }
        }
    }
}

#[tokio::test]
async fn l3_l4_silence_is_noticed_before_the_headers_and_in_the_middle() {
    let noticed = |kind: ProviderKind, reply: Reply, what: &'static str| async move {
        let started = Stopwatch::start();
        let error = failure(reply, kind, SILENCE_MS).await;
        assert_eq!((error.kind, error.message.as_str()), (LlmErrorKind::Timeout, what), "{kind:?}");
        let (took, wall) = (started.elapsed(), started.wall());
        println!("L3, L4: {kind:?} settled {:?} after its deadline", wall.saturating_sub(SILENCE));
        assert!(wall >= SILENCE && took < SILENCE + Duration::from_millis(250), "{kind:?} took {wall:?}");
    };
    let cases = ALL.into_iter().flat_map(|kind| {
        [
            (Reply::Silence, "provider fake did not begin to answer within 3000 ms"),
            (Reply::text("Hello").stall_after(0), "provider fake was silent in the middle of its answer for 3000 ms"),
            (Reply::text("Hello").stall_after(2), "provider fake was silent in the middle of its answer for 3000 ms"),
        ]
        .map(|(reply, what)| noticed(kind, reply, what))
    });
    join_all(cases).await;
}

#[tokio::test]
async fn l3_an_error_whose_body_never_ends_is_a_failure_in_time() {
    join_all(ALL.into_iter().map(|kind| async move {
        let started = Stopwatch::start();
        let error = failure(Reply::status(500).stall_after(0), kind, SILENCE_MS).await;
        assert!(error.is_retryable(), "{kind:?}: {error:?}");
        started.assert_within(SILENCE + Duration::from_secs(5), format!("{kind:?}"));
    }))
    .await;
}

#[tokio::test]
async fn l7_l8_errors_and_emptiness_under_a_good_status_are_failures() {
    let page = |kind: &str, body: &str| Reply::Status {
        code: 200,
        headers: vec![("content-type".into(), kind.into())],
        body: Some(body.to_owned()),
    };
    for kind in ALL {
        for reply in [
            Reply::ErrorBody200,
            Reply::EmptyChoices,
            Reply::text(""),
            Reply::Reasoning { thought: "hm".into(), text: String::new(), calls: Vec::new() },
            page("text/html", "<html>welcome</html>"),
            page("text/event-stream", ""),
            page("text/event-stream", "data: {\"choices\": [\n\n"),
            page("application/json", "{}"),
            Reply::Raw(b"not HTTP at all".to_vec()),
            Reply::Raw(Vec::new()),
        ] {
            let error = failure(reply.clone(), kind, 10_000).await;
            assert_eq!(error.kind, LlmErrorKind::Unavailable, "{kind:?} {reply:?}: {error}");
            assert!(error.is_retryable() && !error.message.contains("welcome"), "{error}");
            let said = error.message.contains("; it said: ");
            assert_eq!(said, matches!(reply, Reply::ErrorBody200), "{error}");
        }
    }
}

#[tokio::test]
async fn l8_an_event_beyond_the_bound_is_refused() {
    let text = "x".repeat(9 * 1024 * 1024);
    let body =
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\ndata: [DONE]\n\n");
    let headers = vec![("content-type".into(), "text/event-stream".into())];
    let error = failure(Reply::Status { code: 200, headers, body: Some(body) }, ProviderKind::OpenAi, 10_000).await;
    assert_eq!(error.kind, LlmErrorKind::TooLarge);
}

#[tokio::test]
async fn l10_http_errors_are_named_with_what_the_provider_said_and_never_the_key() {
    let rows = [
        (400, LlmErrorKind::Rejected),
        (401, LlmErrorKind::Unauthorized),
        (403, LlmErrorKind::Unauthorized),
        (404, LlmErrorKind::UnknownModel),
        (408, LlmErrorKind::Timeout),
        (429, LlmErrorKind::RateLimited),
        (500, LlmErrorKind::Unavailable),
        (503, LlmErrorKind::Unavailable),
        (529, LlmErrorKind::Unavailable),
    ];
    for kind in ALL {
        for (code, expected) in rows {
            let body =
                format!("{{\"error\": {{\"message\": \"upstream exploded over {KEY}\"}}, \"prompt\": \"hello?\"}}");
            let body = Some(body);
            let error = failure(Reply::Status { code, headers: Vec::new(), body }, kind, 10_000).await;
            assert_eq!((error.kind, error.status), (expected, Some(code)), "{kind:?}");
            let told = format!("{error} {error:?}");
            assert!(!told.contains(KEY) && !told.contains("hello?"), "{told}");
            assert!(error.message.ends_with("; it said: upstream exploded over [hidden]"), "{told}");
        }
        let nothing = Reply::Status { code: 401, headers: Vec::new(), body: Some(String::new()) };
        let error = failure(nothing, kind, 10_000).await;
        assert_eq!(error.message, "HTTP 401 from provider fake: check the key in FAKE_KEY");
    }
}

#[tokio::test]
async fn l2_what_the_provider_asks_to_wait_is_read_from_the_header() {
    for kind in ALL {
        for (said, ms) in [("7", Some(7_000)), ("1382400", Some(1_382_400_000)), ("-1", None), ("soon", None)] {
            let error = failure(Reply::too_many_requests(said), kind, 10_000).await;
            assert_eq!((error.kind, error.retry_after_ms), (LlmErrorKind::RateLimited, ms), "{kind:?} {said}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named() {
    let provider = FakeProvider::start([]);
    let port = port(&provider, ProviderKind::OpenAi, 10_000);
    drop(provider);
    let error = ask(&port, hello()).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unavailable);
    assert!(error.message.starts_with("provider fake cannot be reached (Connection refused"), "{error}");
}

/// A program decides by the error of the system, and its log has no key and no address, which may hold one.
#[tokio::test]
async fn what_broke_below_a_call_is_the_source_of_its_error_without_keys_and_addresses() {
    for kind in ALL {
        let provider = FakeProvider::start([]);
        let port = port(&provider, kind, 10_000);
        drop(provider);
        let refused = chain(&ask(&port, hello()).await.unwrap_err());
        assert_eq!(refused.last().and_then(|(_, kind)| *kind), Some(ErrorKind::ConnectionRefused), "{kind:?}");
        let cut = chain(&failure(Reply::text("Hello").cut_after(60), kind, 10_000).await);
        assert!(!cut.is_empty(), "{kind:?}");
        for (text, _) in refused.iter().chain(&cut) {
            assert!(!text.contains(KEY) && !text.contains("127.0.0.1") && !text.contains("http:"), "{kind:?}: {text}");
        }
    }
}

/// The texts below an error, and the kinds of those of the system.
fn chain(error: &LlmError) -> Vec<(String, Option<ErrorKind>)> {
    let mut chain = Vec::new();
    let mut below = error.source();
    while let Some(error) = below {
        chain.push((error.to_string(), error.downcast_ref::<io::Error>().map(io::Error::kind)));
        below = error.source();
    }
    chain
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    for kind in ALL {
        let provider = FakeProvider::start([Reply::Silence, Reply::text("Hello").stall_after(2)]);
        let port = port(&provider, kind, 60_000);
        for number in 1..=2 {
            let call = port.complete(Arc::new(hello()), &model());
            tokio::select! {
                ended = call => panic!("nobody answers: {ended:?}"),
                () = provider.wait_requests(number) => {}
            }
            let closed = tokio::time::timeout(DEADLINE, provider.wait_closed_early(number)).await;
            closed.expect("the connection is closed");
        }
    }
}
