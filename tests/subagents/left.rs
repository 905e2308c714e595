//! The end of a process while a sub-agent works that outlives the turn of its caller: the next process has its result.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bob::model::{LlmRequest, ScriptedReply};
use bob::sessions::OnParentEnd;
use bob::store::{MemoryStore, Record, SessionStore};
use bob::{AgentRuntime, Runtime};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::background::{assert_brought, ends, hears, staged, turns};
use super::stage::{Gate, children};
use crate::support::runtime::{build, say, session, turn, within};

/// How a process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    ShutDown,
    HandOver,
}

async fn end(runtime: &Runtime, how: End) {
    match how {
        End::ShutDown => within(runtime.shutdown()).await,
        End::HandOver => within(runtime.hand_over()).await,
    }
}

/// Has a process end. The end has begun when this returns: a turn is refused.
async fn ending(runtime: &Runtime, how: End) -> JoinHandle<()> {
    let ending = tokio::spawn({
        let runtime = runtime.clone();
        async move { end(&runtime, how).await }
    });
    within(async {
        while runtime.run(bob::AgentRequest::text(session("other"), "anything")).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    ending
}

/// How many inputs the session of the caller has.
async fn inputs(store: &Arc<MemoryStore>) -> usize {
    let own = within(store.load(&session("s"))).await.unwrap();
    own.iter().filter(|record| matches!(record.fact, bob::store::Fact::Input(_))).count()
}

async fn process(store: &Arc<MemoryStore>, gate: &Gate, grace: Duration) -> Runtime {
    let store: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(store);
    build(staged(gate, OnParentEnd::Continue, hears).store(store).shutdown_grace(grace)).await
}

/// Another process has the result, as an input of its own, after the next turn.
async fn assert_brought_by_the_next(store: &Arc<MemoryStore>, gate: &Gate, how: End) {
    let runtime = process(store, gate, Duration::from_secs(60)).await;
    turn(&runtime, say("and now?")).await;
    let all = turns(&runtime, &session("s"), 3).await;
    let own = |(input, _): &&(Value, Value)| input["body"]["labels"] != json!({});
    let brought: Vec<_> = all.iter().filter(own).collect();
    assert_eq!(brought.len(), 1, "{how:?}: {all:?}");
    assert_brought(brought[0]);
    let ended = ends(&runtime, &session("s")).await;
    assert_eq!(ended, [(1, Some(bob::sessions::FinishReason::Final))], "{how:?}");
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn one_that_works_at_the_end_of_the_process_goes_on_in_the_next() {
    for how in [End::ShutDown, End::HandOver] {
        let (store, gate) = (MemoryStore::new(), Gate::default());
        let runtime = process(&store, &gate, Duration::ZERO).await;
        turn(&runtime, say("go")).await;
        within(gate.entered.notified()).await;
        end(&runtime, how).await;
        assert_eq!(inputs(&store).await, 1, "{how:?}: no result was recorded");
        let runtime = process(&store, &gate, Duration::from_secs(60)).await;
        assert_eq!(ends(&runtime, &session("s")).await, [(1, None)], "{how:?}: its turn is open");
        within(runtime.shutdown()).await;
        gate.opened.notify_one();
        assert_brought_by_the_next(&store, &gate, how).await;
    }
}

#[tokio::test]
async fn one_that_ends_while_the_process_ends_begins_no_turn_there() {
    for how in [End::ShutDown, End::HandOver] {
        let (store, gate) = (MemoryStore::new(), Gate::default());
        let runtime = process(&store, &gate, Duration::from_secs(60)).await;
        turn(&runtime, say("go")).await;
        within(gate.entered.notified()).await;
        let child = children(&runtime, &session("s")).await.remove(0).session;
        let ending = ending(&runtime, how).await;
        gate.opened.notify_one();
        within(ending).await.unwrap();
        let left = within(store.load(&child)).await.unwrap();
        assert!(left.iter().any(|record| matches!(record.fact, bob::store::Fact::Outcome(_))), "{how:?}: it has ended");
        assert_eq!(inputs(&store).await, 1, "{how:?}");
        assert_brought_by_the_next(&store, &gate, how).await;
        assert_eq!(gate.passed.load(Ordering::SeqCst), 1, "{how:?}: it worked once");
    }
}

#[tokio::test]
async fn a_result_that_its_caller_has_when_its_turn_ends_begins_no_turn_while_the_process_ends() {
    // A turn that is handed over does not end here.
    let how = End::ShutDown;
    let (store, gate, hold) = (MemoryStore::new(), Gate::default(), Gate::default());
    let then = |request: &LlmRequest| match request.step {
        2 => ScriptedReply::call("own/hold", json!({})),
        _ => hears(request),
    };
    let kept: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(&store);
    let builder = staged(&gate, OnParentEnd::Continue, then).tools(hold.named("own/hold")).store(kept);
    let runtime = build(builder.shutdown_grace(Duration::from_secs(60))).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    within(async { tokio::join!(gate.entered.notified(), hold.entered.notified()) }).await;
    gate.opened.notify_one();
    let results = |records: &[Arc<Record>]| {
        records.iter().filter(|record| matches!(record.fact, bob::store::Fact::Result(_))).count()
    };
    within(async {
        while results(&store.load(&session("s")).await.unwrap()) < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let ending = ending(&runtime, how).await;
    hold.opened.notify_one();
    assert_eq!(within(running).await.unwrap().content, "it goes on", "{how:?}");
    within(ending).await.unwrap();
    assert_eq!(inputs(&store).await, 1, "{how:?}: the result is left in the journal");
    assert_brought_by_the_next(&store, &gate, how).await;
}
