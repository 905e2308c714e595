//! A suspended line of agents whose turn is given up after a kill, or whose decision cannot be taken yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bob::approvals::Decision;
use bob::sessions::{FinishReason, SessionFilter, SessionPage};
use bob::store::{Claim, MemoryStore, SessionStore, StoreError};
use bob::{AgentRuntime, BoxFuture, SessionId};

use crate::pass_on::pass_on;
use crate::subagents::suspended::{all_closed, resume, run, staged, suspending, three_levels, waits};
use crate::subagents::suspended_kills::{all_appends, left};
use crate::support::runtime::{say, session, within};

#[tokio::test]
async fn a_turn_that_is_reported_after_a_kill_leaves_no_child_that_waits() {
    let all = all_appends().await;
    for cut in 1..all.len() {
        let (store, ran) = (left(&all[..cut].concat()).await, Arc::<AtomicUsize>::default());
        let runtime = staged(three_levels, &store, &ran).build().await.unwrap();
        assert_eq!(run(&runtime, say("something else")).await.content, "else", "{cut}");
        all_closed(&runtime).await;
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{cut}");
        within(runtime.shutdown()).await;
    }
}

/// A store in which another process has the sessions of the agents.
struct Away {
    store: Arc<MemoryStore>,
    is_away: AtomicBool,
}

impl SessionStore for Away {
    pass_on!(store: load, append, release, list, delete);

    fn claim<'a>(&'a self, of: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        if self.is_away.load(Ordering::SeqCst) && *of != session("s") {
            return Box::pin(async { Err(StoreError::Busy { owner: "another".to_owned() }) });
        }
        self.store.claim(of)
    }
}

#[tokio::test]
async fn a_decision_that_a_child_cannot_take_yet_is_asked_for_again() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let first = staged(three_levels, &store, &ran).build().await.unwrap();
    let (token, question) = waits(&run(&first, suspending()).await);
    within(first.shutdown()).await;
    let away = Arc::new(Away { store: Arc::clone(&store), is_away: true.into() });
    let kept: Arc<dyn SessionStore> = Arc::<Away>::clone(&away);
    let second = staged(three_levels, &store, &ran).store(kept).build().await.unwrap();
    let (again, asked) = waits(&resume(&second, &token, Decision::AllowOnce).await);
    assert_eq!((asked, ran.load(Ordering::SeqCst)), (question, 0));
    assert_ne!(again, token);
    away.is_away.store(false, Ordering::SeqCst);
    let ended = resume(&second, &again, Decision::AllowOnce).await;
    assert_eq!((ended.finish_reason, ran.load(Ordering::SeqCst)), (FinishReason::Final, 1), "{ended:?}");
    let used = ended.delegated.unwrap();
    assert_eq!((used.sessions, used.steps, used.tool_calls, ended.steps), (2, 4, 2, 2));
}

/// A store that cannot list its sessions at times.
struct Unlisted {
    store: Arc<MemoryStore>,
    fails: AtomicBool,
}

impl SessionStore for Unlisted {
    pass_on!(store: claim, load, append, release, delete);

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        if self.fails.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Unavailable("the disk is away".to_owned())) });
        }
        self.store.list(filter, cursor)
    }
}

#[tokio::test]
async fn a_session_whose_agents_cannot_be_listed_is_not_deleted() {
    let (store, ran) = (MemoryStore::new(), Arc::default());
    let unlisted = Arc::new(Unlisted { store: Arc::clone(&store), fails: true.into() });
    let kept: Arc<dyn SessionStore> = Arc::<Unlisted>::clone(&unlisted);
    let runtime = staged(three_levels, &store, &ran).store(kept).build().await.unwrap();
    waits(&run(&runtime, suspending()).await);
    let refused = within(runtime.delete(session("s"))).await;
    assert!(refused.as_ref().is_err_and(|error| error.to_string().contains("the disk is away")), "{refused:?}");
    assert!(!within(runtime.records(session("s"))).await.unwrap().is_empty(), "nothing was deleted");
    unlisted.fails.store(false, Ordering::SeqCst);
    assert!(within(runtime.delete(session("s"))).await.unwrap());
    let left = store.list(&SessionFilter::default(), None).await.unwrap();
    assert_eq!(left.sessions.len(), 0, "{left:?}");
}
