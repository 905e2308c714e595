//! Takes the messages of the sessions that a runtime has, where something else begins their turns.

use super::session::SessionWork;
use super::shared::Shared;
use super::{APART, SWEPT_EACH};
use crate::Runtime;
use bob_actors::store::SessionStore;
use bob_messages::ids::SessionId;
use bob_messages::inbox::attend::Runs;
use bob_messages::submission::LiveState;
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long a session is attended to that has no actor any more.
const LEFT_AFTER: Duration = Duration::from_secs(5);

/// Gives the sessions that a runtime has what other processes put into their inboxes: cancellations, decisions, messages to the
/// running turn and changes of options. It begins no turn for a message that asks for one, which waits until the session is free; a
/// decision resumes the turn that waits for it. A
/// [`Worker`](super::Worker) takes them. A program that runs turns itself has one beside them; a worker needs none.
pub struct Attendant {
    shared: Arc<Shared>,
}

/// A session whose messages are taken.
struct Attended {
    work: SessionWork,
    runs: Runs<'static>,
    /// When it had an actor last.
    seen: Instant,
}

impl std::fmt::Debug for Attendant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendant").finish_non_exhaustive()
    }
}

impl Attendant {
    /// One for this runtime, which must have been built with the store; `None` when the store has no inbox.
    pub fn new(runtime: Runtime, store: Arc<dyn SessionStore>) -> Option<Self> {
        let inbox = store.inbox()?;
        Some(Self { shared: Arc::new(Shared::new(runtime, store, inbox)) })
    }

    /// Attends to the sessions until `until` is cancelled, or the runtime has ended. It looks for messages when the store tells
    /// of them, and each 0.25 s.
    pub async fn run(self, until: CancellationToken) {
        let mut tree = self.shared.runtime.ended();
        let ended = async { drop(tree.wait_for(Option::is_some).await) };
        tokio::select! {
            () = until.cancelled() => {}
            () = ended => {}
            () = self.attend() => {}
        }
    }

    async fn attend(&self) {
        let (mut attended, mut failed) = (HashMap::<SessionId, Attended>::new(), false);
        loop {
            match failed {
                true => sleep(SWEPT_EACH).await,
                false => drop(timeout(SWEPT_EACH, self.shared.inbox.woken()).await),
            }
            // One that has just come may be another process's, which its actor is about to be told.
            let known: BTreeSet<SessionId> = attended.keys().cloned().collect();
            self.look(&mut attended).await;
            let is_kept = |session: &&SessionId| attended.contains_key(*session);
            let known: BTreeSet<SessionId> = known.iter().filter(is_kept).cloned().collect();
            if !known.is_empty() {
                match self.shared.inbox.due(0, &known).await {
                    Ok(due) => {
                        failed = false;
                        let due: BTreeSet<SessionId> = due.into_iter().map(|due| due.session).collect();
                        let is_due = |session: &SessionId| due.contains(session) && known.contains(session);
                        let due = attended.iter_mut().filter(|(session, _)| is_due(session));
                        join_all(due.map(|(session, attended)| async move {
                            let work = AssertUnwindSafe(attended.work.attend_once(attended.runs)).catch_unwind();
                            if work.await.is_err() {
                                tracing::error!(%session, "the messages to a session were left: taking them panicked");
                            }
                        }))
                        .await;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failed, true) {
                            tracing::warn!(%error, "it is not known whether messages wait for the sessions of this process");
                        }
                    }
                }
            }
            sleep(APART).await;
        }
    }

    /// Notes which sessions there are. One whose turn was cancelled has no actor any more, and its message still.
    async fn look(&self, attended: &mut HashMap<SessionId, Attended>) {
        let live = self.live().await;
        attended.retain(|session, attended| {
            attended.runs = if live.get(session) == Some(&true) { Runs::Another } else { Runs::Nothing };
            if live.contains_key(session) {
                attended.seen = Instant::now();
            }
            attended.seen.elapsed() < LEFT_AFTER
        });
        for (session, runs) in live {
            attended.entry(session).or_insert_with_key(|session| Attended {
                work: SessionWork::of_owner(Arc::clone(&self.shared), session.clone()),
                runs: if runs { Runs::Another } else { Runs::Nothing },
                seen: Instant::now(),
            });
        }
    }

    /// The sessions that have an actor, and whether a turn of it runs.
    async fn live(&self) -> BTreeMap<SessionId, bool> {
        let live = self.shared.runtime.live_sessions(usize::MAX).await.into_iter();
        let has_actor = |state| matches!(state, LiveState::Idle | LiveState::Running | LiveState::Asking);
        live.filter(|live| has_actor(live.state)).map(|live| (live.session, live.state != LiveState::Idle)).collect()
    }
}
