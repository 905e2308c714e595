//! A reader sees one stream of its session, whichever of two runtimes with the same store runs its turns.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bob::events::{AgentEvent, AgentEvents, Envelope, EventsFrom};
use bob::model::{ProviderLimits, ScriptedLlm, ScriptedReply, ScriptedRule};
use bob::sessions::FinishReason;
use bob::store::{SessionStore, StoreError, StoreOptions};
use bob::tools::{FnTool, ToolOutput, tool};
use bob::{AgentError, AgentRuntime, Runtime};
use bob_drill::store::{Fault, FaultStore, Operation};
use bob_messages::event::Delta;
use serde_json::json;
use tokio::sync::Notify;

use super::subscribe::{assert_numbered, durable, read, subscribe};
use crate::support::runtime::{Nothing, build, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

/// Opens one more store at the same place, as another process does.
type Open = Box<dyn Fn(bool) -> Arc<dyn SessionStore>>;

fn options(take_over: bool) -> StoreOptions {
    StoreOptions { take_over, ..StoreOptions::default() }
}

fn in_folder(folder: &Path) -> Open {
    let path = folder.join("sessions.db");
    Box::new(move |take_over| bob::store::SqliteStore::open(&path, options(take_over)).unwrap())
}

/// Runs a test with a database in a folder, and with PostgreSQL where there is one.
#[cfg_attr(not(feature = "postgres"), allow(unused_variables, reason = "only its database is named"))]
async fn at_each_place<F: Future<Output = ()>>(name: &str, test: impl Fn(Open) -> F) {
    let scratch = Scratch::new();
    test(in_folder(scratch.path())).await;
    #[cfg(feature = "postgres")]
    if let Some(database) = crate::scale::database::Database::new(name) {
        let url = database.url();
        test(Box::new(move |take_over| bob::store::PostgresStore::open(&url, options(take_over)).unwrap())).await;
    }
}

fn quick() -> FnTool {
    tool("test/quick", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) }).read_only()
}

async fn with_a_call(store: Arc<dyn SessionStore>) -> Runtime {
    let model =
        ScriptedLlm::replies(vec![ScriptedReply::call("test/quick", json!({})), ScriptedReply::text("one two")]);
    build(over(model).tools(Arc::new(quick())).store(store)).await
}

fn is_live(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::LlmRequested { .. }) || is_live_text(event)
}

fn is_live_text(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::LlmStreamChunk { .. })
}

fn count(events: &[Arc<Envelope>], is_one: impl Fn(&AgentEvent) -> bool) -> usize {
    events.iter().filter(|event| is_one(&event.event)).count()
}

fn is_reset(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. })
}

/// The one epoch of all these.
#[track_caller]
fn epoch_of(events: &[Arc<Envelope>]) -> Option<u64> {
    let epoch = events[0].epoch;
    assert!(epoch.is_some() && events.iter().all(|event| event.epoch == epoch), "{events:#?}");
    epoch
}

/// One turn. A runtime has let a session go a moment before its store has given it back.
async fn turn_once_free(runtime: &Runtime) {
    within(async {
        while let Err(error) = runtime.run(say("go")).await {
            assert!(matches!(error, AgentError::Busy { .. }), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// What is left when the runtime ends.
async fn rest(mut events: AgentEvents) -> Vec<Arc<Envelope>> {
    let mut all = Vec::new();
    while let Some(event) = within(events.next()).await {
        all.push(event.expect("the journal can be read"));
    }
    all
}

#[tokio::test]
async fn a_reader_sees_the_turns_of_another_runtime_and_those_of_its_own_each_event_once() {
    at_each_place("a_reader_sees_the_turns_of_another_runtime", |open| async move {
        let (here, there) = (with_a_call(open(false)).await, with_a_call(open(false)).await);
        let mut reader = subscribe(&here, EventsFrom::Now).await;
        let mut all = Vec::new();
        for round in 0..5 {
            let (runs, is_here) = if round % 2 == 1 { (&here, true) } else { (&there, false) };
            let mut beside = subscribe(runs, EventsFrom::Now).await;
            turn_once_free(runs).await;
            let (told, live) = (read(&mut reader, 1).await, read(&mut beside, 1).await);
            assert_numbered(&told);
            assert_eq!(durable(&told), durable(&live), "round {round}");
            assert_eq!(count(&told, is_live) > 0, is_here, "round {round}: deltas are live where the turn runs");
            let epoch = epoch_of(&told);
            assert!(epoch > all.last().and_then(|event: &Arc<Envelope>| event.epoch), "round {round}: {epoch:?}");
            assert!(within(runs.close(session("s"))).await, "it is let go");
            all.extend(told);
        }
        let again = read(&mut subscribe(&here, EventsFrom::Beginning).await, 5).await;
        assert_eq!(durable(&all), durable(&again));
        within(here.shutdown()).await;
        assert_eq!(rest(reader).await, [], "nothing is told twice");
        within(there.shutdown()).await;
    })
    .await;
}

#[tokio::test]
async fn text_of_an_owner_that_was_lost_is_taken_back_once() {
    at_each_place("text_of_an_owner_that_was_lost_is_taken_back_once", |open| async move {
        let silent = ScriptedRule {
            when: None,
            replies: vec![ScriptedReply::text("never to be ended")],
            delay_ms: 0,
            stall: true,
        };
        let patient = ProviderLimits { timeout_ms: 600_000, ..ProviderLimits::default() };
        let here = build(over(ScriptedLlm::new(vec![silent]).with_limits(patient)).store(open(false))).await;
        let mut reader = subscribe(&here, EventsFrom::Now).await;
        let running = tokio::spawn({
            let here = here.clone();
            async move { here.run(say("go")).await }
        });
        let mut seen = Vec::new();
        while count(&seen, is_live_text) == 0 {
            seen.push(within(reader.next()).await.unwrap().unwrap());
        }
        let there = build(over(ScriptedLlm::replies(vec![ScriptedReply::text("four five")])).store(open(true))).await;
        let ended = within(there.finish(session("s"))).await.unwrap();
        assert_eq!(ended.len(), 1);
        seen.extend(read(&mut reader, 1).await);
        assert_numbered(&seen);
        assert_eq!(count(&seen, is_reset), 1, "{seen:#?}");
        let (before, behind) = seen.split_at(seen.iter().position(|event| is_reset(&event.event)).unwrap());
        assert!(epoch_of(before) < epoch_of(behind));
        assert_eq!(count(behind, is_live), 1, "no text comes behind it");
        assert_eq!((behind[0].step, count(before, is_reset)), (Some(1), 0));
        let texts = seen.iter().filter_map(|event| match &event.event {
            AgentEvent::MessageAssistant { text, .. } => Some(text.as_str()),
            _another => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["four five"]);
        assert_eq!(count(&seen, |event| matches!(event, AgentEvent::TurnStarted { .. })), 1);
        // The former owner ends its turn for itself.
        within(here.shutdown()).await;
        assert_eq!(rest(reader).await, [], "the turn has one end");
        let _taken = within(running).await.unwrap();
        within(there.shutdown()).await;
    })
    .await;
}

/// A runtime whose tool returns when it is let.
async fn gated(store: Arc<dyn SessionStore>) -> (Runtime, Arc<Notify>, Arc<Notify>) {
    let (entered, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, held) = (Arc::clone(&entered), Arc::clone(&let_go));
    let gated = tool("test/gated", "Returns when it is let.", move |_: Nothing, _| {
        let held = Arc::clone(&held);
        told.notify_one();
        async move {
            held.notified().await;
            Ok(ToolOutput::text("ok"))
        }
    });
    let model = ScriptedLlm::replies(vec![ScriptedReply::call("test/gated", json!({})), ScriptedReply::text("done")]);
    let builder = over(model).tools(Arc::new(gated.read_only())).store(store);
    (build(builder).await, entered, let_go)
}

#[tokio::test]
async fn the_end_of_a_turn_that_another_runtime_goes_on_with_is_told_once() {
    at_each_place("the_end_of_a_turn_that_another_runtime_goes_on_with", |open| async move {
        let (here, entered, let_go) = gated(open(false)).await;
        let mut reader = subscribe(&here, EventsFrom::Now).await;
        let running = tokio::spawn({
            let here = here.clone();
            async move { here.run(say("go")).await }
        });
        within(entered.notified()).await;
        let (there, entered, goes_on) = gated(open(true)).await;
        let finishes = tokio::spawn({
            let there = there.clone();
            async move { there.finish(session("s")).await }
        });
        within(entered.notified()).await;
        let_go.notify_one();
        let lost = within(running).await.unwrap().unwrap();
        assert_eq!(lost.response().finish_reason, FinishReason::Error, "it is no longer its owner");
        goes_on.notify_one();
        assert_eq!(within(finishes).await.unwrap().unwrap().len(), 1);
        let seen = read(&mut reader, 1).await;
        assert_numbered(&seen);
        let AgentEvent::TurnFinished { outcome } = &seen.last().unwrap().event else { panic!("{seen:#?}") };
        assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"));
        let again = read(&mut subscribe(&there, EventsFrom::Beginning).await, 1).await;
        // What the former owner told and could not write is void, however far it came: it is told as the next one made it.
        let apart = |events: &[Arc<Envelope>]| {
            let next = again.last().unwrap().epoch;
            let (former, next): (Vec<_>, _) = events.iter().cloned().partition(|event| event.epoch < next);
            (former, next)
        };
        let ((void, next), (former, written)) = (apart(&seen), apart(&again));
        assert_eq!(durable(&next), durable(&written));
        assert!(durable(&void).starts_with(&durable(&former)) && void.len() > former.len(), "{void:#?}");
        assert_eq!(count(&seen, is_reset), usize::from(count(&void, is_live_text) > 0), "{seen:#?}");
        within(here.shutdown()).await;
        assert_eq!(rest(reader).await, []);
        within(there.shutdown()).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_away_for_a_while_ends_no_reader() {
    let scratch = Scratch::new();
    let is_away = Arc::new(AtomicBool::new(false));
    let (away, asked) = (Arc::clone(&is_away), Arc::new(Notify::new()));
    let told = Arc::clone(&asked);
    let store = FaultStore::judged(file_store(scratch.path()), move |operation, _| {
        let is_refused = operation == Operation::Load && away.load(Ordering::SeqCst);
        is_refused.then(|| {
            told.notify_one();
            Fault::Refuse(StoreError::Unavailable("it is away".into()))
        })
    });
    let (here, there) = (with_a_call(store).await, with_a_call(file_store(scratch.path())).await);
    let mut reader = subscribe(&here, EventsFrom::Now).await;
    is_away.store(true, Ordering::SeqCst);
    turn(&there, say("go")).await;
    for _look in 0..2 {
        tokio::select! {
            () = within(asked.notified()) => {}
            early = reader.next() => panic!("nothing could be read: {early:?}"),
        }
    }
    is_away.store(false, Ordering::SeqCst);
    let told = read(&mut reader, 1).await;
    assert_eq!(durable(&told), durable(&read(&mut subscribe(&there, EventsFrom::Beginning).await, 1).await));
    within(here.shutdown()).await;
    within(there.shutdown()).await;
}
