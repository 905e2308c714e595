//! Takes the messages of the sessions that a runtime has, where something else begins their turns.

use super::session::SessionWork;
use super::shared::Shared;
use super::{APART, SWEPT_EACH};
use crate::Runtime;
use bob_actors::store::{Due, SessionStore};
use bob_messages::ids::SessionId;
use bob_messages::inbox::attend::Runs;
use bob_messages::submission::LiveState;
use futures_util::FutureExt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
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
    /// of them, and each 0.25 s. A session has one task at a time; none outlives this.
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
        let mut attended = AllAttended::default();
        let (mut failed, mut looked) = (false, Instant::now());
        loop {
            let woken = async {
                match failed {
                    true => pending().await,
                    false => self.shared.inbox.woken().await,
                }
            };
            tokio::select! {
                Some(taken) = attended.tasks.join_next(), if !attended.tasks.is_empty() => {
                    if let Ok(taken) = taken {
                        attended.give_back(taken);
                    }
                    continue;
                }
                () = woken => {}
                () = sleep_until(looked + SWEPT_EACH) => {}
            }
            sleep_until(looked + APART).await;
            // One that has just come may be another process's, which its actor is about to be told.
            let known: BTreeSet<SessionId> = attended.sessions.keys().cloned().collect();
            attended.note(&self.live().await, &self.shared);
            let is_kept = |session: &&SessionId| attended.sessions.contains_key(*session);
            let known: BTreeSet<SessionId> = known.iter().filter(is_kept).cloned().collect();
            if !known.is_empty() {
                match self.shared.inbox.due(0, &known).await {
                    Ok(due) => {
                        failed = false;
                        due.into_iter().filter(|due| known.contains(&due.session)).for_each(|due| attended.begin(&due));
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failed, true) {
                            tracing::warn!(%error, "it is not known whether messages wait for the sessions of this process");
                        }
                    }
                }
            }
            looked = Instant::now();
        }
    }

    /// The sessions that have an actor, and whether a turn of it runs.
    async fn live(&self) -> BTreeMap<SessionId, bool> {
        let live = self.shared.runtime.live_sessions(usize::MAX).await.into_iter();
        let has_actor = |state| matches!(state, LiveState::Idle | LiveState::Running | LiveState::Asking);
        live.filter(|live| has_actor(live.state)).map(|live| (live.session, live.state != LiveState::Idle)).collect()
    }
}

/// A session whose messages are taken.
struct Attended {
    /// `None` while its task has it.
    work: Option<SessionWork>,
    runs: Runs<'static>,
    /// When it had an actor last.
    seen: Instant,
    /// What it was like when its messages were taken last, and nothing was done with them: its mark, and what ran.
    quiet: Option<(u64, Runs<'static>)>,
}

/// What a task leaves: its session, its work, and what the session was like where nothing is to be done until that changes.
type Taken = (SessionId, SessionWork, Option<(u64, Runs<'static>)>);

/// All of them, and the tasks that take messages, at most one for each.
#[derive(Default)]
struct AllAttended {
    sessions: HashMap<SessionId, Attended>,
    tasks: JoinSet<Taken>,
}

impl AllAttended {
    /// Notes which sessions there are, and whether a turn of each runs. One whose turn was cancelled has no actor any more, and its
    /// message still.
    fn note(&mut self, live: &BTreeMap<SessionId, bool>, shared: &Arc<Shared>) {
        let runs = |session: &SessionId| if live.get(session) == Some(&true) { Runs::Another } else { Runs::Nothing };
        self.sessions.retain(|session, attended| {
            attended.runs = runs(session);
            if live.contains_key(session) {
                attended.seen = Instant::now();
            }
            attended.work.is_none() || attended.seen.elapsed() < LEFT_AFTER
        });
        for session in live.keys() {
            self.sessions.entry(session.clone()).or_insert_with_key(|session| Attended {
                work: Some(SessionWork::of_owner(Arc::clone(shared), session.clone())),
                runs: runs(session),
                seen: Instant::now(),
                quiet: None,
            });
        }
    }

    /// Takes the messages of a session, unless that was done and nothing has changed, or its task has not ended.
    fn begin(&mut self, due: &Due) {
        let Some(attended) = self.sessions.get_mut(&due.session) else { return };
        let (seen, session) = ((due.mark, attended.runs), due.session.clone());
        if attended.quiet == Some(seen) {
            return;
        }
        let Some(mut work) = attended.work.take() else { return };
        self.tasks.spawn(async move {
            let is_again = AssertUnwindSafe(work.attend_once(seen.1)).catch_unwind().await.unwrap_or_else(|_panic| {
                tracing::error!(%session, "the messages to a session were left: taking them panicked");
                true
            });
            (session, work, (!is_again).then_some(seen))
        });
    }

    fn give_back(&mut self, (session, work, quiet): Taken) {
        if let Some(attended) = self.sessions.get_mut(&session) {
            (attended.work, attended.quiet) = (Some(work), quiet);
        }
    }
}

#[cfg(test)]
#[path = "attendant_tests.rs"]
mod tests;
