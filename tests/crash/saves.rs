//! A store that fails at any one of a turn's operations: the outcome reports correctly whether it is saved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{ToolOutput, tool};
use bob_drill::store::{Fault, FaultStore};
use bob_messages::chat::Message;
use bob_messages::store::{Fact, StoreError};
use serde_json::json;

use crate::crash::fixture::Fixture;
use crate::support::runtime::{Nothing, session, within};

/// Calls the tool on request, and replies "fine" to its result.
fn calls_once() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| match request.messages.last().map(|last| &**last) {
        Some(Message::Tool { .. }) => ScriptedReply::text("fine"),
        _ => ScriptedReply::call("test/write", json!({})),
    })
}

#[tokio::test]
async fn s3_s4_whichever_operation_of_a_turn_fails_what_is_called_saved_is_and_the_next_turn_works() {
    for error in [StoreError::Unavailable("the disk is full".into()), StoreError::InDoubt("no sync".into())] {
        for is_done in [false, true] {
            let mut nth = 1;
            while fails_at(nth, is_done, &error).await {
                nth += 1;
            }
            assert!(nth >= 4, "a turn asks the store more than {nth} times");
        }
    }
}

/// Runs two turns over a store whose `nth` operation fails. Returns whether it failed in the first.
async fn fails_at(nth: usize, is_done: bool, error: &StoreError) -> bool {
    let what = format!("operation {nth}, done: {is_done}, {error}");
    let memory = MemoryStore::new();
    let store = FaultStore::new(memory.clone());
    let fault = if is_done { Fault::LoseAnswer(error.clone()) } else { Fault::Refuse(error.clone()) };
    store.plan(None, nth, fault);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let write = tool("test/write", "Changes something.", move |_: Nothing, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(ToolOutput::text("written")) }
    });
    let fixture = Fixture::over(calls_once(), vec![write], store.clone()).await;
    let answered = within(fixture.submit("s", "first")).await.expect("an answer");
    if store.asked().len() < nth {
        fixture.stop().await;
        return false;
    }
    assert!(runs.load(Ordering::SeqCst) <= 1, "{what}: a side effect never happens twice");
    let stored = async || memory.load(&session("s")).await.expect("it is in memory");
    if let Ok(outcome) = &answered {
        let is_there = |record: &Arc<bob::store::Record>| matches!(&record.fact, Fact::Outcome(told) if told.content == outcome.content);
        assert!(!outcome.saved || stored().await.iter().any(is_there), "{what}: {outcome:?}");
        let written = outcome.tool_transcript.iter().filter(|call| call.result.contains("written")).count();
        assert!(written <= runs.load(Ordering::SeqCst));
    }
    let before = runs.load(Ordering::SeqCst);
    let next = fixture.run("second").await;
    assert_eq!((next.finish_reason, next.content.as_str(), next.saved), (FinishReason::Final, "fine", true), "{what}");
    assert_eq!(runs.load(Ordering::SeqCst), before + 1, "{what}");
    let inputs: Vec<_> = stored()
        .await
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::Input(input) => Some(input.text()),
            _ => None,
        })
        .collect();
    if answered.is_ok_and(|outcome| outcome.saved) {
        assert_eq!(inputs, ["first", "second"], "{what}");
    }
    assert_eq!(inputs.iter().filter(|text| *text == "second").count(), 1, "{what}: an input is taken once");
    fixture.stop().await;
    true
}
