//! A runtime that hands its turns over: a step that runs is not interrupted, and the next process does the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bob::health::RuntimeStatus;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
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
