//! The thread that writes: everything that waits goes into one transaction.
//!
//! Answers are given after the commit. When that fails, nobody is told of a success,
//! and what is known of the sessions is read again before it is relied on.

use super::database::Database;
use super::reader::Seen;
use super::tables::{Entry, Journal, Pen, Unreadable};
use super::{file, owners};
use crate::store::owners::{Owners, StoreOptions};
use crate::store::{Ledger, line};
use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, Claim, Record, StoreError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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

/// Gives an answer once it is known what became of the commit.
type Tell = Box<dyn FnOnce(&Result<(), StoreError>)>;

pub(super) struct Writer {
    path: PathBuf,
    options: StoreOptions,
    /// Made by the first claim.
    database: Option<Database>,
    desk: Option<Desk>,
}

/// What the writer keeps beside the database.
struct Desk {
    path: PathBuf,
    owners: Arc<Owners>,
    /// Of the sessions that are written here. One is relied on only while its epoch
    /// and version are those of the session's row.
    known: HashMap<SessionId, Ledger>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, options: StoreOptions, database: Option<Database>) -> Self {
        Self { path, options, database, desk: None }
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let waiting = jobs.try_iter().take(MAX_JOBS);
            self.commit(std::iter::once(first).chain(waiting).collect());
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
            desk.known.clear();
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
            None => Desk {
                path: self.path.clone(),
                owners: Arc::new(owners(&self.path, self.options.clone())?),
                known: HashMap::new(),
            },
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

impl Desk {
    fn perform(&mut self, pen: &mut Pen<'_>, job: Job) -> Tell {
        match job {
            Job::Append(batch, reply) => {
                let stored: Vec<_> = batch.iter().map(|append| self.append(pen, append)).collect();
                Box::new(move |committed| {
                    let answers = stored.into_iter().map(|answer| answer.and_then(|new| durable(committed, new)));
                    reply.send(answers.collect());
                })
            }
            Job::Claim(session, seen, reply) => {
                let claim = self.claim(pen, &session, *seen);
                let owners = Arc::clone(&self.owners);
                Box::new(move |committed| {
                    let claim = claim.and_then(|claim| durable(committed, claim));
                    if claim.is_ok() {
                        owners.claimed(&session);
                    }
                    reply.send(claim);
                })
            }
            Job::Release(session, epoch, reply) => {
                // Best effort: one that fails costs nobody more than our lifetime.
                if let Err(error) = self.release(pen, &session, epoch) {
                    tracing::debug!(%session, %error, "a session could not be released");
                }
                Box::new(move |_committed| reply.send(()))
            }
            Job::Delete(session, reply) => {
                let deleted = self.delete(pen, &session);
                Box::new(move |committed| reply.send(deleted.and_then(|found| durable(committed, found))))
            }
            Job::Flush(reply) => Box::new(move |_committed| reply.send(Ok(()))),
        }
    }

    fn append(&mut self, pen: &mut Pen<'_>, append: &Append) -> Result<u64, StoreError> {
        self.check(pen)?;
        let session = &append.session;
        let Some(entry) = pen.tables.find(session)? else { return Err(StoreError::Fenced { epoch: 0 }) };
        if append.epoch != entry.epoch {
            // Whoever is fenced need not have the journal read.
            return Err(StoreError::Fenced { epoch: entry.epoch });
        }
        if let Some(damage) = &entry.damage {
            return Err(damaged(&self.path, session, damage));
        }
        let mut ledger = match self.known.remove(session) {
            Some(known) if (known.epoch(), known.version()) == (entry.epoch, entry.version) => known,
            Some(_) | None => match pen.tables.journal(session, &entry) {
                Ok(journal) => journal.ledger,
                Err(Unreadable::Damaged(what)) => return Err(damaged(&self.path, session, &what)),
                Err(Unreadable::Failed(error)) => return Err(error),
            },
        };
        let stored = write(pen, &entry, &mut ledger, append);
        // When the write failed, the row still has the ledger's version.
        self.known.insert(session.clone(), ledger);
        stored
    }

    fn claim(&mut self, pen: &mut Pen<'_>, session: &SessionId, seen: Seen) -> Result<Claim, StoreError> {
        self.check(pen)?;
        let owner = self.owners.ours()?;
        let entry = pen.tables.find(session)?;
        let journal = match (&entry, seen) {
            (None, _) => Journal::default(),
            (Some(entry), seen) => {
                if let Some((name, lock)) = &entry.owner {
                    self.owners.refuse_others(session, name, lock)?;
                }
                if let Some(damage) = &entry.damage {
                    return Err(damaged(&self.path, session, damage));
                }
                // What was read is still so, unless somebody wrote meanwhile.
                let read = match seen {
                    Some((seen, journal)) if seen == *entry => journal,
                    Some(_) | None => pen.tables.journal(session, entry),
                };
                self.set_aside(pen, session, entry, read)?
            }
        };
        let epoch = entry.map_or(0, |entry| entry.epoch) + 1;
        pen.claim(session, epoch, &owner.name, &owner.lock)?;
        let Journal { mut ledger, records } = journal;
        ledger.claimed(epoch);
        let version = ledger.version();
        self.known.insert(session.clone(), ledger);
        Ok(Claim { epoch, version, records })
    }

    /// The journal, or a note of its damage, which lasts.
    fn set_aside(
        &self,
        pen: &mut Pen<'_>,
        session: &SessionId,
        entry: &Entry,
        read: Result<Journal, Unreadable>,
    ) -> Result<Journal, StoreError> {
        match read {
            Ok(journal) => Ok(journal),
            Err(Unreadable::Failed(error)) => Err(error),
            Err(Unreadable::Damaged(what)) => {
                tracing::error!(%session, what, "the records of a session are damaged; it is set aside");
                pen.set_aside(entry, &what)?;
                Err(damaged(&self.path, session, &what))
            }
        }
    }

    fn release(&mut self, pen: &mut Pen<'_>, session: &SessionId, epoch: u64) -> Result<(), StoreError> {
        self.check(pen)?;
        if self.known.get(session).is_some_and(|known| known.epoch() == epoch) {
            self.known.remove(session);
        }
        match self.owners.our_file() {
            Some(lock) => pen.release(session, epoch, &lock),
            None => Ok(()),
        }
    }

    fn delete(&mut self, pen: &mut Pen<'_>, session: &SessionId) -> Result<bool, StoreError> {
        self.check(pen)?;
        let Some(entry) = pen.tables.find(session)? else { return Ok(false) };
        if let Some((name, lock)) = &entry.owner {
            self.owners.refuse_others(session, name, lock)?;
        }
        self.known.remove(session);
        pen.delete(&entry).map(|()| true)
    }

    /// What is not part of the transaction must not be written.
    fn check(&self, pen: &Pen<'_>) -> Result<(), StoreError> {
        match pen.is_writing() {
            true => Ok(()),
            false => Err(StoreError::Unavailable(format!(
                "{} gave up what was being written; nothing was stored",
                self.path.display()
            ))),
        }
    }
}

/// Rules on an append and, when it is in order, writes what is new of it.
fn write(pen: &mut Pen<'_>, entry: &Entry, ledger: &mut Ledger, append: &Append) -> Result<u64, StoreError> {
    let ruling = ledger.rule(append)?;
    let fresh = append.records.get(ruling.stored..).unwrap_or_default();
    if fresh.is_empty() {
        return Ok(ruling.version);
    }
    let lines: Vec<_> = fresh.iter().map(|record| encode(record)).collect::<Result<_, _>>()?;
    pen.write(entry, &lines)?;
    for record in fresh {
        ledger.stored(record);
    }
    Ok(ruling.version)
}

/// The line of a record, without its end.
fn encode(record: &Record) -> Result<Vec<u8>, StoreError> {
    let mut line = Vec::new();
    line::write_record(&mut line, record).map_err(|why| StoreError::Corrupt(format!("{why}; nothing was stored")))?;
    line.pop();
    Ok(line)
}

fn durable<T>(committed: &Result<(), StoreError>, answer: T) -> Result<T, StoreError> {
    committed.clone().map(|()| answer)
}

/// Where the damage is, and what to do.
pub(super) fn damaged(path: &Path, session: &SessionId, what: &str) -> StoreError {
    let path = path.display();
    StoreError::Corrupt(format!(
        "session {session} in {path}, {what}; it is left as it is: restore a copy of the database, or delete the session"
    ))
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
