//! The thread that writes: everything that waits goes into one transaction.
//!
//! Answers are given after the commit. When that fails, nobody is told of a success,
//! and what is known of the sessions is read again before it is relied on. What a
//! job writes is decided at the desk.

use super::database::Database;
use super::desk::{Desk, Tell};
use super::file;
use super::reader::Seen;
use super::tables::Pen;
use crate::store::owners::StoreOptions;
use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

/// The most jobs in one transaction. Each may be a whole batch of appends.
const MAX_JOBS: usize = 4096;

/// What the writer does.
pub(super) enum Job {
    Append(Vec<Append>, Reply<Vec<Result<u64, StoreError>>>),
    Claim(SessionId, Box<Seen>, Reply<Result<Claim, StoreError>>),
    Release(SessionId, u64, Reply<()>),
    Delete(SessionId, Reply<Result<bool, StoreError>>),
    Flush(Reply<Result<(), StoreError>>),
}

pub(super) struct Writer {
    path: PathBuf,
    options: StoreOptions,
    /// Made by the first claim.
    database: Option<Database>,
    desk: Option<Desk>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, options: StoreOptions, database: Option<Database>) -> Self {
        Self { path, options, database, desk: None }
    }

    /// Works until nobody can ask any more. A panic costs what was being written and no
    /// more: the transaction is undone, and whoever asked hears that it is in doubt.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch = std::iter::once(first).chain(jobs.try_iter().take(MAX_JOBS)).collect();
            if catch_unwind(AssertUnwindSafe(|| self.commit(batch))).is_err() {
                tracing::error!("the store panicked while it wrote; what it wrote is in doubt");
                self.desk.iter_mut().for_each(Desk::forget);
            }
        }
    }

    fn commit(&mut self, jobs: Vec<Job>) {
        if jobs.iter().all(|job| matches!(job, Job::Flush(_))) {
            return jobs.into_iter().for_each(Job::answer_empty);
        }
        let makes = jobs.iter().any(|job| matches!(job, Job::Claim(..)));
        let (database, desk) = match self.open(makes) {
            Ok(Some(opened)) => opened,
            Ok(None) => return jobs.into_iter().for_each(Job::answer_empty),
            Err(error) => return jobs.into_iter().for_each(|job| job.refuse(&error)),
        };
        let (transaction, mut pen) = match database.write().and_then(|begun| Ok((begun, Pen::of(database, now())?))) {
            Ok(begun) => begun,
            Err(error) => return jobs.into_iter().for_each(|job| job.refuse(&error)),
        };
        let told: Vec<Tell> = jobs.into_iter().map(|job| desk.perform(&mut pen, job)).collect();
        drop(pen);
        let committed = transaction.commit();
        if committed.is_err() {
            desk.forget();
        }
        told.into_iter().for_each(|tell| tell(&committed));
    }

    /// The database, made only when there is something to be stored in it.
    fn open(&mut self, makes: bool) -> Result<Option<(&Database, &mut Desk)>, StoreError> {
        if self.database.is_none() && (makes || file::look(&self.path)?.is_some()) {
            self.database = Some(Database::open(&self.path)?);
        }
        let Some(database) = &self.database else { return Ok(None) };
        if !database.is_in_place() {
            let path = self.path.display();
            let text = format!("{path} was removed or replaced while it was in use; start again");
            return Err(StoreError::Unavailable(text));
        }
        let desk = match self.desk.take() {
            Some(desk) => desk,
            None => Desk::new(&self.path, self.options.clone())?,
        };
        Ok(Some((database, self.desk.insert(desk))))
    }
}

impl Job {
    /// Answers as a database answers in which there is nothing.
    fn answer_empty(self) {
        match self {
            Self::Delete(_, reply) => reply.send(Ok(false)),
            other => other.refuse(&StoreError::Fenced { epoch: 0 }),
        }
    }

    /// Answers a job that is not done.
    fn refuse(self, error: &StoreError) {
        match self {
            Self::Append(batch, reply) => reply.send(vec![Err(error.clone()); batch.len()]),
            Self::Claim(_, _, reply) => reply.send(Err(error.clone())),
            Self::Release(_, _, reply) => reply.send(()),
            Self::Delete(_, reply) => reply.send(Err(error.clone())),
            Self::Flush(reply) => reply.send(Ok(())),
        }
    }
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
