//! A suspended line of agents whose actors die at any message, and whose program is killed between any two appends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bob::approvals::Decision;
use bob::sessions::FinishReason;
use bob::store::{Append, Fact, MemoryStore, Record, SessionStore, StoreError};
use bob::{AgentResponse, AgentRuntime, BoxFuture, Runtime, SessionId};
use bob_drill::traps::{Edge, Fault, Target, Trap, Traps};
use bob_messages::ids::CallId;

use crate::pass_on::pass_on;
use crate::subagents::suspended::{assert_begun_once, folded, resume, run, staged, suspending, three_levels, waits};
use crate::support::runtime::{session, within};

/// The story from its beginning to its end, with one yes.
async fn told(runtime: &Runtime) -> AgentResponse {
    let (token, _) = waits(&run(runtime, suspending()).await);
    resume(runtime, &token, Decision::AllowOnce).await
}

#[tokio::test]
async fn actors_that_die_at_any_message_lose_nothing_and_begin_no_child_twice() {
    let mut passages = 0;
    loop {
        let (store, ran, traps) = (MemoryStore::new(), Arc::<AtomicUsize>::default(), Traps::default());
        let runtime = staged(three_levels, &store, &ran).hook(traps.hook()).build().await.unwrap();
        traps.arm(Trap::new(Target::AnyTurn, Edge::Next, Fault::Kill).after(passages));
        let ended = told(&runtime).await;
        assert_eq!(ended.finish_reason, FinishReason::Final, "{passages}: {ended:?}");
        let used = ended.delegated.unwrap();
        assert_eq!((used.sessions, used.steps, used.tool_calls, ended.steps), (2, 4, 2, 2), "{passages}");
        assert!(ran.load(Ordering::SeqCst) <= 1, "{passages}");
        assert_begun_once(&runtime).await;
        if traps.triggered_in_all() == 0 {
            break;
        }
        within(runtime.shutdown()).await;
        passages += 1;
    }
    assert!(passages > 40, "it died {passages} times");
}

/// A store that keeps the order of the appends.
struct Ordered {
    store: Arc<MemoryStore>,
    order: Mutex<Vec<Vec<Arc<Record>>>>,
}

impl SessionStore for Ordered {
    pass_on!(store: claim, load, release, list, delete);

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        self.order.lock().unwrap().extend(batch.iter().map(|append| append.records.clone()));
        self.store.append(batch)
    }
}

/// A store with these records, as a kill of the program leaves them.
pub(super) async fn left(records: &[Arc<Record>]) -> Arc<MemoryStore> {
    let left = MemoryStore::new();
    let ids: BTreeSet<_> = records.iter().map(|record| record.session.clone()).collect();
    for id in ids {
        let records: Vec<_> = records.iter().filter(|record| record.session == id).cloned().collect();
        let newest = records.last().map_or(0, |record| record.epoch);
        let mut epoch = 0;
        while epoch < newest {
            epoch = within(left.claim(&id)).await.unwrap().epoch;
        }
        within(left.append(vec![Append { session: id.clone(), epoch, expected_version: 0, records }])).await;
        within(left.release(&id, epoch)).await;
    }
    left
}

/// The appends of the story, in their order.
pub(super) async fn all_appends() -> Vec<Vec<Arc<Record>>> {
    let (store, ran) = (MemoryStore::new(), Arc::<AtomicUsize>::default());
    let ordered = Arc::new(Ordered { store: Arc::clone(&store), order: Mutex::default() });
    let kept: Arc<dyn SessionStore> = Arc::<Ordered>::clone(&ordered);
    let first = staged(three_levels, &store, &ran).store(kept).build().await.unwrap();
    assert_eq!(told(&first).await.finish_reason, FinishReason::Final);
    within(first.shutdown()).await;
    let all = std::mem::take(&mut *ordered.order.lock().unwrap());
    assert!(all.len() > 20, "{}", all.len());
    all
}

#[tokio::test]
async fn a_program_that_is_killed_between_any_two_appends_is_finished_by_another_one() {
    let all = all_appends().await;
    for cut in 1..all.len() {
        let before = &all[..cut].concat();
        let had_begun = before.iter().any(|record| {
            matches!(&record.fact, Fact::Intent { call, .. } if !is_call_of_agent(before, &record.session, call))
        });
        let (store, ran) = (left(before).await, Arc::<AtomicUsize>::default());
        let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
        let mut ended = None;
        // Finished, then resumed if it waits.
        for result in within(runtime.finish(session("s"))).await.unwrap() {
            ended = Some(result.response().clone());
        }
        let open = folded(&runtime, &session("s")).await.open;
        if let Some(suspension) = open.and_then(|open| open.suspended) {
            ended = Some(resume(&runtime, &suspension.token, Decision::AllowOnce).await);
        }
        let ran = ran.load(Ordering::SeqCst);
        assert!(ran <= 1 && !(had_begun && ran > 0), "{cut}: {ran} {had_begun}");
        let root = folded(&runtime, &session("s")).await;
        assert!(root.open.is_none(), "{cut}");
        let ended = ended.unwrap_or_else(|| AgentResponse::clone(root.last.as_ref().unwrap()));
        assert_eq!(ended.finish_reason, FinishReason::Final, "{cut}: {ended:?}");
        let used = ended.delegated.unwrap();
        assert_eq!((used.sessions, used.steps, used.tool_calls, ended.steps), (2, 4, 2, 2), "{cut}");
        assert_begun_once(&runtime).await;
        within(runtime.shutdown()).await;
    }
}

fn is_call_of_agent(records: &[Arc<Record>], of: &SessionId, call: &CallId) -> bool {
    records.iter().filter(|record| record.session == *of).any(|record| match &record.fact {
        Fact::Answered(answered) => {
            answered.calls.iter().any(|known| known.id == *call && known.name.as_str().starts_with("agent/"))
        }
        _ => false,
    })
}
