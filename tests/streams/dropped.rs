//! The effect of dropping a stream is configurable.

use bob::AgentRuntime;
use bob::events::{AgentEvent, OnDrop};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob_actors::llm::scripted::ScriptedRule;

use crate::support::runtime::{Recorder, build, over, say, session, turn, within};

fn slow() -> ScriptedLlm {
    let replies = vec![ScriptedReply::text("in the end")];
    ScriptedLlm::new(vec![ScriptedRule { when: None, replies, delay_ms: 150, stall: false }])
}

#[tokio::test]
async fn dropped_stream_follows_its_rule() {
    for (rule, expected) in [
        (None, FinishReason::Final),
        (Some(OnDrop::Detach), FinishReason::Final),
        (Some(OnDrop::Cancel), FinishReason::Cancelled),
    ] {
        let recorder = Recorder::new();
        let runtime = build(over(slow()).sink(recorder.clone())).await;
        let mut stream = within(runtime.run_stream(say("go"))).await.expect("the request is taken");
        if let Some(rule) = rule {
            stream = stream.on_drop(rule);
        }
        let turn_id = stream.turn().clone();
        while !matches!(within(stream.next_event()).await.expect("an event").event, AgentEvent::LlmRequested { .. }) {}
        drop(stream);
        recorder.seen(|event| event.is_terminal().is_some()).await;
        let events = recorder.of_turn(&turn_id);
        assert_eq!(events.last().and_then(|event| event.event.is_terminal()), Some(expected), "{rule:?}");
        assert_eq!(turn(&runtime, say("again")).await.content, "in the end", "the session goes on");
        recorder.assert_in_order();
    }
}

#[tokio::test]
async fn a_stream_read_to_its_end_cancels_nothing() {
    let recorder = Recorder::new();
    let runtime = build(over(ScriptedLlm::replies(vec![ScriptedReply::text("done")])).sink(recorder.clone())).await;
    let mut stream = within(runtime.run_stream(say("one"))).await.unwrap().on_drop(OnDrop::Cancel);
    while within(stream.next()).await.is_some() {}
    let next = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("two")).await }
    });
    drop(stream);
    assert_eq!(within(next).await.unwrap().finish_reason, FinishReason::Final);
    assert!(!within(runtime.cancel(session("s"))).await);
}

#[tokio::test]
async fn a_refused_request_has_a_stream_without_events() {
    let runtime = build(over(slow())).await;
    let refused = within(runtime.run_stream(say(""))).await;
    assert!(refused.is_err(), "a request that is wrong in itself is refused before there is a stream");
    within(runtime.shutdown()).await;
    let mut stream = within(runtime.run_stream(say("hello?"))).await.expect("a stream");
    assert!(within(stream.next_event()).await.is_none());
    assert!(matches!(stream.ended(), Some(Err(_))), "{:?}", stream.ended());
}
