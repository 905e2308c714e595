//! The store, the model side, the tools and the sessions supervisor die in the middle of turns.

use std::sync::Arc;

use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::store::MemoryStore;
use bob::tools::{ToolOutput, tool};
use bob_drill::store::{Fault, FaultStore, Operation};
use bob_messages::chat::CallStatus;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::crash::fixture::{Fixture, replace};
use crate::support::runtime::{Nothing, endless, within};

fn talks() -> ScriptedLlm {
    ScriptedLlm::replies(vec![ScriptedReply::text("fine")])
}

#[tokio::test]
async fn a2_a_store_that_dies_with_an_append_in_flight_loses_nothing() {
    // The claim, the input, the outcome: whichever is under way when the actor dies.
    for (operation, nth, ends) in [
        (Operation::Claim, 1, FinishReason::Cancelled),
        (Operation::Append, 1, FinishReason::Cancelled),
        // The turn had its answer; a cancel does not revert the write.
        (Operation::Append, 2, FinishReason::Final),
    ] {
        let store = FaultStore::new(MemoryStore::new());
        store.plan(Some(operation), nth, Fault::Hold(Arc::new(Semaphore::new(0))));
        let fixture = Fixture::over(talks(), Vec::new(), store.clone()).await;
        let owed = fixture.submit("s", "go");
        within(async {
            while store.asked().iter().filter(|(asked, _)| *asked == operation).count() < nth {
                tokio::task::yield_now().await;
            }
        })
        .await;
        replace(&fixture.tree.rooms.store).await;
        // The old actor's operation is a separate task and still blocks; the turn's deadline would end it, so the
        // test cancels instead of waiting.
        let supervisor = &fixture.tree.rooms.sessions;
        let session = crate::support::runtime::session("s");
        let (reply, stopped) = bob_messages::reply::Reply::channel();
        supervisor.tell(bob_messages::submission::SessionsMessage::Cancel { session, turn: None, tenant: None, reply });
        assert_eq!(within(stopped).await, Some(true), "{operation:?} {nth}");
        let outcome = fixture.outcome(owed).await;
        assert_eq!(outcome.finish_reason, ends, "{operation:?} {nth}");
        let next = fixture.run("again").await;
        assert_eq!((next.content.as_str(), next.saved), ("fine", true), "{operation:?} {nth}");
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a2_a_store_that_panics_is_asked_again_with_the_same_records() {
    for (operation, nth) in [(Operation::Claim, 1), (Operation::Append, 1), (Operation::Append, 2)] {
        for fault in [Fault::Panic, Fault::PanicLater] {
            let store = FaultStore::new(MemoryStore::new());
            store.plan(Some(operation), nth, fault.clone());
            let fixture = Fixture::over(talks(), Vec::new(), store).await;
            let outcome = fixture.run("go").await;
            assert_eq!((outcome.content.as_str(), outcome.saved), ("fine", true), "{operation:?} {nth} {fault:?}");
            fixture.stop().await;
        }
    }
}

#[tokio::test]
async fn a2_a_model_call_survives_a_restart_of_its_actor() {
    let model = bob_actors::llm::scripted::ScriptedRule {
        when: None,
        replies: vec![ScriptedReply::text("fine")],
        delay_ms: 100,
        stall: false,
    };
    let fixture = Fixture::new(ScriptedLlm::new(vec![model]), Vec::new()).await;
    let owed = fixture.submit("s", "go");
    fixture.recorder.seen(|event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    replace(&fixture.tree.rooms.llm).await;
    assert_eq!(fixture.outcome(owed).await.content, "fine");
    assert_eq!(fixture.run("again").await.content, "fine");
    fixture.stop().await;
}

#[tokio::test]
async fn a2_a_tools_room_that_dies_leaves_a_result_and_the_turn_goes_on() {
    let (entered, let_go) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let model =
        ScriptedLlm::replies(vec![ScriptedReply::call("test/endless", json!({})), ScriptedReply::text("went on")]);
    let quick = tool("test/quick", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) });
    let fixture = Fixture::new(model, vec![endless(&entered, &let_go), quick]).await;
    let owed = fixture.submit("s", "go");
    within(entered.notified()).await;
    let dying = fixture.tree.rooms.tools.local().clone();
    tokio::join!(replace(&dying), async {
        // A call may outlive its actor; its turn then waits for it, so it is ended by its limit or by a cancel.
        within(fixture.recorder.seen(|event| matches!(event, AgentEvent::ToolCalled { .. }))).await;
    });
    let (reply, _stopped) = bob_messages::reply::Reply::channel();
    let session = crate::support::runtime::session("s");
    fixture.tree.rooms.sessions.tell(bob_messages::submission::SessionsMessage::Cancel {
        session,
        turn: None,
        tenant: None,
        reply,
    });
    let outcome = fixture.outcome(owed).await;
    within(let_go.notified()).await;
    assert_eq!(outcome.tool_transcript.len(), 1, "{outcome:?}");
    assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown);
    fixture.stop().await;
}

#[tokio::test]
async fn a2_a_sessions_supervisor_that_dies_answers_everybody_it_owes() {
    let fixture = Fixture::new(
        ScriptedLlm::from_fn(|request| match format!("{:?}", request.messages.last()).contains("stall") {
            true => ScriptedReply::Stall,
            false => ScriptedReply::text("fine"),
        }),
        Vec::new(),
    )
    .await;
    let owed: Vec<_> = (0..10).map(|number| fixture.submit(&format!("s{number}"), "stall")).collect();
    fixture.recorder.seen_times(10, |event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    replace(&fixture.tree.rooms.sessions).await;
    for owed in owed {
        assert!(within(owed).await.is_none(), "the answer is that there is none");
    }
    let next = fixture.outcome(fixture.submit("s3", "hello")).await;
    assert_eq!((next.content.as_str(), next.saved), ("fine", true), "the session is usable");
    fixture.stop().await;
}
