//! Runs what is in the inboxes of sessions, and the turns that dead processes left open.
//!
//! Owns the choice of sessions and how many it has at a time. A session is worked on by one task, which hands one message after
//! the other to the runtime; everything about turns is the runtime's. What is in the journal decides whether something was done:
//! a message is removed behind its outcome, and handed in again after any failure.

mod attendant;
mod session;
mod shared;

pub use attendant::Attendant;
pub use shared::Worked;

use crate::Runtime;
use crate::sessions::{SessionFilter, SessionState};
use bob_actors::store::{Due, Inbox, SessionStore};
use bob_messages::ids::SessionId;
use bob_messages::inbox::attend::rest_ms;
use futures_util::FutureExt;
use session::{Ended, SessionWork};
use shared::Shared;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Between two looks for something to do, where no process tells of it.
const SWEPT_EACH: Duration = Duration::from_millis(250);

/// Between two looks at least, and the most sessions that are begun at each: 2,000 a second.
const APART: Duration = Duration::from_millis(50);
const MOST_AT_ONCE: usize = 100;

/// Behind a look that began as many as it could: for each of them, so that there are no more than those a second, and at least.
/// Others may wait for the places that become free.
const APART_EACH: Duration = Duration::from_micros(500);
const APART_LEAST: Duration = Duration::from_millis(20);

/// Between two looks at the list of sessions, in a store that does not tell of turns that were left open.
const LISTED_EACH: Duration = Duration::from_secs(2);

/// How long behind a rest its failures are remembered: another worker may have the session.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// How long the tasks may take to end when the runtime has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// Works on the sessions of a store, with a runtime that has this store.
pub struct Worker {
    shared: Arc<Shared>,
    concurrency: usize,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}

impl Worker {
    /// The default of [`concurrency`](Self::concurrency): many for a provider, few for a machine.
    pub const CONCURRENCY: usize = 64;

    /// A worker of this store; `None` when the store has no inbox. The runtime must have been built with the store.
    pub fn new(runtime: Runtime, store: Arc<dyn SessionStore>) -> Option<Self> {
        let inbox = store.inbox()?;
        let shared = Arc::new(Shared::new(runtime, store, inbox));
        Some(Self { shared, concurrency: Self::CONCURRENCY })
    }

    /// The most sessions that are worked on at a time, at least 1; [`CONCURRENCY`](Self::CONCURRENCY) by default.
    #[must_use]
    pub fn concurrency(self, sessions: usize) -> Self {
        Self { concurrency: sessions.max(1), ..self }
    }

    /// Calls this behind each message and each turn that has ended. It must not block.
    #[must_use]
    pub fn telling(mut self, told: impl Fn(&Worked) + Send + Sync + 'static) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.told = Box::new(told);
        }
        self
    }

    /// Works until `until` is cancelled; then turns are handed over behind the step that they are in
    /// ([`Runtime::hand_over`]). Returns when the runtime has ended.
    pub async fn run(self, until: CancellationToken) {
        let _told_to_the_tasks = self.shared.until.clone().drop_guard();
        let mut at_work = AtWork::new(&self.shared, self.concurrency);
        let mut looked = Looked::default();
        let mut tree = self.shared.runtime.ended();
        loop {
            tokio::select! {
                biased;
                () = until.cancelled() => break,
                // Without a runtime there is nothing to work with.
                () = async { drop(tree.wait_for(Option::is_some).await) } => break,
                something_waits = at_work.ended(), if !at_work.tasks.is_empty() => {
                    looked.soon |= something_waits;
                    continue;
                }
                () = looked.again(&*self.shared.inbox) => {}
            }
            tokio::select! {
                biased;
                // What the store gives after that is given back with all that this process owns.
                () = until.cancelled() => break,
                apart = at_work.look(&mut looked) => looked.next = Instant::now() + apart,
            }
        }
        self.shared.until.cancel();
        let poked: Vec<_> = at_work.sessions.values().map(|working| Arc::clone(&working.poked)).collect();
        tokio::select! {
            () = self.left(&mut at_work) => {}
            never = poke(&*self.shared.inbox, &poked) => match never {},
        }
    }

    /// Hands over what runs, and waits for the ends of the tasks.
    async fn left(&self, at_work: &mut AtWork) {
        let all_ended = async { while at_work.tasks.join_next().await.is_some() {} };
        let handed_over = async {
            self.shared.runtime.hand_over().await;
            Instant::now() + ENDED_WITHIN
        };
        // The tasks settle what ends within the grace period meanwhile.
        tokio::pin!(all_ended);
        let limit = tokio::select! {
            () = &mut all_ended => return self.shared.runtime.hand_over().await,
            limit = handed_over => limit,
        };
        let _ended_or_left = timeout_at(limit, all_ended).await;
    }
}

/// Has tasks look at the messages to their sessions when some may have come, among them cancellations of turns whose step may take
/// as long as the grace period.
async fn poke(inbox: &dyn Inbox, tasks: &[Arc<Notify>]) -> Infallible {
    loop {
        let _told_or_time_to_look = timeout(SWEPT_EACH, inbox.woken()).await;
        tasks.iter().for_each(|poked| poked.notify_one());
        sleep(SWEPT_EACH).await;
    }
}

/// When was looked for something to do, and whether that worked.
#[derive(Debug)]
struct Looked {
    /// When the next look may be.
    next: Instant,
    listed: Option<Instant>,
    /// Where the list of sessions goes on.
    cursor: Option<String>,
    failed: bool,
    /// A place is free for which sessions may wait, or a session was let go to which a message came meanwhile.
    soon: bool,
}

impl Default for Looked {
    fn default() -> Self {
        Self { next: Instant::now(), listed: None, cursor: None, failed: false, soon: false }
    }
}

impl Looked {
    /// Waits until it is time to look again.
    async fn again(&self, inbox: &dyn Inbox) {
        match self.failed {
            true => sleep(SWEPT_EACH).await,
            false if self.soon => {}
            false => drop(timeout(SWEPT_EACH, inbox.woken()).await),
        }
        sleep_until(self.next).await;
    }
}

/// The sessions that are worked on, and those that rest behind a failure. Only the former have a place.
struct AtWork {
    shared: Arc<Shared>,
    most: usize,
    tasks: JoinSet<Ended>,
    sessions: HashMap<SessionId, Working>,
    by_task: HashMap<Id, SessionId>,
    resting: HashMap<SessionId, Resting>,
}

struct Working {
    poked: Arc<Notify>,
    /// Changes with its messages.
    mark: u64,
    /// How often it failed before, one time after the other.
    failed: u32,
    /// How many of these failures counted.
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
struct Resting {
    until: Instant,
    /// How often it failed, one time after the other.
    failed: u32,
    /// How many of these failures count towards the end of attempts.
    failures: u32,
}

impl AtWork {
    fn new(shared: &Arc<Shared>, most: usize) -> Self {
        let (sessions, by_task, resting) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { shared: Arc::clone(shared), most, tasks: JoinSet::new(), sessions, by_task, resting }
    }

    /// Waits for the end of a task, and forgets its session. Whether something may wait: all places were taken before, or the task
    /// was told of a message and did not look for it any more.
    async fn ended(&mut self) -> bool {
        let (id, ended) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ended))) => (id, Some(ended)),
            Some(Err(error)) => {
                tracing::error!(%error, "the work on a session failed; it is taken again");
                (error.id(), None)
            }
            None => return false,
        };
        let was_full = self.free() == 0;
        let Some(session) = self.by_task.remove(&id) else { return was_full };
        let (mut failed, mut failures, mut something_waits) = (0, 0, was_full);
        if let Some(working) = self.sessions.remove(&session) {
            (failed, failures) = (working.failed, working.failures);
            something_waits |= working.poked.notified().now_or_never().is_some();
        }
        self.note_places();
        let ended = ended.unwrap_or(Ended { failures: failures.saturating_add(1), rests: Some(true) });
        if let Some(counts) = ended.rests {
            let failed = failed.saturating_add(1);
            let times = if counts { ended.failures } else { failed };
            let until = Instant::now() + Duration::from_millis(rest_ms(times, counts));
            self.resting.insert(session, Resting { until, failed, failures: ended.failures });
        }
        something_waits
    }

    fn note_places(&self) {
        self.shared.full.store(self.free() == 0, Ordering::Relaxed);
    }

    fn free(&self) -> usize {
        self.most.saturating_sub(self.sessions.len())
    }

    /// Looks once, and answers how long the next look is to wait.
    async fn look(&mut self, looked: &mut Looked) -> Duration {
        looked.soon = false;
        let now = Instant::now();
        self.resting.retain(|_, resting| now < resting.until + FORGOTTEN_AFTER);
        let resting = self.resting.iter().filter(|(_, resting)| now < resting.until);
        let known = self.sessions.keys().chain(resting.map(|(session, _)| session)).cloned().collect();
        let (before, asked) = (self.free(), self.free().min(MOST_AT_ONCE));
        let due = self.shared.inbox.due(asked, &known).await;
        match due {
            Ok(due) => {
                looked.failed = false;
                due.into_iter().for_each(|due| self.begin(due));
            }
            Err(error) => {
                if !std::mem::replace(&mut looked.failed, true) {
                    tracing::warn!(%error, "it is not known what there is to do");
                }
            }
        }
        let is_time = looked.listed.is_none_or(|listed| listed.elapsed() >= LISTED_EACH);
        if !self.shared.inbox.finds_open_turns() && is_time && self.free() > 0 {
            looked.listed = Some(Instant::now());
            self.look_for_open_turns(looked).await;
        }
        let begun = before.saturating_sub(self.free());
        if asked == 0 || begun < asked {
            return APART;
        }
        looked.soon |= self.free() > 0;
        // At most `MOST_AT_ONCE`.
        (APART_EACH * begun as u32).max(APART_LEAST)
    }

    /// Turns that were left open, a page of them at a time; those of living processes are refused as busy, and rest.
    async fn look_for_open_turns(&mut self, looked: &mut Looked) {
        let filter =
            SessionFilter { state: Some(SessionState::Running), limit: MOST_AT_ONCE, ..SessionFilter::default() };
        if let Ok(page) = self.shared.store.list(&filter, looked.cursor.take().as_deref()).await {
            // One that works for another session is taken up by the turn of that one.
            let open = page.sessions.into_iter().filter(|open| open.parent.is_none());
            let open: Vec<_> = open.filter(|open| !self.sessions.contains_key(&open.session)).collect();
            // The rest of a page that has more than there are places for is looked at with the next one.
            looked.cursor = page.cursor;
            open.into_iter().for_each(|open| self.begin(Due { session: open.session, epoch: None, mark: 0 }));
        }
    }

    fn begin(&mut self, due: Due) {
        if let Some(working) = self.sessions.get_mut(&due.session) {
            if std::mem::replace(&mut working.mark, due.mark) != due.mark {
                working.poked.notify_one();
            }
            return;
        }
        let resting = self.resting.get(&due.session).copied();
        // What a store has given for nothing, it gives again.
        if self.free() == 0 || resting.is_some_and(|resting| Instant::now() < resting.until) {
            return;
        }
        self.resting.remove(&due.session);
        let (session, poked, mark) = (due.session.clone(), Arc::<Notify>::default(), due.mark);
        let (failed, failures) = resting.map_or((0, 0), |resting| (resting.failed, resting.failures));
        let work = SessionWork::new(Arc::clone(&self.shared), due, Arc::clone(&poked), failures);
        let task = self.tasks.spawn(work.run());
        self.by_task.insert(task.id(), session.clone());
        self.sessions.insert(session, Working { poked, mark, failed, failures });
        self.note_places();
    }
}
