//! Behind the lease of its store a process begins no side effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bob::inbox::StoreLease;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{CallStatus, ToolOutput, tool};
use bob::{AgentRuntime, SessionId};
use serde_json::json;

use crate::pass_on::pass_on;
use crate::support::runtime::{Nothing, build, over, say, turn};

/// A store whose owner's lease is over, or not.
struct Leased {
    store: Arc<MemoryStore>,
    is_held: AtomicBool,
    /// How often it was asked.
    asked: AtomicUsize,
}

impl SessionStore for Leased {
    pass_on!(store: claim, load, append, release, list, delete);

    fn lease(&self, _session: &SessionId) -> StoreLease {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.is_held.load(Ordering::SeqCst) {
            true => StoreLease::ForEver,
            false => StoreLease::Until(Some(Instant::now())),
        }
    }
}

#[tokio::test]
async fn behind_the_lease_of_its_store_only_calls_that_read_begin() {
    let store =
        Arc::new(Leased { store: MemoryStore::new(), is_held: AtomicBool::new(false), asked: AtomicUsize::new(0) });
    let (reads, writes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = |name, count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        tool(name, "Counts.", move |_: Nothing, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(ToolOutput::text("done")) }
        })
    };
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::call("test/read", json!({})),
        ScriptedReply::call("test/write", json!({})),
        ScriptedReply::text("done"),
    ]);
    let builder = over(model).store(Arc::clone(&store) as Arc<dyn SessionStore>);
    let builder = builder.tools(Arc::new(counting("test/read", &reads).read_only()));
    let runtime = build(builder.tools(Arc::new(counting("test/write", &writes)))).await;

    let response = turn(&runtime, say("go")).await;
    assert_eq!((reads.load(Ordering::SeqCst), writes.load(Ordering::SeqCst)), (1, 0));
    let written = response.tool_transcript.iter().find(|entry| entry.name.as_str() == "test/write").unwrap();
    assert_eq!(written.status, CallStatus::Cancelled, "{written:?}");
    assert!(written.result.contains("not run: the database that keeps the sessions did not renew"), "{written:?}");

    store.is_held.store(true, Ordering::SeqCst);
    turn(&runtime, say("again")).await;
    assert_eq!((reads.load(Ordering::SeqCst), writes.load(Ordering::SeqCst)), (2, 1));

    // A database that comes back takes what a turn writes before it has renewed the lease of its process.
    store.is_held.store(false, Ordering::SeqCst);
    let asked = Arc::clone(&store);
    let renewed = async move {
        while asked.asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        asked.is_held.store(true, Ordering::SeqCst);
    };
    store.asked.store(0, Ordering::SeqCst);
    tokio::join!(turn(&runtime, say("and again")), renewed);
    assert_eq!((reads.load(Ordering::SeqCst), writes.load(Ordering::SeqCst)), (3, 2));
    runtime.shutdown().await;
}
