//! The order of what is written on a connection.
//!
//! What waits while a statement runs goes together into the next one. Jobs of one session keep their order: each stage
//! has every session once, its appends in one statement, its claims beside each other.

use super::appends::Item;
use super::claims::Claimed;
use super::job::Job;
use super::writer::Writer;
use crate::store::SessionOwner;
use crate::store::span::Span;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, StoreError};
use futures_util::future::{FutureExt, join_all};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use tokio::sync::mpsc::UnboundedReceiver;

/// The most jobs that are taken at once.
const MAX_JOBS: usize = 4_096;

/// The most appends in one statement, and the most bytes of lines: enough for one sync to serve many, little enough that
/// the first of them does not wait long.
const MAX_APPENDS: usize = 500;
const MAX_BYTES: usize = 8 << 20;

/// A session that is claimed, how much of it is read, and who is told.
type AskedClaim = (SessionId, Span, Reply<Result<Claim, StoreError>>);

/// A session that is taken from its owner, and who is told whose it was.
type AskedTaking = (SessionId, Reply<Result<Option<SessionOwner>, StoreError>>);

/// Jobs of which each concerns another session.
#[derive(Default)]
struct Stage {
    sessions: HashSet<SessionId>,
    appends: Vec<Item>,
    claims: Vec<AskedClaim>,
    releases: Vec<(SessionId, u64, Reply<()>)>,
    takings: Vec<AskedTaking>,
    deletions: Vec<(SessionId, Reply<Result<bool, StoreError>>)>,
}

impl Writer {
    /// Works until all senders are dropped. A panic loses only answers.
    pub(super) async fn run(mut self, mut jobs: UnboundedReceiver<Job>) {
        while let Some(first) = jobs.recv().await {
            let mut waiting = vec![first];
            while waiting.len() < MAX_JOBS
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push(job);
            }
            if AssertUnwindSafe(self.work(waiting)).catch_unwind().await.is_err() {
                tracing::error!("the store panicked while it wrote; what it wrote is in doubt");
                self.known.clear();
            }
        }
    }

    async fn work(&mut self, jobs: Vec<Job>) {
        let mut stage = Stage::default();
        for job in jobs {
            let session = job.session().clone();
            if !stage.sessions.insert(session.clone()) {
                self.perform(std::mem::take(&mut stage)).await;
                stage.sessions.insert(session);
            }
            match job {
                Job::Append(encoded, reply) => stage.appends.push(Item::new(encoded, reply)),
                Job::Claim(session, span, reply) => stage.claims.push((session, span, reply)),
                Job::Release(session, epoch, reply) => stage.releases.push((session, epoch, reply)),
                Job::Take(session, reply) => stage.takings.push((session, reply)),
                Job::Delete(session, reply) => stage.deletions.push((session, reply)),
            }
        }
        self.perform(stage).await;
    }

    async fn perform(&mut self, stage: Stage) {
        let (mut together, mut bytes) = (Vec::new(), 0);
        for item in stage.appends {
            bytes += item.bytes();
            together.push(item);
            if together.len() == MAX_APPENDS || bytes >= MAX_BYTES {
                self.append(std::mem::take(&mut together)).await;
                bytes = 0;
            }
        }
        self.append(together).await;
        let writer = &*self;
        let claimed = stage.claims.into_iter().map(async |(session, span, reply)| {
            let claimed = writer.claim(&session, span).await;
            (session, claimed, reply)
        });
        for (session, claimed, reply) in join_all(claimed).await {
            reply.send(claimed.map(|Claimed { ledger, claim }| {
                if self.options.take_over {
                    self.taken.insert(session.clone());
                }
                self.known.insert(session, ledger);
                claim
            }));
        }
        for (session, epoch, _) in &stage.releases {
            if self.known.get(session).is_some_and(|known| known.epoch() == *epoch) {
                self.known.remove(session);
            }
        }
        self.release(stage.releases).await;
        for (session, reply) in stage.takings {
            self.known.remove(&session);
            reply.send(self.take(&session).await);
        }
        for (session, reply) in stage.deletions {
            let deleted = self.delete(&session).await;
            self.known.remove(&session);
            reply.send(deleted);
        }
    }
}
