//! The double does as its script says, and keeps what it was asked.

use super::{FakeRuntime, Operation, run};
use crate::approvals::{ApprovalId, Decision};
use crate::context::RequestContext;
use crate::events::{AgentStreamEvent, EventsFrom};
use crate::health::RuntimeStatus;
use crate::sessions::{ResumeReply, ResumeToken};
use crate::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, AgentRuntimeExt, SessionId};
use bob_messages::event::{AgentEvent, Delta};
use std::sync::Arc;

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn piece(text: &str) -> AgentEvent {
    AgentEvent::LlmStreamChunk { message_id: "m1".to_owned(), delta: Delta::Text(text.to_owned()) }
}

#[test]
fn turns_end_in_the_order_of_the_script() {
    run(async {
        let runtime = FakeRuntime::new().answers("one").ends(Err(AgentError::busy("later"))).answers("two");
        let ask = || runtime.run(AgentRequest::text(session(), "hi"));
        assert_eq!(ask().await.unwrap().response().content, "one");
        assert_eq!(ask().await, Err(AgentError::busy("later")));
        assert_eq!(ask().await.unwrap().response().session_id, session());
        assert!(matches!(ask().await, Err(AgentError::Internal(why)) if why.contains("no more turns")));
        assert_eq!(runtime.requests().len(), 4);
    });
}

#[test]
fn a_stream_has_the_events_and_then_the_end() {
    run(async {
        let runtime =
            FakeRuntime::new().answers("hello").with_events([piece("hel").in_step(1), piece("lo").in_step(1)]);
        let context = RequestContext::of_tenant("acme");
        let request = AgentRequest::text(session(), "hi").context(context.clone());
        let mut stream = runtime.run_stream(request).await.unwrap();
        let mut text = String::new();
        while let Some(item) = stream.next().await {
            if let AgentStreamEvent::TextDelta { text: piece, .. } = &item.event {
                text.push_str(piece);
            }
        }
        assert_eq!(text, "hello");
        let Some(Ok(AgentRunResult::Finished(outcome))) = stream.ended() else { panic!("{:?}", stream.ended()) };
        assert_eq!(outcome.content, "hello");

        let mut events = runtime.subscribe(session(), EventsFrom::Beginning).await.unwrap();
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            if let AgentEvent::TurnStarted { context: told, .. } = &event.event {
                assert_eq!(told.as_deref(), Some(&context));
            }
            kinds.push(event.to_json()["type"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds, ["turn.started", "llm.stream.chunk", "llm.stream.chunk", "turn.finished"]);
        let refused = FakeRuntime::new().ends(Err(AgentError::busy("later")));
        let refused = refused.run_stream(AgentRequest::text(session(), "hi")).await;
        assert_eq!(refused.err(), Some(AgentError::busy("later")));
    });
}

#[test]
fn what_was_asked_for_is_kept() {
    run(async {
        let runtime: Arc<dyn AgentRuntime> = Arc::new(FakeRuntime::new());
        assert!(runtime.cancel(session()).await);
        let fake = FakeRuntime::new().answers("resumed");
        let (token, said) = (ResumeToken::of(&session(), "1"), ResumeReply::Answer("yes".to_owned()));
        assert_eq!(fake.resume(token.clone(), said.clone()).await.unwrap().response().content, "resumed");
        assert_eq!(fake.decide(session(), ApprovalId::new("a1"), Decision::AllowOnce).await, Ok(true));
        fake.shutdown().await;
        assert_eq!(fake.health().await.status, RuntimeStatus::Stopped);
        let refused = fake.run(AgentRequest::text(session(), "hi")).await;
        assert!(matches!(refused, Err(AgentError::Stopped(_))), "{refused:?}");
        assert!(fake.ask("hi").await.is_err());
        assert!(fake.reload_servers(Vec::new()).is_err(), "a double has no servers");
        let decided = Operation::Decided(session(), ApprovalId::new("a1"), Decision::AllowOnce);
        assert_eq!(fake.operations(), [Operation::Resumed(token, said), decided, Operation::ShutDown]);
    });
}
