//! Readers see what they were there for, and nothing that they could not understand.

use super::*;
use crate::feed::Subscription;
use crate::llm::testing::plain_request;
use futures_util::FutureExt;

fn sink(mode: ToolMode) -> (Arc<Feed>, DeltaSink) {
    let feed = Feed::new(Vec::new());
    let request = Arc::new(LlmRequest { mode, ..plain_request(Vec::new()) });
    (Arc::clone(&feed), DeltaSink::new(feed, request, SoFar::default()))
}

fn watch(feed: &Arc<Feed>) -> Subscription {
    feed.subscribe(&plain_request(Vec::new()).session)
}

fn seen(reader: &mut Subscription) -> Vec<Delta> {
    std::iter::from_fn(|| {
        let told = reader.next().now_or_never()?.ok()?;
        match &told.event {
            AgentEvent::LlmStreamChunk { delta, message_id } if message_id == "t-1" && told.step == Some(1) => {
                Some(delta.clone())
            }
            _ => panic!("not a piece of this message: {told:?}"),
        }
    })
    .collect()
}

#[test]
fn who_comes_late_sees_the_rest_of_a_text_and_nothing_of_an_envelope() {
    for (mode, expected) in [(ToolMode::Native, vec![Delta::Text("b\"}".into())]), (ToolMode::Json, Vec::new())] {
        let (feed, deltas) = sink(mode);
        assert!(!deltas.is_read());
        deltas.text(r#"{"type":"final","content":"a"#);
        let mut reader = watch(&feed);
        assert!(deltas.is_read());
        deltas.text("b\"}");
        deltas.end();
        assert_eq!(seen(&mut reader), expected, "{mode:?}");
    }
}

#[test]
fn only_what_was_shown_is_taken_back() {
    let (feed, deltas) = sink(ToolMode::Json);
    let mut reader = watch(&feed);
    deltas.text(r#"{"type":"tool_call","name":"x"#);
    deltas.reset();
    assert_eq!(seen(&mut reader), []);
    deltas.text(r#"{"type":"final","content":"half"#);
    deltas.reset();
    deltas.text(r#"{"type":"final","content":"whole"}"#);
    let shown = [Delta::Text("half".into()), Delta::Reset, Delta::Text("whole".into())];
    assert_eq!(seen(&mut reader), shown);
}

#[test]
fn what_is_seen_is_kept_and_nothing_is_seen_that_comes_after_the_end() {
    for (mode, begins) in [(ToolMode::Native, ""), (ToolMode::Json, r#"{"type":"final","content":""#)] {
        let (feed, kept) = (Feed::new(Vec::new()), SoFar::kept());
        let request = Arc::new(LlmRequest { mode, ..plain_request(Vec::new()) });
        let deltas = DeltaSink::new(Arc::clone(&feed), request, kept.clone());
        let mut reader = watch(&feed);
        deltas.text(&format!("{begins}taken back"));
        deltas.reset();
        deltas.text(&format!("{begins}one "));
        deltas.text("two");
        assert_eq!(kept.end().as_deref(), Some("one two"), "{mode:?}");
        deltas.text(" three");
        let shown = [Delta::Text("taken back".into()), Delta::Reset, Delta::Text("one two".into())];
        assert_eq!(seen(&mut reader), shown, "{mode:?}");
    }
}

#[test]
fn thoughts_are_shown_as_thoughts_in_either_mode() {
    for mode in [ToolMode::Native, ToolMode::Json] {
        let (feed, deltas) = sink(mode);
        let mut reader = watch(&feed);
        deltas.reasoning("hm");
        assert_eq!(seen(&mut reader), [Delta::Reasoning("hm".into())]);
    }
}

#[test]
fn a_sink_nobody_reads_takes_everything() {
    let deltas = DeltaSink::unread();
    deltas.text("a");
    deltas.reasoning("b");
    deltas.reset();
    deltas.end();
    assert!(!deltas.is_read());
}
