//! Any number of readers of one session: rebuilt, then live, each event once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::config::Limits;
use bob::events::{AgentEvent, AgentEvents, Envelope, EventsFrom};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, Runtime};
use bob_messages::event::CallState;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::runtime::{Nothing, build, ended, file_store, over, say, scripted, session, turn, within};
use crate::support::scratch::Scratch;

pub(super) async fn subscribe(runtime: &Runtime, from: EventsFrom) -> AgentEvents {
    within(runtime.subscribe(session("s"), from)).await.expect("a reader")
}

/// Reads until that many turns have ended.
pub(super) async fn read(events: &mut AgentEvents, turns: usize) -> Vec<Arc<Envelope>> {
    let (mut read, mut ends) = (Vec::new(), 0);
    while ends < turns {
        let event = within(events.next()).await.expect("the runtime runs").expect("the journal can be read");
        ends += usize::from(matches!(event.event, AgentEvent::TurnFinished { .. }));
        read.push(event);
    }
    read
}

/// The events that the journal contains, in order.
pub(super) fn durable(events: &[Arc<Envelope>]) -> Vec<String> {
    let name = |told: &Envelope| {
        let event = &told.event;
        let value = serde_json::to_value(event).unwrap();
        let kind = value["type"].as_str().unwrap().to_owned();
        let is_live = match event {
            AgentEvent::ToolCalled { state, .. } => *state != CallState::Proposed,
            _ => ["prompt.built", "llm.requested", "llm.stream.chunk", "llm.retried"].contains(&kind.as_str()),
        };
        let step = told.step.map(|step| format!(" {step}")).unwrap_or_default();
        let call = event.call().map(|call| format!(" {call}")).unwrap_or_default();
        let said = ["message_id", "parts", "text", "steered", "title", "kind"].map(|key| value[key].to_string());
        (!is_live).then(|| format!("{kind}{step}{call} {} {:?}", said.join(" "), told.epoch))
    };
    events.iter().filter_map(|event| name(event)).collect()
}

#[track_caller]
pub(super) fn assert_numbered(events: &[Arc<Envelope>]) {
    let mut number = 0;
    for event in events {
        number = if matches!(event.event, AgentEvent::TurnStarted { .. }) { 1 } else { number + 1 };
        assert_eq!(event.seq, number, "{event:?}");
    }
}

fn steps(count: u32) -> ScriptedLlm {
    ScriptedLlm::from_fn(move |request| match request.step {
        step if step <= count => ScriptedReply::call("test/quick", json!({"n": step})),
        _ => ScriptedReply::text("one two three"),
    })
}

fn quick() -> bob::tools::FnTool {
    tool("test/quick", "Returns.", |_: serde_json::Map<String, serde_json::Value>, _| async move {
        // Gives way, so that readers come in at every place.
        tokio::task::yield_now().await;
        Ok(ToolOutput::text("ok"))
    })
    .read_only()
}

fn long(steps: u32) -> AgentRequest {
    let limits = Limits { max_steps: steps + 2, max_tool_calls: steps + 2, ..Limits::default() };
    AgentRequest { limits: Some(limits), ..say("go") }
}

#[tokio::test]
async fn readers_that_come_in_at_any_moment_of_a_turn_read_the_same() {
    let runtime = build(over(steps(40)).tools(Arc::new(quick()))).await;
    let mut first = subscribe(&runtime, EventsFrom::Beginning).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, long(40)).await }
    });
    let mut readers = Vec::new();
    while !running.is_finished() {
        readers.push(subscribe(&runtime, EventsFrom::Beginning).await);
        tokio::task::yield_now().await;
    }
    readers.push(subscribe(&runtime, EventsFrom::Beginning).await);
    within(running).await.unwrap();
    let live = read(&mut first, 1).await;
    assert_numbered(&live);
    let expected = durable(&live);
    assert_eq!(expected.len(), 2 + 40 * 4 + 3 + 1);
    let mut rebuilt_in_part = 0;
    for mut reader in readers {
        let events = read(&mut reader, 1).await;
        assert_eq!(durable(&events), expected);
        assert_numbered(&events);
        rebuilt_in_part += usize::from(events.len() > expected.len() && events.len() < live.len());
    }
    assert!(rebuilt_in_part > 0, "some came in the middle");
}

#[tokio::test]
async fn a_reader_begins_where_it_says() {
    let runtime = build(scripted(vec![ScriptedReply::text("one")])).await;
    let first = turn(&runtime, say("one")).await;
    let second = turn(&runtime, say("two")).await;
    let of = |events: &[Arc<Envelope>]| -> Vec<_> { events.iter().filter_map(|event| event.turn_id.clone()).collect() };

    let all = read(&mut subscribe(&runtime, EventsFrom::Beginning).await, 2).await;
    assert_eq!(durable(&all).len(), 12);
    let later = read(&mut subscribe(&runtime, EventsFrom::Turn(second.turn_id.clone())).await, 1).await;
    assert!(of(&later).iter().all(|turn| *turn == second.turn_id) && later == all[6..], "{later:#?}");
    let records = within(runtime.records(session("s"))).await.unwrap();
    let version = records.iter().rfind(|record| record.turn.as_ref() == Some(&first.turn_id)).unwrap().version;
    assert_eq!(read(&mut subscribe(&runtime, EventsFrom::Version(version)).await, 1).await, later);

    let mut now = subscribe(&runtime, EventsFrom::Now).await;
    let third = turn(&runtime, say("three")).await;
    let live = read(&mut now, 1).await;
    assert!(of(&live).iter().all(|turn| *turn == third.turn_id), "{live:#?}");
    let nobody = within(runtime.subscribe(session("s"), EventsFrom::Turn(bob::sessions::TurnId::new("nobody")))).await;
    assert!(matches!(nobody, Err(bob::AgentError::Invalid(_))), "{nobody:?}");

    let mut early = within(runtime.subscribe(session("later"), EventsFrom::Beginning)).await.unwrap();
    turn(&runtime, AgentRequest::text(session("later"), "hi")).await;
    assert_numbered(&read(&mut early, 1).await);
    within(runtime.shutdown()).await;
    assert!(within(now.next()).await.is_none(), "the runtime has ended");
}

#[tokio::test]
async fn another_process_rebuilds_what_the_first_one_told() {
    let folder = Scratch::new();
    let runtime = build(over(steps(3)).tools(Arc::new(quick())).store(file_store(folder.path()))).await;
    let mut live = subscribe(&runtime, EventsFrom::Now).await;
    turn(&runtime, say("go")).await;
    let live = read(&mut live, 1).await;
    ended(runtime).await;
    let next = build(over(steps(3)).tools(Arc::new(quick())).store(file_store(folder.path()))).await;
    let rebuilt = read(&mut subscribe(&next, EventsFrom::Beginning).await, 1).await;
    assert_eq!(durable(&rebuilt), durable(&live));
    assert_eq!(rebuilt[0].trace_id, live[0].trace_id);
    let mut again = subscribe(&next, EventsFrom::Now).await;
    turn(&next, say("and on")).await;
    let again = read(&mut again, 1).await;
    let epochs = |events: &[Arc<Envelope>]| events.iter().map(|event| event.epoch).collect::<BTreeSet<_>>();
    assert_eq!((epochs(&live), epochs(&again)), ([Some(1)].into(), [Some(2)].into()), "all events have it");
}

#[tokio::test]
async fn o3_a_reader_that_fell_behind_joins_again_and_misses_nothing_the_journal_tells() {
    let runtime = build(over(steps(300)).tools(Arc::new(quick()))).await;
    let mut slow = subscribe(&runtime, EventsFrom::Now).await;
    let mut dropped = subscribe(&runtime, EventsFrom::Now).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, long(300)).await }
    });
    // It reads a little, then nothing until the turn is over.
    let mut events = Vec::new();
    for _ in 0..10 {
        events.push(within(slow.next()).await.unwrap().unwrap());
    }
    within(dropped.next()).await.unwrap().unwrap();
    drop(dropped);
    let outcome = within(running).await.unwrap();
    assert_eq!((outcome.content.as_str(), outcome.steps), ("one two three", 301), "nobody waited for it");
    events.extend(read(&mut slow, 1).await);
    assert_numbered(&events);
    let prompts = events.iter().filter(|event| matches!(event.event, AgentEvent::PromptBuilt { .. })).count();
    assert!(prompts < 301, "it did fall behind");
    let all = read(&mut subscribe(&runtime, EventsFrom::Beginning).await, 1).await;
    assert_eq!(durable(&events), durable(&all));
}

#[tokio::test]
async fn a_reader_sees_a_call_with_its_end_and_where_it_stands() {
    let let_go = Arc::new(Notify::new());
    let held = Arc::clone(&let_go);
    let gated = tool("test/gated", "Returns when it is let.", move |_: Nothing, _| {
        let held = Arc::clone(&held);
        async move {
            held.notified().await;
            Ok(ToolOutput::text("ok"))
        }
    });
    let replies = vec![ScriptedReply::call("test/gated", json!({})), ScriptedReply::text("done")];
    let runtime = build(scripted(replies).tools(Arc::new(gated))).await;
    let parent = bob_messages::options::ParentTurn {
        session: session("mother"),
        turn: bob::sessions::TurnId::new("m1"),
        call: bob_messages::ids::CallId::new("c1"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    let options =
        bob::sessions::SessionOptions { parent: Some(parent.clone()), ..bob::sessions::SessionOptions::default() };
    let mut stream = within(runtime.run_stream(AgentRequest { options: Some(options), ..say("go") })).await.unwrap();
    let mut states = Vec::new();
    while let Some(item) = within(stream.next()).await {
        assert_eq!(item.parent.as_ref(), Some(&parent));
        if let bob::events::AgentStreamEvent::ToolCall { call, state, output, .. } = item.event {
            assert_eq!((item.step, item.call_id.as_ref()), (Some(1), Some(&call.id)));
            assert_eq!((call.name.as_str(), output.is_some()), ("test/gated", state == CallState::Finished));
            let_go.notify_one();
            states.push(state);
        }
    }
    assert_eq!(states, [CallState::Proposed, CallState::Running, CallState::Finished]);
}

/// A value without the ids and times in it.
fn plain(value: &mut serde_json::Value) {
    const IDS_AND_TIMES: [&str; 9] =
        ["id", "turn", "request_id", "at", "token", "submission", "latency_ms", "duration_ms", "expires_at"];
    match value {
        serde_json::Value::Object(keys) => {
            keys.retain(|key, _| !IDS_AND_TIMES.contains(&key.as_str()));
            keys.values_mut().for_each(plain);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

fn journal(records: &[Arc<bob::store::Record>]) -> Vec<serde_json::Value> {
    let mut all: Vec<_> = records.iter().map(|record| serde_json::to_value(&**record).unwrap()).collect();
    all.iter_mut().for_each(plain);
    all
}

#[tokio::test]
async fn run_and_run_stream_give_the_same_journal() {
    let scripts = [
        vec![ScriptedReply::text("one two")],
        vec![ScriptedReply::call("test/quick", json!({"n": 1})), ScriptedReply::text("done")],
        vec![ScriptedReply::call("test/nothing", json!({})), ScriptedReply::text("so")],
        vec![ScriptedReply::call("test/quick", json!({}))],
        vec![ScriptedReply::Error(bob::model::LlmErrorKind::Rejected)],
        vec![ScriptedReply::call("ask_user", json!({"question": "which?"})), ScriptedReply::text("red then")],
    ];
    for script in scripts {
        let mut journals = Vec::new();
        for streamed in [false, true] {
            let runtime = build(scripted(script.clone()).tools(Arc::new(quick()))).await;
            for text in ["go", "and on"] {
                if streamed {
                    let stream = within(runtime.run_stream(say(text))).await.unwrap();
                    within(stream.finish()).await.expect("an outcome");
                } else {
                    within(runtime.run(say(text))).await.expect("an outcome");
                }
            }
            journals.push(journal(&within(runtime.records(session("s"))).await.unwrap()));
        }
        assert_eq!(journals[0], journals[1], "{script:?}");
        assert!(journals[0].len() > 5, "{:#?}", journals[0]);
    }
}

#[tokio::test]
async fn a_call_that_tells_its_progress_is_seen_ten_times_a_second_at_most() {
    let read = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&read);
    let slow = tool("test/slow", "Tells how far it is.", move |_: Nothing, call| {
        let told = Arc::clone(&told);
        async move {
            let (progress, mut done) = (call.progress(), 0);
            while told.load(Ordering::Relaxed) < 4 {
                done += 1;
                progress.tell(f64::from(done), None, Some("counting"));
                tokio::task::yield_now().await;
            }
            Ok(ToolOutput::text("ok"))
        }
    });
    let replies = vec![ScriptedReply::call("test/slow", json!({})), ScriptedReply::text("done")];
    let runtime = build(scripted(replies).tools(Arc::new(slow))).await;
    let began = std::time::Instant::now();
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap();
    let (mut seen, mut titles) = (Vec::new(), Vec::new());
    while let Some(item) = within(stream.next()).await {
        if let bob::events::AgentStreamEvent::ToolCall { state, title, progress, .. } = item.event {
            titles.push(title);
            read.fetch_add(usize::from(progress.is_some()), Ordering::Relaxed);
            seen.extend(progress.map(|progress| (state, progress.done, progress.message)));
        }
    }
    let tenths = began.elapsed().as_millis() as usize / 100;
    assert!(titles.iter().all(|title| title == "slow"), "{titles:?}");
    assert!(seen.len() >= 4 && seen.len() <= tenths + 1, "{tenths} tenths of a second: {seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "{seen:?}");
    assert!(seen.iter().all(|(state, _, text)| (*state, text.as_deref()) == (CallState::Progress, Some("counting"))));
}
