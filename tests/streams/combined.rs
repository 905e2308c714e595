//! Readers of events as streams, for the combinators of other crates.

use bob::AgentRuntime;
use bob::events::{AgentEvent, AgentStreamEvent, EventsFrom};
use bob::model::ScriptedReply;
use futures_util::StreamExt;

use crate::support::runtime::{build, say, scripted, session, within};

#[tokio::test]
async fn a_turn_is_a_stream_of_its_events_and_ends() {
    let runtime = build(scripted(vec![ScriptedReply::text("hello")])).await;
    let by_hand = {
        let mut stream = within(runtime.run_stream(say("one"))).await.unwrap();
        let mut kinds = Vec::new();
        while let Some(item) = within(stream.next()).await {
            kinds.push(std::mem::discriminant(&item.event));
        }
        kinds
    };
    let stream = within(runtime.run_stream(say("two"))).await.unwrap();
    let items: Vec<_> = within(StreamExt::collect(stream)).await;
    assert_eq!(items.iter().map(|item| std::mem::discriminant(&item.event)).collect::<Vec<_>>(), by_hand);
    assert!(matches!(&items.last().unwrap().event, AgentStreamEvent::Finished { .. }), "{:?}", items.last());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn the_events_of_a_session_are_a_stream_that_ends_with_the_runtime() {
    let runtime = build(scripted(vec![ScriptedReply::text("hello")])).await;
    within(runtime.run(say("one"))).await.unwrap();
    // One that reads the journal, and one that only waits, each polled by the combinators of another crate.
    let late = within(runtime.subscribe(session("s"), EventsFrom::Beginning)).await.unwrap();
    let live = within(runtime.subscribe(session("s"), EventsFrom::Now)).await.unwrap();
    let ends = |event: &AgentEvent| matches!(event, AgentEvent::TurnFinished { .. });
    let read = tokio::spawn(
        futures_util::stream::select(late.map(|event| (true, event)), live.map(|event| (false, event)))
            .collect::<Vec<_>>(),
    );
    within(runtime.run(say("two"))).await.unwrap();
    within(runtime.shutdown()).await;
    let read = within(read).await.unwrap();
    let finished = |of_late| {
        let of = |(is_late, event): &&(bool, Result<_, _>)| {
            *is_late == of_late
                && event.as_ref().is_ok_and(|event: &std::sync::Arc<bob::events::Envelope>| ends(&event.event))
        };
        read.iter().filter(of).count()
    };
    assert_eq!((finished(true), finished(false)), (2, 1));
}
