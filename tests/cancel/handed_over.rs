//! A runtime that hands its turns over: a step that runs is not interrupted, and the next process does the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bob::health::RuntimeStatus;
use bob::inbox::{InboxMessage, InboxRequest, SubmitRequest, Submitter, Worker};
use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::{CancellationToken, FinishReason, RequestId};
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{FnTool, Risk, ToolOutput, tool};
use bob::{AgentError, AgentRuntime, Runtime};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::runtime::{Nothing, build, over, say, session, within};

/// A grace period behind which no test waits.
const LONG: Duration = Duration::from_secs(3_600);

#[derive(Clone, Default)]
struct Counted {
    begun: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    entered: Arc<Notify>,
    opened: Arc<Notify>,
}

impl Counted {
    /// A tool with an effect that ends when it is let.
    fn writes(&self) -> FnTool {
        let counted = self.clone();
        let write = move |_: Nothing, _| {
            counted.begun.fetch_add(1, Ordering::SeqCst);
            counted.entered.notify_one();
            let opened = Arc::clone(&counted.opened);
            async move {
                opened.notified().await;
                Ok(ToolOutput::text("written"))
            }
        };
        tool("test/write", "Writes.", write).risk(Risk::Medium)
    }

    /// A process with a model that has the tool write, and says well when it has its result.
    async fn process(&self, store: &Arc<MemoryStore>) -> Runtime {
        let asked = Arc::clone(&self.asked);
        let model = ScriptedLlm::from_fn(move |request| {
            asked.fetch_add(1, Ordering::SeqCst);
            match format!("{:?}", request.messages.last()).contains("written") {
                true => ScriptedReply::text("well"),
                false => ScriptedReply::call("test/write", json!({})),
            }
        });
        let store: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(store);
        let builder = over(model).local_tools(false).tools(Arc::new(self.writes()));
        build(builder.store(store).shutdown_grace(LONG)).await
    }
}

#[tokio::test]
async fn a_call_that_runs_ends_first_and_the_next_process_does_the_next_step() {
    let (store, counted) = (MemoryStore::new(), Counted::default());
    let runtime = counted.process(&store).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.run(say("go")).await }
    });
    within(counted.entered.notified()).await;
    let handing_over = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.hand_over().await }
    });
    within(async {
        while runtime.health().await.status != RuntimeStatus::Draining {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // It is answered behind what tells the turn that it is handed over.
    within(runtime.cancel(session("other"))).await;
    assert!(!running.is_finished(), "the call runs");
    counted.opened.notify_one();
    within(handing_over).await.unwrap();
    let left = within(running).await.unwrap();
    assert!(matches!(left, Err(AgentError::Stopped(_))), "{left:?}");
    assert_eq!(counted.asked.load(Ordering::SeqCst), 1, "no further step began");

    let next = counted.process(&store).await;
    let ended = within(next.finish(session("s"))).await.unwrap();
    let outcome = ended[0].response();
    assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "well"), "{outcome:?}");
    assert_eq!(counted.begun.load(Ordering::SeqCst), 1, "it is not repeated");
    within(next.shutdown()).await;
}

/// When a cancellation comes, as its process hands over.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Comes {
    /// While the call runs, which does not end by itself.
    InTheStep,
    /// As the call ends, behind which the turn is left.
    AtItsEnd,
    /// When the turn was left, and no process has it.
    Between,
}

#[tokio::test]
async fn a_cancellation_that_comes_during_a_hand_over_ends_the_turn_in_that_process_or_in_the_next() {
    for comes in [Comes::Between, Comes::AtItsEnd, Comes::InTheStep] {
        let (store, counted) = (MemoryStore::new(), Counted::default());
        let shared: Arc<dyn SessionStore> = Arc::<MemoryStore>::clone(&store);
        let submitter = Submitter::new(Arc::clone(&shared)).unwrap();
        let (one, request) = (session("s"), RequestId::new("r"));
        let submit = SubmitRequest { parts: vec![ContentPart::text("go")], ..SubmitRequest::default() };
        let submit = InboxRequest::Submit(Box::new(submit));
        let put = submitter.put(InboxMessage::new(one.clone(), request.clone(), 1, submit));
        let mut pending = put.await.unwrap();

        let runtime = counted.process(&store).await;
        let until = CancellationToken::new();
        let works = tokio::spawn(Worker::new(runtime.clone(), Arc::clone(&shared)).unwrap().run(until.clone()));
        within(counted.entered.notified()).await;
        // The worker has looked at the messages to the session when it has taken this one.
        let (steer, parts) = (RequestId::new("steer"), vec![ContentPart::text("gently")]);
        let steered = InboxMessage::new(one.clone(), steer.clone(), 2, InboxRequest::Steer { parts });
        drop(submitter.put(steered).await.unwrap());
        within(submitter.taken(&one, &steer)).await.unwrap();
        until.cancel();
        within(async {
            while runtime.health().await.status != RuntimeStatus::Draining {
                tokio::task::yield_now().await;
            }
        })
        .await;
        if comes != Comes::Between {
            submitter.cancel(&one, &request, 2).await.unwrap();
        }
        if comes != Comes::InTheStep {
            counted.opened.notify_one();
        }
        if comes == Comes::InTheStep {
            // No other process is there to do it.
            let outcome = within(pending.outcome()).await.unwrap();
            assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
        }
        within(works).await.unwrap();
        if comes == Comes::Between {
            submitter.cancel(&one, &request, 2).await.unwrap();
        }

        let until = CancellationToken::new();
        let next = Worker::new(counted.process(&store).await, Arc::clone(&shared)).unwrap();
        let works = tokio::spawn(next.run(until.clone()));
        let outcome = within(pending.outcome()).await.unwrap();
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled, "{comes:?}");
        let told = within(submitter.cancelled(&one, &request)).await.unwrap();
        assert_eq!(told.map(|outcome| outcome.finish_reason), Some(FinishReason::Cancelled), "{comes:?}");
        assert_eq!(counted.asked.load(Ordering::SeqCst), 1, "{comes:?}: no model was asked again");
        assert_eq!(counted.begun.load(Ordering::SeqCst), 1, "{comes:?}: the call was not repeated");
        until.cancel();
        within(works).await.unwrap();
    }
}
