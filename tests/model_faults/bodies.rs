//! Bodies that are no answers: pages, bombs, floods, and events that never end.

use crate::model_faults::client::{ALL, ask, hello, port};
use crate::support::alone::alone;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::stopwatch::Stopwatch;
use bob_actors::llm::providers::ProviderKind;
use bob_messages::llm::{LlmError, LlmErrorKind};
use std::time::Duration;

/// Longer than any of these floods takes, shorter than the patience of a test.
const TIMEOUT_MS: u64 = 5_000;

async fn failure(kind: ProviderKind, reply: Reply) -> LlmError {
    let provider = FakeProvider::start([reply.clone()]);
    match ask(&port(&provider, kind, TIMEOUT_MS), hello()).await {
        Err(error) => error,
        Ok(answer) => panic!("{kind:?} took {reply:?} for an answer: {answer:?}"),
    }
}

fn page(content_type: &str, encoding: Option<&str>, body: Vec<u8>) -> Reply {
    let mut headers = vec![("content-type".to_owned(), content_type.to_owned())];
    headers.extend(encoding.map(|encoding| ("content-encoding".to_owned(), encoding.to_owned())));
    Reply::Flood { code: 200, headers, pieces: vec![body], repeat: 0 }
}

/// How much memory this process has, or with `VmHWM` has had at most, in bytes.
fn memory(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// The error of an attempt, its duration, and its memory in MiB.
async fn cost(name: &str, flood: Reply) -> (LlmError, Duration, u64) {
    // Resets the high water mark.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (began, before) = (Stopwatch::start(), memory("VmRSS"));
    let error = failure(ProviderKind::OpenAi, flood).await;
    let (took, grown) = (began.elapsed(), memory("VmHWM").saturating_sub(before) >> 20);
    println!("L8: {name}: {error} after {took:?}, memory grew by {grown} MiB");
    (error, took, grown)
}

/// 64 MiB of zeros in 64 KiB, made by `head -c 67108864 /dev/zero | gzip -9n`.
const BOMB: &[u8] = include_bytes!("recorded/zeros.gz");

#[tokio::test]
async fn l8_pages_bombs_and_nothing_are_failures() {
    for kind in ALL {
        for reply in [
            page("text/html", None, b"<html><body>502 Bad Gateway</body></html>".to_vec()),
            page("text/html", None, Vec::new()),
            page("text/event-stream", None, Vec::new()),
            page("application/octet-stream", None, vec![0; 65_536]),
            page("text/plain", None, b"data: hello\n\n".to_vec()),
            page("application/json", None, br#"{"choices":[]}"#.to_vec()),
            page("text/event-stream", Some("gzip"), BOMB.to_vec()),
            page("text/event-stream", Some("br"), vec![0xFF; 4_096]),
        ] {
            let error = failure(kind, reply.clone()).await;
            assert_eq!(error.kind, LlmErrorKind::Unavailable, "{kind:?}: {error}");
            assert!(error.message.len() <= 500, "{error}");
        }
    }
}

#[tokio::test]
async fn l8_floods_end_soon_and_cost_bounded_memory() {
    if let Some(said) = alone("model_faults::bodies::l8_floods_end_soon_and_cost_bounded_memory") {
        assert_eq!(said.matches("memory grew by").count(), 4, "each flood was measured: {said}");
        return;
    }
    let sse = || vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    let megabyte = || vec![b'x'; 1 << 20];
    let words = "x".repeat(8_192);
    let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n");
    let floods = [
        // 800 MB of whole events.
        ("whole events", Reply::Flood { code: 200, headers: sse(), pieces: vec![event.into_bytes()], repeat: 100_000 }),
        // One event of 1 GB without an end.
        (
            "one event",
            Reply::Flood { code: 200, headers: sse(), pieces: vec![b"data: \"".to_vec(), megabyte()], repeat: 1_000 },
        ),
        // 1 GB of an error, which genai reads to its end.
        (
            "an error",
            Reply::Flood { code: 500, headers: Vec::new(), pieces: vec![vec![b'x'; 1 << 16]], repeat: 1 << 14 },
        ),
        // 1 GB of a body that is no stream at all.
        ("a body", Reply::Flood { code: 200, headers: Vec::new(), pieces: vec![megabyte()], repeat: 1_000 }),
    ];
    for (name, flood) in floods {
        let (error, took, grown) = cost(name, flood).await;
        assert_eq!(error.kind, LlmErrorKind::TooLarge, "{name}: {error}");
        assert!(grown <= 128, "{name}: memory grew by {grown} MiB");
        assert!(took < Duration::from_secs(10), "{name} took {took:?}");
    }
}

/// One byte now and then keeps a connection alive and never makes an event.
#[tokio::test]
async fn l4_bytes_that_drip_are_silence() {
    let provider =
        FakeProvider::start([Reply::Pieces(vec![b"data: 1".to_vec(); 10_000]).paced(Duration::from_millis(20))]);
    let began = Stopwatch::start();
    let error = ask(&port(&provider, ProviderKind::OpenAi, 300), hello()).await.unwrap_err();
    assert_eq!(error.message, "provider fake was silent in the middle of its answer for 300 ms");
    began.assert_within(Duration::from_secs(5), "the whole body");
}
