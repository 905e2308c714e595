//! Steering messages: delivered in the next step, once, and refused when no turn is running.

use std::sync::{Arc, Mutex};

use bob::events::AgentEvent;
use bob::model::{ContentPart, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, RequestId};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, AgentRuntime, Runtime};
use bob_messages::chat::Message;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::runtime::{Nothing, build, over, say, session, trapped, turn, within};

/// A tool that returns when it is let.
fn gated(let_go: &Arc<Notify>) -> bob::tools::FnTool {
    let let_go = Arc::clone(let_go);
    tool("test/gated", "Returns when it is let.", move |_: Nothing, _| {
        let let_go = Arc::clone(&let_go);
        async move {
            let_go.notified().await;
            Ok(ToolOutput::text("ok"))
        }
    })
}

fn users(request: &LlmRequest) -> Vec<String> {
    let texts = request.messages.iter().filter_map(|message| match &**message {
        Message::User { parts } => Some(parts.iter().map(ContentPart::as_text).collect()),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    texts.collect()
}

fn words(text: &str) -> Vec<ContentPart> {
    vec![ContentPart::text(text)]
}

async fn steered(runtime: &Runtime, name: &str) -> Result<bool, AgentError> {
    within(runtime.steer_as(session("s"), RequestId::new(name), words(name))).await
}

#[tokio::test]
async fn what_is_said_while_a_tool_runs_is_told_to_the_model_behind_its_result() {
    let (let_go, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let model = ScriptedLlm::from_fn({
        let seen = Arc::clone(&seen);
        move |request| {
            seen.lock().unwrap().push(users(request));
            match request.step {
                1 => ScriptedReply::call("test/gated", json!({})),
                _ => ScriptedReply::text("done"),
            }
        }
    });
    let runtime = build(over(model).tools(Arc::new(gated(&let_go)))).await;
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap();
    while !matches!(within(stream.next_event()).await.expect("an event").event, AgentEvent::ToolCalled { .. }) {}

    assert_eq!(steered(&runtime, "hurry").await, Ok(true));
    assert_eq!(steered(&runtime, "hurry").await, Ok(true), "it is taken once, and told again");
    let image = ContentPart::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let refused = within(runtime.steer(session("s"), vec![image])).await;
    assert!(matches!(&refused, Err(AgentError::Invalid(text)) if text.contains("image")), "{refused:?}");
    let refused = within(runtime.steer(session("s"), words(&"x".repeat(2 << 20)))).await;
    assert!(matches!(refused, Err(AgentError::Invalid(_))), "{refused:?}");

    let told = within(stream.next_event()).await;
    let mut late = within(runtime.subscribe(session("s"), bob::events::EventsFrom::Beginning)).await.expect("a reader");
    let mut rebuilt = Vec::new();
    while rebuilt.len() < 2 {
        let event = within(late.next()).await.unwrap().unwrap().event.clone();
        rebuilt.extend(matches!(event, AgentEvent::MessageUser { .. }).then_some(event));
    }
    assert!(matches!(&rebuilt[0], AgentEvent::MessageUser { parts, steered: false, .. } if *parts == words("go")));
    assert!(matches!(&rebuilt[1], AgentEvent::MessageUser { parts, steered: true, .. } if *parts == words("hurry")));
    let mut told = told.expect("an event");
    while !matches!(told.event, AgentEvent::MessageUser { .. }) {
        told = within(stream.next_event()).await.expect("an event");
    }
    assert_eq!(told.event, rebuilt[1], "the same message under the same id");

    let_go.notify_one();
    let outcome = within(stream.finish()).await.unwrap();
    assert_eq!(outcome.response().finish_reason, FinishReason::Final);
    assert_eq!(*seen.lock().unwrap(), [vec!["go".to_owned()], vec!["go".to_owned(), "hurry".to_owned()]]);

    assert_eq!(within(runtime.steer(session("s"), words("too late"))).await, Ok(false));
    assert_eq!(steered(&runtime, "hurry").await, Ok(true), "the journal knows that it was taken");
    assert_eq!(within(runtime.steer(session("nobody"), words("hello"))).await, Ok(false));
    assert_eq!(turn(&runtime, say("next")).await.finish_reason, FinishReason::Final);
    let said = seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!(said, ["go", "hurry", "next"], "what was not taken was not kept");
}

#[tokio::test]
async fn what_is_said_into_a_turn_that_is_cancelled_is_answered() {
    let let_go = Arc::new(Notify::new());
    let replies = vec![ScriptedReply::call("test/gated", json!({}))];
    let runtime = build(over(ScriptedLlm::replies(replies)).tools(Arc::new(gated(&let_go)))).await;
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap();
    while !matches!(within(stream.next_event()).await.expect("an event").event, AgentEvent::ToolCalled { .. }) {}
    let steers = (0..20).map(|number| {
        let (runtime, text) = (runtime.clone(), format!("and {number}"));
        async move { within(runtime.steer(session("s"), words(&text))).await }
    });
    let (told, cancelled) = tokio::join!(futures_util::future::join_all(steers), within(runtime.cancel(session("s"))));
    assert!(cancelled);
    assert_eq!(within(stream.finish()).await.unwrap().response().finish_reason, FinishReason::Cancelled);
    let kept = within(runtime.records(session("s"))).await.unwrap();
    let kept = kept.iter().filter(|record| serde_json::to_value(record).unwrap()["kind"] == "steered").count();
    let taken = told.iter().filter(|told| **told == Ok(true)).count();
    let in_doubt = told.iter().filter(|told| matches!(told, Err(AgentError::Store(_)))).count();
    assert!((taken..=taken + in_doubt).contains(&kept), "{kept} kept, told {told:?}");
}

/// A killed actor loses its mailbox, and one that dies after the append its reply: the caller gets one reply, and the
/// message is journaled once.
#[tokio::test]
async fn what_is_said_into_a_turn_whose_actor_dies_is_taken_once() {
    use bob_drill::traps::{Edge, Fault, Target, Trap};
    let before = [Edge::Before("Steered"), Edge::After("Steered"), Edge::Before("Saved"), Edge::After("Saved")];
    for edge in before {
        let (let_go, entered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (held, came) = (Arc::clone(&let_go), Arc::clone(&entered));
        let gated = tool("test/gated", "Returns when it is let.", move |_: Nothing, _| {
            let (held, came) = (Arc::clone(&held), Arc::clone(&came));
            async move {
                came.notify_one();
                held.notified().await;
                Ok(ToolOutput::text("ok"))
            }
        });
        let model = ScriptedLlm::from_fn(|request| match request.step {
            1 => ScriptedReply::call("test/gated", json!({})),
            _ => ScriptedReply::text(users(request).join(", ")),
        });
        let (runtime, traps) = trapped(over(model).tools(Arc::new(gated.read_only()))).await;
        let running = tokio::spawn({
            let runtime = runtime.clone();
            async move { turn(&runtime, say("go")).await }
        });
        within(entered.notified()).await;
        let trap = traps.arm(Trap::new(Target::AnyTurn, edge, Fault::Panic));
        assert_eq!(steered(&runtime, "hurry").await, Ok(true), "{edge:?}");
        assert_eq!(steered(&runtime, "hurry").await, Ok(true), "{edge:?}");
        // The call that only reads runs again behind the crash.
        let_go.notify_one();
        let_go.notify_waiters();
        let outcome = within(async {
            while !running.is_finished() {
                let_go.notify_one();
                tokio::task::yield_now().await;
            }
            running.await.unwrap()
        })
        .await;
        assert_eq!(outcome.content, "go, hurry", "{edge:?}");
        assert_eq!(traps.triggered(trap), 1, "{edge:?}");
        let records = within(runtime.records(session("s"))).await.unwrap();
        let kept = records.iter().filter(|record| serde_json::to_value(record).unwrap()["kind"] == "steered");
        assert_eq!(kept.count(), 1, "{edge:?}");
        within(runtime.shutdown()).await;
    }
}
