//! Text and reasoning as they arrive over HTTP, and resets.

use bob::events::{AgentStreamEvent, StreamItem};
use bob::{AgentRuntime, Runtime};

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{KINDS, build, provided, provided_in_json, say, within};

async fn items(runtime: &Runtime) -> Vec<StreamItem> {
    let mut stream = within(runtime.run_stream(say("go"))).await.expect("the request is taken");
    let mut items = Vec::new();
    while let Some(item) = within(stream.next()).await {
        items.push(item);
    }
    assert!(matches!(items.last().map(|item| &item.event), Some(AgentStreamEvent::Finished { .. })), "{items:#?}");
    items
}

fn text(items: &[StreamItem]) -> String {
    items
        .iter()
        .filter_map(|item| match &item.event {
            AgentStreamEvent::TextDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn words_and_thoughts_arrive_apart() {
    for kind in KINDS {
        let thinks = Reply::Reasoning { thought: "let me see".into(), text: "Hello there.".into(), calls: Vec::new() };
        let provider = FakeProvider::start([thinks]);
        let runtime = build(provided(&provider, kind)).await;
        let items = items(&runtime).await;
        let thoughts: String = items
            .iter()
            .filter_map(|item| match &item.event {
                AgentStreamEvent::ReasoningDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!((thoughts.as_str(), text(&items).as_str()), ("let me see", "Hello there."), "{kind:?}");
    }
}

#[tokio::test]
async fn json_mode_shows_the_content_and_never_the_envelope() {
    for kind in KINDS {
        let provider = FakeProvider::start([Reply::text(r#"{"type":"final","content":"A \"quoted\" word."}"#)]);
        let runtime = build(provided_in_json(&provider, kind)).await;
        assert_eq!(text(&items(&runtime).await), "A \"quoted\" word.", "{kind:?}");
    }
}

#[tokio::test]
async fn words_of_a_cut_stream_are_taken_back_before_the_next_attempt() {
    for kind in KINDS {
        let cut = Reply::text("one two three four").end_after(5);
        let provider = FakeProvider::start([cut, Reply::text("Now whole.")]);
        let runtime = build(provided(&provider, kind)).await;
        let items = items(&runtime).await;
        let reset = items.iter().position(|item| matches!(item.event, AgentStreamEvent::TextReset { .. }));
        let reset = reset.expect("what was shown is taken back");
        assert!(!text(&items[..reset]).is_empty(), "{kind:?}: something had been shown");
        assert_eq!(text(&items[reset..]), "Now whole.", "{kind:?}");
        let Some(AgentStreamEvent::Finished { outcome }) = items.last().map(|item| &item.event) else { unreachable!() };
        assert_eq!((outcome.content.as_str(), outcome.steps), ("Now whole.", 1), "a request is retried, never a turn");
    }
}
