//! File work of many calls leaves the blocking threads of the runtime to its other users.

use super::fixture::Workspace;
use super::*;
use serde_json::json;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// More than tokio has blocking threads.
const CALLS: usize = 600;

#[tokio::test]
async fn six_hundred_long_searches_keep_nobody_else_from_a_blocking_thread() {
    let workspace = Workspace::new();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let invocation = workspace.invocation("local/search_files", json!({}));
    let searches: Vec<_> = std::iter::repeat_with(|| {
        let gate = Arc::clone(&gate);
        let work = move |_: &Invocation, _: &Unwanted| {
            let closed = gate.0.lock().expect("a lock");
            drop(gate.1.wait_while(closed, |is_open| !*is_open).expect("a lock"));
            Ok(ToolOutput::text("found"))
        };
        tokio::spawn(blocking(invocation.clone(), work))
    })
    .take(CALLS)
    .collect();
    // Each has begun or waits for its turn.
    tokio::task::yield_now().await;
    let other = tokio::time::timeout(Duration::from_secs(30), tokio::task::spawn_blocking(|| ())).await;
    *gate.0.lock().expect("a lock") = true;
    gate.1.notify_all();
    assert!(other.is_ok(), "all blocking threads are taken");
    for search in searches {
        assert_eq!(search.await.expect("it ends").expect("it finds").plain(), "found");
    }
    assert!(blocking(invocation, |_, _| Ok(ToolOutput::text("next"))).await.is_ok());
}
