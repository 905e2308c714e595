//! Shutdown of a runtime: no new turns, running ones cancelled and saved, all callers answered.

use std::time::Duration;

use bob::events::AgentEvent;
use bob::health::RuntimeStatus;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::{AgentError, AgentRequest, AgentRuntime};

use crate::support::runtime::{Recorder, build, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

fn stalls() -> ScriptedLlm {
    ScriptedLlm::replies(vec![ScriptedReply::Stall])
}

#[tokio::test]
async fn x1_shutdown_in_the_middle_of_a_turn_saves_and_cancels_it() {
    let (folder, recorder) = (Scratch::new(), Recorder::new());
    let builder = over(stalls()).store(file_store(folder.path())).sink(recorder.clone());
    let runtime = build(builder.shutdown_grace(Duration::from_millis(50))).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("remember me")).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    within(runtime.shutdown()).await;
    let outcome = within(running).await.expect("the caller is answered");
    assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
    assert_eq!(within(runtime.health()).await.status, RuntimeStatus::Stopped);

    let next = build(
        over(ScriptedLlm::from_fn(|request| {
            let heard = format!("{:?}", request.messages).contains("remember me");
            ScriptedReply::text(if heard { "remembered" } else { "forgotten" })
        }))
        .store(file_store(folder.path())),
    )
    .await;
    assert_eq!(turn(&next, say("well?")).await.content, "remembered");
    within(next.shutdown()).await;
}

/// The outcome is returned after 30 ms, saved or not; the save continues.
#[tokio::test]
async fn x1_the_last_words_of_a_turn_are_kept_although_the_store_is_slow() {
    use bob_actors::store::SessionStore;
    use bob_drill::store::{Fault, FaultStore, Operation};
    let memory = bob::store::MemoryStore::new();
    for slow in 1..=3 {
        let (store, recorder) = (FaultStore::new(memory.clone()), Recorder::new());
        store.plan(Some(Operation::Append), slow, Fault::Delay(Duration::from_millis(300)));
        let builder = over(stalls()).store(store).sink(recorder.clone()).shutdown_grace(Duration::from_millis(10));
        let runtime = build(builder).await;
        let id = session(&format!("s{slow}"));
        let running = tokio::spawn({
            let (runtime, id) = (runtime.clone(), id.clone());
            async move { turn(&runtime, AgentRequest::text(id, "remember me")).await }
        });
        recorder.seen(|event| matches!(event, AgentEvent::TurnStarted { .. })).await;
        within(runtime.shutdown()).await;
        let outcome = within(running).await.expect("the caller is answered");
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled, "{slow}");
        let kept = memory.load(&id).await.expect("a store that works");
        let ends = |record: &&std::sync::Arc<bob::store::Record>| {
            matches!(record.fact, bob_messages::store::Fact::Outcome(_))
                && record.turn.as_ref() == Some(&outcome.turn_id)
        };
        assert_eq!(kept.iter().filter(ends).count(), 1, "append {slow} was slow, saved: {}: {kept:#?}", outcome.saved);
    }
}

#[tokio::test]
async fn x1_a_turn_that_ends_within_the_grace_is_not_cancelled() {
    let recorder = Recorder::new();
    let slow = bob_actors::llm::scripted::ScriptedRule {
        when: None,
        replies: vec![ScriptedReply::text("in time")],
        delay_ms: 100,
        stall: false,
    };
    let runtime = build(over(ScriptedLlm::new(vec![slow])).sink(recorder.clone())).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    within(runtime.shutdown()).await;
    assert_eq!(within(running).await.expect("the caller is answered").content, "in time");
}

#[tokio::test]
async fn x1_a_draining_runtime_refuses_new_turns_by_name() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls()).sink(recorder.clone()).shutdown_grace(Duration::from_secs(5))).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let stopping = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.shutdown().await }
    });
    within(async {
        while runtime.health().await.status != RuntimeStatus::Draining {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let refused = within(runtime.run(AgentRequest::text(session("new"), "hello?"))).await;
    assert!(matches!(refused, Err(AgentError::Overloaded { .. })), "{refused:?}");
    assert!(within(runtime.cancel(session("s"))).await, "what runs can still be cancelled");
    assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn x1_shutdown_answers_those_who_wait_behind_a_turn_too() {
    let recorder = Recorder::new();
    let runtime = build(over(stalls()).sink(recorder.clone()).shutdown_grace(Duration::from_millis(20))).await;
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { turn(&runtime, say("go")).await })
        })
        .collect();
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    within(async {
        while runtime.records(session("s")).await.unwrap().len() < 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(runtime.shutdown()).await;
    for caller in callers {
        assert_eq!(within(caller).await.expect("answered").finish_reason, FinishReason::Cancelled);
    }
}

#[tokio::test]
async fn shutting_down_twice_is_shutting_down_once() {
    let runtime = build(over(stalls())).await;
    within(async { tokio::join!(runtime.shutdown(), runtime.shutdown()) }).await;
    within(runtime.shutdown()).await;
    let refused = within(runtime.run(say("hello?"))).await;
    assert!(refused.is_err(), "{refused:?}");
}
