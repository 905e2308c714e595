//! Started first, numbered by one, finished last and once.

use std::sync::Arc;

use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime};
use serde_json::json;

use crate::support::runtime::{Nothing, Recorder, assert_in_order, build, over, say, scripted, session, turn, within};

fn kind(event: &AgentEvent) -> String {
    serde_json::to_value(event).expect("JSON")["type"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_events_of_a_turn_read_as_its_walk() {
    let quick = tool("test/quick", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) });
    let replies = vec![ScriptedReply::call("test/quick", json!({})), ScriptedReply::text("one two")];
    let runtime = build(scripted(replies).tools(Arc::new(quick))).await;
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = within(stream.next_event()).await {
        events.push((*event).clone());
    }
    assert!(within(stream.next_event()).await.is_none(), "nothing comes after the end");
    let kinds: Vec<_> = events.iter().map(|event| kind(&event.event)).collect();
    let expected = [
        "turn.started",
        "message.user",
        "prompt.built",
        "llm.requested",
        "llm.completed",
        "action.parsed",
        "tool.called",
        "tool.called",
        "tool.completed",
        "prompt.built",
        "llm.requested",
        "llm.stream.chunk",
        "llm.completed",
        "action.parsed",
        "message.assistant",
        "turn.finished",
    ];
    let mut joined = kinds.clone();
    // How many pieces wait for the reader together depends on when it reads.
    joined.dedup_by(|next, before| next == before && next == "llm.stream.chunk");
    assert_eq!(joined, expected);
    let first = events.first().map(|event| event.seq);
    let last = events.last().map(|event| event.seq);
    assert!(first == Some(1) && last >= Some(expected.len() as u64), "{first:?} {last:?}");
    assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq && pair[0].trace_id == pair[1].trace_id));
}

#[tokio::test]
async fn a_sink_sees_each_turn_of_many_sessions_in_order() {
    let recorder = Recorder::new();
    let runtime = build(scripted(vec![ScriptedReply::text("one two three")]).sink(recorder.clone())).await;
    let turns = (0..20).map(|number| {
        let (runtime, id) = (runtime.clone(), session(&format!("s{}", number % 4)));
        async move { turn(&runtime, AgentRequest::text(id, "go")).await }
    });
    for outcome in futures_util::future::join_all(turns).await {
        assert_eq!(outcome.finish_reason, FinishReason::Final);
        assert_in_order(&recorder.of_turn(&outcome.turn_id));
    }
}

#[tokio::test]
async fn a_repeated_request_ends_its_stream_and_no_turn() {
    let recorder = Recorder::new();
    let runtime = build(scripted(vec![ScriptedReply::text("once")]).sink(recorder.clone())).await;
    let request = || AgentRequest { request_id: Some(RequestId::new("r1")), ..say("go") };
    let first = turn(&runtime, request()).await;
    let mut stream = within(runtime.run_stream(request())).await.unwrap();
    let only = within(stream.next_event()).await.expect("the first outcome");
    assert_eq!(only.event.is_terminal(), Some(FinishReason::Final));
    assert_eq!(only.turn_id.as_ref(), Some(&first.turn_id));
    assert!(within(stream.next_event()).await.is_none());
    assert_eq!(recorder.ends(&first.turn_id), 1, "its end was announced once");
    recorder.assert_in_order();
}

#[tokio::test]
async fn o3_a_reader_that_never_reads_slows_nobody_and_still_gets_the_end() {
    // Steps with calls make states, which are not joined; the reader reads none of them.
    let model = ScriptedLlm::from_fn(|request| match request.step {
        step if step <= 200 => ScriptedReply::call("test/quick", json!({"n": step})),
        _ => ScriptedReply::text("done"),
    });
    let quick = tool("test/quick", "Returns.", |_: serde_json::Map<String, serde_json::Value>, _| async move {
        Ok(ToolOutput::text("ok"))
    });
    let runtime = build(over(model).tools(Arc::new(quick.read_only()))).await;
    let limits = bob::config::Limits { max_steps: 300, max_tool_calls: 300, ..bob::config::Limits::default() };
    let stream = within(runtime.run_stream(AgentRequest { limits: Some(limits), ..say("go") })).await.unwrap();
    within(async {
        while runtime.health().await.live_sessions == 0 || runtime.records(session("s")).await.unwrap().len() < 400 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let outcome = within(stream.finish()).await.expect("the outcome");
    assert_eq!((outcome.response().content.as_str(), outcome.response().steps), ("done", 201));
}
