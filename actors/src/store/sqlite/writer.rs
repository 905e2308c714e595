//! The thread that writes: everything that waits goes into one transaction.
//!
//! Appends come in batches that the StoreActor has collected. Claims, releases and deletions come one by one, thousands
//! of them when many sessions begin or end: each would wait for a sync of its own if they did not share a transaction.
//!
//! Answers are given after the commit. When that fails, no answer reports a success, and what is known of the sessions
//! is read again before it is relied on. What a job writes is decided by [`SessionWriter`].

use super::database::Database;
use super::job::Job;
use super::session_writer::{SessionWriter, Tell};
use super::steps::KNOWN;
use super::tables::Pen;
use super::{Made, file};
use crate::store::owners::StoreOptions;
use bob_messages::Millis;
use bob_messages::store::StoreError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;

/// The most jobs in one transaction. Each may be a whole batch of appends.
const MAX_JOBS: usize = 4096;

pub(super) struct Writer {
    path: PathBuf,
    options: StoreOptions,
    made: Option<Made>,
    /// Made by the first claim.
    database: Option<Database>,
    sessions: Option<SessionWriter>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, options: StoreOptions, made: Option<Made>, database: Option<Database>) -> Self {
        Self { path, options, made, database, sessions: None }
    }

    /// Works until all senders are dropped. A panic loses only what was being written: the
    /// transaction is rolled back, and its callers receive `InDoubt`.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch = std::iter::once(first).chain(jobs.try_iter().take(MAX_JOBS)).collect();
            if catch_unwind(AssertUnwindSafe(|| self.commit(batch))).is_err() {
                tracing::error!("the store panicked while it wrote; what it wrote is in doubt");
                self.sessions.iter_mut().for_each(SessionWriter::forget);
            }
        }
    }

    fn commit(&mut self, jobs: Vec<Job>) {
        let makes = jobs.iter().any(|job| matches!(job, Job::Claim(..)));
        let (database, sessions) = match self.open(makes) {
            Ok(Some(opened)) => opened,
            Ok(None) => return jobs.into_iter().for_each(Job::answer_empty),
            Err(error) => return jobs.into_iter().for_each(|job| job.refuse(&error)),
        };
        let (transaction, mut pen) = match database.write().and_then(|begun| Ok((begun, Pen::of(database, now())?))) {
            Ok(begun) => begun,
            Err(error) => return jobs.into_iter().for_each(|job| job.refuse(&error)),
        };
        sessions.begin(transaction.data_version);
        let told: Vec<Tell> = jobs.into_iter().map(|job| sessions.perform(&mut pen, job)).collect();
        drop(pen);
        let committed = transaction.commit();
        if committed.is_err() {
            sessions.forget();
        }
        told.into_iter().for_each(|tell| tell(&committed));
    }

    /// The database, made only when there is something to be stored in it.
    fn open(&mut self, makes: bool) -> Result<Option<(&Database, &mut SessionWriter)>, StoreError> {
        if self.database.is_none() && (makes || file::look(&self.path)?.is_some()) {
            self.database = Some(Database::open_telling(&self.path, KNOWN, self.made.as_ref())?);
        }
        let Some(database) = &self.database else { return Ok(None) };
        if !database.is_in_place() {
            let path = self.path.display();
            let text = format!("{path} was removed or replaced while it was in use; start again");
            return Err(StoreError::Unavailable(text));
        }
        let sessions = match self.sessions.take() {
            Some(sessions) => sessions,
            None => SessionWriter::new(&self.path, self.options.clone())?,
        };
        Ok(Some((database, self.sessions.insert(sessions))))
    }
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
