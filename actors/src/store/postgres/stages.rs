//! The order of what is written on a connection.
//!
//! Appends that wait while a statement runs go together into the next one, those of one session as one. A claim, a release, a taking and a deletion are
//! each a task of their own, so that one that waits for a row, or for news of an owner, delays no other session. Jobs of one
//! session keep their order: what comes while such a task has the session waits for its end.

use super::claims::Claimed;
use super::item::Item;
use super::job::Job;
use super::writer::Writer;
use bob_messages::ids::SessionId;
use futures_util::future::FutureExt;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};

/// From so many jobs on no more are taken at once.
const MAX_JOBS: usize = 4_096;

/// The most appends in one statement, and the most bytes of lines: enough for one sync to serve many, little enough that
/// the first of them does not wait long.
const MAX_APPENDS: usize = 500;
const MAX_BYTES: usize = 8 << 20;

/// Works until all senders are dropped, and until what they sent is done. A panic loses only answers.
pub(super) async fn run(writer: Writer, mut jobs: UnboundedReceiver<Vec<Job>>) {
    let mut stages = Stages::new(writer);
    loop {
        let (mut ready, came) = tokio::select! {
            Some(ended) = stages.beside.join_next() => (stages.ended(ended), Vec::new()),
            Some(jobs) = jobs.recv() => (Vec::new(), jobs),
            else => break,
        };
        // What waited behind a task came before.
        while let Some(ended) = stages.beside.try_join_next() {
            ready.extend(stages.ended(ended));
        }
        ready.extend(came);
        while ready.len() < MAX_JOBS
            && let Ok(more) = jobs.try_recv()
        {
            ready.extend(more);
        }
        if AssertUnwindSafe(stages.work(ready)).catch_unwind().await.is_err() {
            tracing::error!("the store panicked while it wrote; what it wrote is in doubt");
            stages.appends.clear();
            stages.sessions.clear();
            stages.writer.known.borrow_mut().clear();
        }
    }
}

struct Stages {
    writer: Rc<Writer>,
    /// Appends that are not sent yet, each of another session, and which of them is whose.
    appends: Vec<Item>,
    sessions: HashMap<SessionId, usize>,
    /// The tasks, each for another session, which it answers.
    beside: JoinSet<SessionId>,
    /// The sessions of the tasks, with the jobs that came meanwhile.
    behind: HashMap<SessionId, Vec<Job>>,
}

impl Stages {
    fn new(writer: Writer) -> Self {
        let (appends, sessions, beside, behind) = Default::default();
        Self { writer: Rc::new(writer), appends, sessions, beside, behind }
    }

    /// The jobs that waited for the task that has ended.
    fn ended(&mut self, ended: Result<SessionId, JoinError>) -> Vec<Job> {
        // No task panics, since each catches what it does, and none is aborted.
        ended.ok().and_then(|session| self.behind.remove(&session)).unwrap_or_default()
    }

    async fn work(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let session = job.session().clone();
            if let Some(behind) = self.behind.get_mut(&session) {
                behind.push(job);
                continue;
            }
            let before = self.sessions.get(&session).copied();
            match job {
                Job::Append(encoded, reply) => self.enqueue(session, Item::new(encoded, reply), before).await,
                job => {
                    if before.is_some() {
                        self.append().await;
                    }
                    self.begin(session, job);
                }
            }
        }
        self.append().await;
    }

    /// Puts an append to those that are sent next: to the one of its session, or behind all of them.
    async fn enqueue(&mut self, session: SessionId, mut item: Item, before: Option<usize>) {
        if let Some(before) = before.and_then(|before| self.appends.get_mut(before)) {
            match before.join(item) {
                None => return,
                Some(other) => item = other,
            }
            self.append().await;
        }
        self.sessions.insert(session, self.appends.len());
        self.appends.push(item);
    }

    async fn append(&mut self) {
        let (mut together, mut bytes) = (Vec::new(), 0);
        self.sessions.clear();
        for item in std::mem::take(&mut self.appends) {
            bytes += item.bytes();
            together.push(item);
            if together.len() == MAX_APPENDS || bytes >= MAX_BYTES {
                self.writer.append(std::mem::take(&mut together)).await;
                bytes = 0;
            }
        }
        self.writer.append(together).await;
    }

    /// Begins a job that is no append, as a task of its own.
    fn begin(&mut self, session: SessionId, job: Job) {
        self.behind.insert(session.clone(), Vec::new());
        let writer = Rc::clone(&self.writer);
        self.beside.spawn_local(async move {
            if AssertUnwindSafe(writer.perform(job)).catch_unwind().await.is_err() {
                tracing::error!(%session, "the store panicked over a session; what it did is in doubt");
                writer.known.borrow_mut().remove(&session);
            }
            session
        });
    }
}

impl Writer {
    async fn perform(&self, job: Job) {
        match job {
            Job::Append(encoded, reply) => self.append(vec![Item::new(encoded, reply)]).await,
            Job::Claim(session, span, reply) => {
                let claimed = self.claim(&session, span).await;
                reply.send(claimed.map(|Claimed { ledger, claim }| {
                    if self.options.take_over {
                        self.taken.borrow_mut().insert(session.clone());
                    }
                    self.known.borrow_mut().insert(session, ledger);
                    claim
                }));
            }
            Job::Release(session, epoch, reply) => {
                let is_ours = |known: &crate::store::Ledger| known.epoch() == epoch;
                if self.known.borrow().get(&session).is_some_and(is_ours) {
                    self.known.borrow_mut().remove(&session);
                }
                self.release(&session, epoch).await;
                reply.send(());
            }
            Job::Take(session, reply) => {
                self.known.borrow_mut().remove(&session);
                reply.send(self.take(&session).await);
            }
            Job::Delete(session, reply) => {
                let deleted = self.delete(&session).await;
                self.known.borrow_mut().remove(&session);
                reply.send(deleted);
            }
        }
    }
}
