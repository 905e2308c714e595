//! The whole room at work: an LlmActor, real sockets, a reader of the feed.

use crate::model_wire::client::{ALL, DEADLINE, hello, port};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use bob_actors::feed::{Feed, Subscription};
use bob_actors::llm::providers::ProviderKind;
use bob_actors::llm::{LlmActor, LlmArguments, RetryPolicy};
use bob_messages::backoff::Backoff;
use bob_messages::event::{AgentEvent, Delta};
use bob_messages::llm::{LlmAnswer, LlmError, LlmErrorKind, LlmMessage};
use bob_messages::reply::{Answer, Reply as To};
use ractor::{Actor, ActorRef};
use std::sync::Arc;

struct Room {
    actor: ActorRef<LlmMessage>,
    reader: Subscription,
}

async fn room(provider: &FakeProvider, kind: ProviderKind) -> Room {
    let feed = Feed::new(Vec::new());
    let reader = feed.subscribe(&hello().session);
    let retry = RetryPolicy { max: 2, backoff: Backoff { first_ms: 1, most_ms: 2 } };
    let arguments = LlmArguments::new(Arc::new(port(provider, kind, 10_000)), feed, retry);
    let (actor, _joined) = Actor::spawn(None, LlmActor, arguments).await.unwrap();
    Room { actor, reader }
}

impl Room {
    fn infer(&self) -> Answer<Result<Arc<LlmAnswer>, LlmError>> {
        let (reply, answer) = To::channel();
        let message = LlmMessage::Infer { request: Arc::new(hello()), remaining_ms: 90_000, reply };
        self.actor.send_message(message).unwrap();
        answer
    }

    async fn ask(&self) -> Result<Arc<LlmAnswer>, LlmError> {
        tokio::time::timeout(DEADLINE, self.infer()).await.expect("an answer in time").expect("an answer")
    }

    /// Returns the text seen by readers, joined; waits for `last`.
    async fn shown(&mut self, last: &str) -> Vec<String> {
        let mut shown: Vec<String> = Vec::new();
        let read = async {
            while shown.last().is_none_or(|seen| seen != last) {
                match &self.reader.next().await.unwrap().event {
                    AgentEvent::LlmStreamChunk { delta: Delta::Text(text), .. } => match shown.last_mut() {
                        Some(seen) if last.starts_with(&format!("{seen}{text}")) => seen.push_str(text),
                        _first_piece => shown.push(text.clone()),
                    },
                    AgentEvent::LlmStreamChunk { delta: Delta::Reasoning(_), .. } => {}
                    AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. } => shown.push("reset".into()),
                    AgentEvent::LlmRetried { attempt, reason, .. } => shown.push(format!("retry {attempt}: {reason}")),
                    other => panic!("nobody else tells anything here: {other:?}"),
                }
            }
        };
        tokio::time::timeout(DEADLINE, read).await.expect("all of it is shown");
        shown
    }
}

#[tokio::test]
async fn text_is_shown_as_it_arrives() {
    for kind in ALL {
        let provider = FakeProvider::start([Reply::text("Hello there").paced(std::time::Duration::from_millis(5))]);
        let mut room = room(&provider, kind).await;
        let answer = room.infer();
        assert_eq!(room.shown("Hello there").await, ["Hello there"], "{kind:?}");
        assert_eq!(answer.await.unwrap().unwrap().text, "Hello there");
    }
}

/// Gemini sends a status in its stream.
fn said_in_stream(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Gemini => "HTTP 503 from provider fake: the provider failed: try again later",
        _says_no_status => "provider fake reported an error in the middle of its answer",
    }
}

#[tokio::test]
async fn l1_l5_l7_busy_and_broken_providers_are_asked_again() {
    for kind in ALL {
        for (first, reason) in [
            (Reply::too_many_requests("0"), "HTTP 429 from provider fake: too many requests: try again later"),
            (Reply::status(500), "HTTP 500 from provider fake: the provider failed: try again later"),
            (Reply::ErrorBody200, said_in_stream(kind)),
            (Reply::Raw(Vec::new()), "provider fake broke the connection in the middle of its answer"),
        ] {
            let provider = FakeProvider::start([first, Reply::text("fine")]);
            let mut room = room(&provider, kind).await;
            assert_eq!(room.ask().await.unwrap().text, "fine");
            let mut shown = room.shown("fine").await;
            // The provider's message follows ours.
            if let Some((ours, _said)) = shown[0].split_once("; it said: ") {
                shown[0] = ours.to_owned();
            }
            assert_eq!(shown, [format!("retry 1: {reason}"), "fine".to_owned()], "{kind:?}");
            assert_eq!(provider.requests().len(), 2);
        }
    }
}

#[tokio::test]
async fn l5_text_that_was_shown_is_taken_back_before_the_next_attempt() {
    for kind in ALL {
        // Enough for some text, but not for its end.
        let chunks = if kind == ProviderKind::Gemini { 2 } else { 4 };
        let provider = FakeProvider::start([Reply::text("Hello there").end_after(chunks), Reply::text("Goodbye")]);
        let mut room = room(&provider, kind).await;
        assert_eq!(room.ask().await.unwrap().text, "Goodbye");
        let shown = room.shown("Goodbye").await;
        let reset = shown.iter().position(|seen| seen == "reset").expect("a reset");
        assert!(reset > 0 && shown[reset + 1].starts_with("retry 1: provider fake ended"), "{shown:?}");
        assert_eq!(shown.last().map(String::as_str), Some("Goodbye"));
    }
}

#[tokio::test]
async fn l10_a_refusal_for_good_is_one_request() {
    for (reply, kind) in [
        (Reply::status(400), LlmErrorKind::Rejected),
        (Reply::status(401), LlmErrorKind::Unauthorized),
        (Reply::status(404), LlmErrorKind::UnknownModel),
    ] {
        let provider = FakeProvider::repeating([reply]);
        let room = room(&provider, ProviderKind::OpenAi).await;
        assert_eq!(room.ask().await.unwrap_err().kind, kind);
        assert_eq!(provider.requests().len(), 1);
    }
}

#[tokio::test]
async fn l1_three_failures_are_enough() {
    let provider = FakeProvider::repeating([Reply::status(503)]);
    let room = room(&provider, ProviderKind::Anthropic).await;
    assert_eq!(room.ask().await.unwrap_err().status, Some(503));
    assert_eq!(provider.requests().len(), 3);
}

#[tokio::test]
async fn abandoning_a_call_closes_its_connection() {
    let provider = FakeProvider::start([Reply::Silence]);
    let room = room(&provider, ProviderKind::OpenAi).await;
    let answer = room.infer();
    tokio::time::timeout(DEADLINE, provider.wait_requests(1)).await.expect("the request");
    drop(answer);
    tokio::time::timeout(DEADLINE, provider.wait_closed_early(1)).await.expect("the connection is closed");
}
