//! No message is lost: queued behind a running turn, across a reload, or with a repeated id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::events::AgentEvent;
use bob::model::{LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId, SessionFilter};
use bob::{AgentError, AgentRequest, AgentRuntime};
use bob_messages::chat::Message;

use crate::support::runtime::{Recorder, build, ended, file_store, over, say, scripted, session, turn, within};
use crate::support::scratch::Scratch;

/// All user messages in a prompt, in order.
fn said(request: &LlmRequest) -> String {
    let user = request.messages.iter().filter_map(|message| match &**message {
        Message::User { parts } => Some(parts.iter().map(|part| part.as_text()).collect::<String>()),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    user.collect::<Vec<_>>().join("|")
}

/// A model that repeats all messages of the user.
fn echo() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| ScriptedReply::text(said(request)))
}

#[tokio::test]
async fn two_submits_to_one_session_keep_both_messages() {
    let runtime = build(over(echo())).await;
    let (first, second) = tokio::join!(turn(&runtime, say("first")), turn(&runtime, say("second")));
    assert_eq!(first.content, "first");
    assert_eq!(second.content, "first|second", "the second turn knows what the first was told");
    assert_eq!(turn(&runtime, say("third")).await.content, "first|second|third");
}

#[tokio::test]
async fn what_a_turn_said_is_there_after_a_reload() {
    let folder = Scratch::new();
    let before = build(over(echo()).store(file_store(folder.path()))).await;
    let kept = turn(&before, say("remember the heron")).await;
    assert!(kept.saved);
    ended(before).await;

    let after = build(over(echo()).store(file_store(folder.path()))).await;
    let page = within(after.sessions(SessionFilter::default(), None)).await.expect("a page");
    assert!(page.sessions.iter().any(|summary| summary.session == session("s")), "{page:?}");
    let journal = within(after.records(session("s"))).await.expect("the journal is read");
    assert!(serde_json::to_string(&journal).unwrap().contains("remember the heron"));
    assert_eq!(turn(&after, say("which bird?")).await.content, "remember the heron|which bird?");
    within(after.shutdown()).await;
}

#[tokio::test]
async fn a_repeated_request_returns_the_first_outcome_and_runs_nothing() {
    let folder = Scratch::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = || {
        let asked = Arc::clone(&asked);
        over(ScriptedLlm::from_fn(move |_| ScriptedReply::text(asked.fetch_add(1, Ordering::SeqCst).to_string())))
            .store(file_store(folder.path()))
    };
    let labels = BTreeMap::from([("ticket".to_owned(), "42".to_owned())]);
    let request =
        || AgentRequest { request_id: Some(RequestId::new("r1")), labels: labels.clone(), ..say("do it once") };
    let runtime = build(counting()).await;
    let first = turn(&runtime, request()).await;
    assert_eq!((&first.labels, &first.request_id), (&labels, &Some(RequestId::new("r1"))), "both are echoed");
    turn(&runtime, say("something else")).await;
    assert_eq!(turn(&runtime, request()).await, first);
    ended(runtime).await;

    let again = build(counting()).await;
    assert_eq!(turn(&again, request()).await, first, "also after a reload");
    assert_eq!(asked.load(Ordering::SeqCst), 2, "the model was asked for two turns and no repetition");
    within(again.shutdown()).await;
}

#[tokio::test]
async fn a_deleted_session_begins_anew() {
    let runtime = build(over(echo())).await;
    turn(&runtime, say("forget me")).await;
    assert!(within(runtime.delete(session("s"))).await.expect("it is deleted"));
    assert!(!within(runtime.delete(session("s"))).await.expect("there is none"));
    assert!(within(runtime.records(session("s"))).await.unwrap().is_empty());
    assert_eq!(turn(&runtime, say("who am I?")).await.content, "who am I?", "nothing is remembered, and it works");
}

#[tokio::test]
async fn a_session_is_not_deleted_under_its_turn() {
    let recorder = Recorder::new();
    let runtime = build(scripted(vec![ScriptedReply::Stall]).sink(recorder.clone())).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    assert!(matches!(within(runtime.delete(session("s"))).await, Err(AgentError::Busy { .. })));
    assert!(within(runtime.cancel(session("s"))).await);
    assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
    assert!(within(runtime.delete(session("s"))).await.expect("it is deleted"));
}

#[tokio::test]
async fn eight_inputs_wait_and_the_ninth_is_refused_by_name() {
    let recorder = Recorder::new();
    let model = ScriptedLlm::from_fn(|request| match said(request).as_str() {
        "stall" => ScriptedReply::Stall,
        said => ScriptedReply::text(said),
    });
    let runtime = build(over(model).sink(recorder.clone())).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("stall")).await }
    });
    recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let mut waiting = Vec::new();
    for number in 1..=8 {
        let runtime = runtime.clone();
        waiting.push(tokio::spawn(async move { turn(&runtime, say(&format!("w{number}"))).await }));
    }
    // Options, the first input, its start, and the eight.
    within(async {
        while runtime.records(session("s")).await.unwrap().len() < 11 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let refused = within(runtime.run(say("one too many"))).await;
    assert!(matches!(&refused, Err(bob::AgentError::Busy { text: why, .. }) if why.contains('8')), "{refused:?}");
    assert!(within(runtime.cancel(session("s"))).await);
    assert_eq!(within(running).await.unwrap().finish_reason, FinishReason::Cancelled);
    for (number, waiting) in (1..).zip(waiting) {
        let outcome = within(waiting).await.unwrap();
        let expected: Vec<_> = (1..=number).map(|number| format!("w{number}")).collect();
        assert_eq!(outcome.content, format!("stall|{}", expected.join("|")), "in the order they came");
    }
}

#[tokio::test]
async fn a_runtime_with_defaults_answers() {
    let runtime = build(scripted(vec![ScriptedReply::text("hello")])).await;
    assert_eq!(turn(&runtime, say("hi")).await.content, "hello");
    within(runtime.shutdown()).await;
}
