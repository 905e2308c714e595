//! In every waiting state of a turn, a cancel ends the wait, saves the turn and leaves the session usable.

use std::sync::Arc;
use std::time::Duration;

use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{CancellationToken, FinishReason};
use bob::store::MemoryStore;
use bob::{AgentRequest, AgentResponse, AgentRuntime, Runtime, SessionId};
use bob_drill::store::{Fault, FaultStore, Operation};
use bob_messages::chat::CallStatus;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::runtime::{Recorder, build, endless, over, say, scripted, session, turn, within};
use crate::support::stopwatch::Stopwatch;

/// A cancelled caller has its outcome within 50 ms; a build without optimisation is given twice that.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

/// A provider's connection is closed within 100 ms; a build without optimisation is given twice that.
#[cfg(feature = "genai")]
const CLOSED_WITHIN: Duration = Duration::from_millis(200);

pub(crate) fn spawned(runtime: &Runtime, request: AgentRequest) -> JoinHandle<AgentResponse> {
    let runtime = runtime.clone();
    tokio::spawn(async move { turn(&runtime, request).await })
}

/// Cancels the session's turn; its outcome must come at once.
async fn cancelled(runtime: &Runtime, id: SessionId, running: JoinHandle<AgentResponse>) -> AgentResponse {
    let began = Stopwatch::start();
    assert!(within(runtime.cancel(id)).await, "there was something to cancel");
    let outcome = within(running).await.expect("the caller is answered");
    began.assert_within(ANSWERED_WITHIN, "the cancel");
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    outcome
}

/// A model that stalls on request, and answers otherwise.
fn stalls_when_asked() -> ScriptedLlm {
    let last_said = |request: &bob::model::LlmRequest| format!("{:?}", request.messages.last());
    ScriptedLlm::from_fn(move |request| match last_said(request).contains("stall") {
        true => ScriptedReply::Stall,
        false => ScriptedReply::text("fine"),
    })
}

#[tokio::test]
async fn c1_cancel_interrupts_a_tool() {
    let (entered, let_go) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let model = ScriptedLlm::replies(vec![ScriptedReply::call("test/endless", json!({}))]);
    let runtime = build(over(model).tools(Arc::new(endless(&entered, &let_go)))).await;
    let running = spawned(&runtime, say("go"));
    within(entered.notified()).await;
    let outcome = cancelled(&runtime, session("s"), running).await;
    within(let_go.notified()).await;
    assert_eq!(outcome.tool_transcript.len(), 1, "the call has its result");
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown, "it may have had its effect");

    // The next message works, and the model sees a call with its one result.
    let running = spawned(&runtime, say("again"));
    within(entered.notified()).await;
    cancelled(&runtime, session("s"), running).await;
}

#[cfg(feature = "genai")]
#[tokio::test]
async fn c1_c5_cancel_interrupts_a_stream_and_closes_its_connection() {
    use crate::support::provider::FakeProvider;
    use crate::support::reply::Reply;
    use crate::support::runtime::{KINDS, provided};
    for kind in KINDS {
        // Long enough to be cut into several chunks; the last ones never come.
        let provider =
            FakeProvider::start([Reply::text("one two three four").stall_after(6), Reply::text("Hello again.")]);
        let recorder = Recorder::new();
        let runtime = build(provided(&provider, kind).sink(recorder.clone())).await;
        let running = spawned(&runtime, say("count"));
        recorder.seen(|event| matches!(event, AgentEvent::LlmStreamChunk { .. })).await;
        let began = Stopwatch::start();
        cancelled(&runtime, session("s"), running).await;
        within(provider.wait_closed_early(1)).await;
        began.assert_within(CLOSED_WITHIN, format!("{kind:?}: closed"));
        assert_eq!(turn(&runtime, say("hello?")).await.content, "Hello again.", "the session is usable at once");
        recorder.assert_in_order();
    }
}

#[cfg(feature = "genai")]
#[tokio::test]
async fn c5_cancel_closes_a_connection_that_says_nothing() {
    use crate::support::provider::FakeProvider;
    use crate::support::reply::Reply;
    use crate::support::runtime::{KINDS, provided};
    for kind in KINDS {
        let provider = FakeProvider::start([Reply::Silence]);
        let runtime = build(provided(&provider, kind)).await;
        let running = spawned(&runtime, say("hello?"));
        within(provider.wait_requests(1)).await;
        let began = Stopwatch::start();
        cancelled(&runtime, session("s"), running).await;
        within(provider.wait_closed_early(1)).await;
        began.assert_within(CLOSED_WITHIN, format!("{kind:?}: closed"));
    }
}

#[tokio::test]
async fn c1_cancel_does_not_wait_for_a_store_that_hangs() {
    for nth in 1..=2 {
        let store = FaultStore::new(MemoryStore::new());
        store.plan(Some(Operation::Append), nth, Fault::Hold(Arc::new(tokio::sync::Semaphore::new(0))));
        let recorder = Recorder::new();
        let asked = store.clone();
        let builder = scripted(vec![ScriptedReply::text("fine")]).store(store).sink(recorder.clone());
        let runtime = build(builder).await;
        let running = spawned(&runtime, say("go"));
        within(async {
            let appends = |asked: &FaultStore| asked.asked().iter().filter(|(of, _)| *of == Operation::Append).count();
            while appends(&asked) < nth {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let began = Stopwatch::start();
        assert!(within(runtime.cancel(session("s"))).await);
        let outcome = within(running).await.expect("the caller is answered");
        began.assert_within(ANSWERED_WITHIN, format!("append {nth}"));
        assert!(!outcome.saved, "append {nth}: what was not confirmed is not called saved: {outcome:?}");
    }
}

#[tokio::test]
async fn c3_a_cancelled_token_cancels_its_turn_and_no_other() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls_when_asked()).sink(recorder.clone())).await;
    let token = CancellationToken::new();
    let mine = spawned(&runtime, AgentRequest { cancel: Some(token.clone()), ..say("stall") });
    let other = spawned(&runtime, AgentRequest::text(session("other"), "stall"));
    recorder.seen_times(2, |event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    token.cancel();
    assert_eq!(within(mine).await.unwrap().finish_reason, FinishReason::Cancelled);
    assert!(!other.is_finished());
    cancelled(&runtime, session("other"), other).await;
}

#[tokio::test]
async fn c3_a_token_that_was_cancelled_before_cancels_at_once() {
    let runtime = build(over(stalls_when_asked())).await;
    let token = CancellationToken::new();
    token.cancel();
    let outcome = turn(&runtime, AgentRequest { cancel: Some(token), ..say("stall") }).await;
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    assert_eq!(turn(&runtime, say("go on")).await.content, "fine");
}

#[tokio::test]
async fn a_token_holds_nothing_when_its_turn_is_over() {
    let runtime = build(over(stalls_when_asked())).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let token = CancellationToken::new();
    let request = || AgentRequest { cancel: Some(token.clone()), ..say("hello") };
    turn(&runtime, request()).await;
    let before = tasks();
    for _ in 0..20 {
        turn(&runtime, request()).await;
    }
    within(async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A turn that is watched by a token is none that keeps the tree alive.
#[tokio::test]
async fn a_runtime_whose_last_handle_goes_ends_with_a_turn_that_has_a_token() {
    let (entered, let_go) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let builder = scripted(vec![ScriptedReply::call("test/endless", json!({}))]);
    let runtime = build(builder.tools(Arc::new(endless(&entered, &let_go)))).await;
    let token = CancellationToken::new();
    let request = AgentRequest { cancel: Some(token.clone()), ..say("go") };
    let stream = within(runtime.run_stream(request)).await.expect("the request is taken");
    within(entered.notified()).await;
    drop(stream);
    drop(runtime);
    within(let_go.notified()).await;
    assert!(!token.is_cancelled());
}

#[tokio::test]
async fn c3_cancelling_nothing_says_so() {
    let runtime = build(over(stalls_when_asked())).await;
    assert!(!within(runtime.cancel(session("unknown"))).await);
    turn(&runtime, say("hello")).await;
    assert!(!within(runtime.cancel(session("s"))).await, "the turn is over");
}

#[tokio::test]
async fn c3_cancelling_twice_is_cancelling_once() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls_when_asked()).sink(recorder.clone())).await;
    let running = spawned(&runtime, say("stall"));
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let (first, second) = tokio::join!(runtime.cancel(session("s")), runtime.cancel(session("s")));
    assert!(first, "the first one stops it; the second finds it stopping or gone ({second})");
    let outcome = within(running).await.unwrap();
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    assert_eq!(turn(&runtime, say("go on")).await.content, "fine");
    assert_eq!(recorder.ends(&outcome.turn_id), 1);
    recorder.assert_in_order();
}

#[tokio::test]
async fn c1_a_waiting_turn_is_cancelled_at_once_and_never_runs() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls_when_asked()).sink(recorder.clone())).await;
    let first = spawned(&runtime, say("stall"));
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let token = CancellationToken::new();
    let waiting = spawned(&runtime, AgentRequest { cancel: Some(token.clone()), ..say("ghost") });
    let behind = spawned(&runtime, say("behind"));
    within(async {
        while runtime.records(session("s")).await.unwrap().len() < 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    token.cancel();
    let outcome = within(waiting).await.expect("it does not wait for the turn before it");
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    assert!(outcome.saved, "{outcome:?}");
    assert!(!first.is_finished(), "the turn that runs is another one");

    cancelled(&runtime, session("s"), first).await;
    assert_eq!(within(behind).await.unwrap().content, "fine", "what waited behind it runs");
    turn(&runtime, say("last")).await;
    let asked = recorder.events();
    let started = |event: &&bob::events::Envelope| matches!(event.event, AgentEvent::TurnStarted { .. });
    assert_eq!(asked.iter().filter(started).count(), 3, "the cancelled input never became a turn");
    assert_eq!(recorder.ends(&outcome.turn_id), 1);
}

#[tokio::test]
async fn c1_all_waiting_turns_cancelled_with_the_running_one_leave_no_ghost() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls_when_asked()).sink(recorder.clone())).await;
    let token = CancellationToken::new();
    let mut callers = vec![spawned(&runtime, AgentRequest { cancel: Some(token.clone()), ..say("stall") })];
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    callers.extend((0..4).map(|_| spawned(&runtime, AgentRequest { cancel: Some(token.clone()), ..say("ghost") })));
    within(async {
        while runtime.records(session("s")).await.unwrap().len() < 7 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    token.cancel();
    for caller in callers {
        assert_eq!(within(caller).await.unwrap().finish_reason, FinishReason::Cancelled);
    }
    assert_eq!(turn(&runtime, say("after")).await.content, "fine");
    recorder.assert_in_order();
}

#[tokio::test]
async fn c3_what_waits_is_cancelled_although_its_actor_is_being_stopped() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls_when_asked()).sink(recorder.clone())).await;
    let running = spawned(&runtime, say("stall"));
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let mut behind = within(runtime.run_stream(say("ghost"))).await.unwrap().on_drop(bob::events::OnDrop::Cancel);
    let ghost = behind.turn().clone();
    within(async {
        while runtime.records(session("s")).await.unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Both are sent before either is handled.
    let stopped = runtime.cancel(session("s"));
    tokio::pin!(stopped);
    assert!(futures_util::FutureExt::now_or_never(stopped.as_mut()).is_none());
    assert!(futures_util::FutureExt::now_or_never(behind.next()).is_none());
    drop(behind);
    assert!(within(stopped).await);
    assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
    assert_eq!(turn(&runtime, say("after")).await.content, "fine");
    let events = recorder.of_turn(&ghost);
    assert!(matches!(&events[..], [end] if end.event.is_terminal() == Some(FinishReason::Cancelled)), "{events:#?}");
}
