//! The cost of reading an answer, relative to an answer of equal size in text, in one process.

use crate::model_faults::client::{ask, hello, port};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use bob_actors::llm::providers::ProviderKind::{self, Anthropic, DeepSeek, Mistral, OpenAi};
use bob_messages::llm::LlmErrorKind;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The patience with a stream, in milliseconds.
const TIMEOUT_MS: u64 = 20_000;

/// CPU time of this thread.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// The content of a stream's chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Text,
    Reasoning,
    Arguments,
}

/// A stream of this size in chunks.
fn stream(kind: ProviderKind, what: What, bytes: usize, piece: usize) -> Vec<u8> {
    let words = "x".repeat(piece);
    let event = |name: &str, data: &str| match kind {
        Anthropic => format!("event: {name}\ndata: {{\"index\":0,{data}}}\n\n"),
        _speaks_openai => format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{data}}}}}]}}\n\n"),
    };
    let (first, more, last) = match (kind, what) {
        (Anthropic, What::Text) => {
            (r#""content_block":{"type":"text"}"#, format!(r#""delta":{{"text":"{words}"}}"#), "x")
        }
        (Anthropic, What::Reasoning) => {
            (r#""content_block":{"type":"thinking"}"#, format!(r#""delta":{{"thinking":"{words}"}}"#), "x")
        }
        (Anthropic, What::Arguments) => (
            r#""content_block":{"type":"tool_use","id":"t","name":"f"}"#,
            format!(r#""delta":{{"partial_json":"{words}"}}"#),
            "x",
        ),
        (_, What::Text) => (r#""role":"assistant""#, format!(r#""content":"{words}""#), ""),
        (_, What::Reasoning) => (r#""content":"done.""#, format!(r#""reasoning":"{words}""#), ""),
        (_, What::Arguments) => (
            r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]"#,
            format!(r#""tool_calls":[{{"index":0,"function":{{"arguments":"{words}"}}}}]"#),
            "",
        ),
    };
    let end = if last.is_empty() {
        "data: [DONE]\n\n".to_owned()
    } else {
        event("content_block_stop", r#""x":1"#)
            + "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"max_tokens\"}}\n\nevent: message_stop\ndata: {}\n\n"
    };
    let more = event("content_block_delta", &more).repeat(bytes / piece);
    (event("content_block_start", first) + &more + &end).into_bytes()
}

/// The work that reading one stream is, and whether it was an answer or too large for one.
async fn cost(kind: ProviderKind, what: What, bytes: usize, piece: usize) -> (Duration, bool) {
    let provider = FakeProvider::start([Reply::Pieces(vec![stream(kind, what, bytes, piece)])]);
    let port = port(&provider, kind, TIMEOUT_MS);
    let began = worked();
    let end = ask(&port, hello()).await;
    let cost = worked().saturating_sub(began);
    let is_answer = match end {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, LlmErrorKind::TooLarge, "{kind:?} {what:?} of {bytes} in {piece}: {error}");
            false
        }
    };
    println!("L8: {kind:?}: {bytes} bytes of {what:?} in pieces of {piece}: {cost:?}, an answer: {is_answer}");
    (cost, is_answer)
}

/// How often a stream is read until its cost is in bounds: other programs take the caches of the processor, which makes a copy
/// of a megabyte cost several times as much, for a while.
const READINGS: usize = 5;

/// Arguments cost as much as text: their work grows with their size and not with its square. It was 80 times as much. genai
/// copies them at each chunk for Anthropic, which is most of the bound.
#[tokio::test]
async fn l15_arguments_and_reasoning_cost_what_text_costs() {
    for (kind, bytes, piece) in [
        (OpenAi, 6 << 20, 1 << 10),
        (OpenAi, 1 << 20, 30),
        (Anthropic, 2 << 20, 1 << 10),
        (DeepSeek, 6 << 20, 1 << 10),
        (Mistral, 1 << 20, 30),
    ] {
        for what in [What::Reasoning, What::Arguments] {
            let mut seen = Vec::new();
            loop {
                let (text, is_answer) = cost(kind, What::Text, bytes, piece).await;
                assert!(is_answer);
                let (work, is_answer) = cost(kind, what, bytes, piece).await;
                assert!(is_answer, "{kind:?} {what:?}");
                seen.push((work, text));
                if work < text * 8 {
                    break;
                }
                assert!(
                    seen.len() < READINGS,
                    "{kind:?}: {bytes} bytes of {what:?}: their cost and that of text: {seen:?}"
                );
            }
        }
    }
}

/// genai's Anthropic reader copies all arguments at every chunk: larger ones are refused early.
#[tokio::test]
async fn l15_arguments_that_cost_too_much_are_refused() {
    for piece in [1 << 10, 30] {
        let bytes = if piece == 30 { 2 << 20 } else { 7 << 20 };
        let mut seen = Vec::new();
        loop {
            let (text, _) = cost(Anthropic, What::Text, bytes, piece).await;
            let (work, is_answer) = cost(Anthropic, What::Arguments, bytes, piece).await;
            assert!(!is_answer, "{bytes} bytes in {piece}");
            seen.push((work, text));
            if work < text * 8 {
                break;
            }
            assert!(seen.len() < READINGS, "{bytes} bytes in {piece}: their cost and that of text: {seen:?}");
        }
    }
}

/// A long answer in small pieces is many times its size over the wire, and an answer.
#[tokio::test]
async fn l8_the_frames_around_a_text_do_not_count() {
    let padding = "x".repeat(800);
    let frame =
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word\"}}}}],\"p\":\"{padding}\"}}\n\n");
    let stream = (frame.repeat(12_000) + "data: [DONE]\n\n").into_bytes();
    assert!(stream.len() > 8 << 20);
    let provider = FakeProvider::start([Reply::Pieces(vec![stream])]);
    let answer = ask(&port(&provider, OpenAi, TIMEOUT_MS), hello()).await.unwrap();
    assert_eq!(answer.text.len(), 48_000);
}
