//! What the writer decides: who may write a session, and what of an append is new.
//!
//! The rules themselves are the ledger's and the owners'; here they meet the tables.
//! It works inside one transaction of the writer's and commits nothing.

use super::job::{Job, Seen, damaged};
use super::owner::Owners;
use super::owners;
use super::tables::{Entry, Journal, Pen, Unreadable};
use crate::store::encoded::Encoded;
use crate::store::owners::StoreOptions;
use crate::store::span::Span;
use crate::store::{Ledger, SessionOwner};
use bob_messages::ids::SessionId;
use bob_messages::session_state::pool_of;
use bob_messages::store::{Claim, Fact, Part, StoreError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Gives an answer once it is known what became of the commit.
pub(super) type Tell = Box<dyn FnOnce(&Result<(), StoreError>)>;

/// What the writer keeps beside the database.
pub(super) struct SessionWriter {
    path: PathBuf,
    owners: Arc<Owners>,
    /// Of the sessions that are written here.
    known: HashMap<SessionId, Known>,
    /// The number of the database at the last transaction. While it stays, no other connection has written.
    data_version: Option<i64>,
}

struct Known {
    ledger: Ledger,
    /// Its row as it was written here last; `None` when another connection may have changed it.
    entry: Option<Entry>,
}

impl SessionWriter {
    pub(super) fn new(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let owners = Arc::new(owners(path, options)?);
        Ok(Self { path: path.to_owned(), owners, known: HashMap::new(), data_version: None })
    }

    /// Begins to work in a transaction, whose database has this number.
    pub(super) fn begin(&mut self, data_version: i64) {
        if self.data_version.replace(data_version) != Some(data_version) {
            self.known.values_mut().for_each(|known| known.entry = None);
        }
    }

    /// Relies on nothing that is known any more, since a commit failed.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Does a job within the transaction; its answer waits for the commit.
    pub(super) fn perform(&mut self, pen: &mut Pen<'_>, job: Job) -> Tell {
        match job {
            Job::Append(batch, reply) => {
                let stored: Vec<_> = batch.iter().map(|encoded| self.append(pen, encoded)).collect();
                Box::new(move |committed| {
                    let answers = stored.into_iter().map(|answer| answer.and_then(|new| durable(committed, new)));
                    reply.send(answers.collect());
                })
            }
            Job::Claim(session, span, seen, reply) => {
                let claim = self.claim(pen, &session, span, *seen);
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
                // Best effort: after a failure the session stays owned until this process ends.
                if let Err(error) = self.release(pen, &session, epoch) {
                    tracing::debug!(%session, %error, "a session could not be released");
                }
                Box::new(move |_committed| reply.send(()))
            }
            Job::Take(session, reply) => {
                let taken = self.take(pen, &session);
                Box::new(move |committed| reply.send(taken.and_then(|owner| durable(committed, owner))))
            }
            Job::Delete(session, reply) => {
                let deleted = self.delete(pen, &session);
                Box::new(move |committed| reply.send(deleted.and_then(|found| durable(committed, found))))
            }
        }
    }

    fn append(&mut self, pen: &mut Pen<'_>, encoded: &Encoded) -> Result<u64, StoreError> {
        self.check(pen)?;
        let append = &encoded.append;
        let session = &append.session;
        let known = self.known.remove(session);
        let (entry, known) = match known {
            Some(Known { ledger, entry: Some(entry) }) => (entry, Some(ledger)),
            other => match pen.tables.find(session)? {
                Some(entry) => (entry, other.map(|known| known.ledger)),
                None => return Err(StoreError::Fenced { epoch: 0 }),
            },
        };
        if append.epoch != entry.epoch {
            // For a fenced append the journal is not read, and nothing is kept.
            if let Some(ledger) = known.filter(|known| known.epoch() == entry.epoch) {
                self.known.insert(session.clone(), Known { ledger, entry: None });
            }
            return Err(StoreError::Fenced { epoch: entry.epoch });
        }
        if let Some(damage) = &entry.damage {
            return Err(damaged(&self.path, session, damage));
        }
        // What is known is relied on only while its epoch and version are those of the row.
        let mut ledger = match known {
            Some(known) if (known.epoch(), known.version()) == (entry.epoch, entry.version) => known,
            Some(_) | None => self.read(pen, session, &entry, Part::Latest)?.ledger,
        };
        if let Some(first) = ledger.wants(append) {
            // It is sent again, and more was written since than is remembered.
            let most = usize::try_from(entry.version).unwrap_or(usize::MAX);
            ledger.recall(&self.read(pen, session, &entry, Part::Page { behind: first - 1, most })?.records);
        }
        let stored = write(pen, &entry, &mut ledger, encoded);
        // When the write failed, the row still has the ledger's version.
        let entry = stored.is_ok().then(|| entry.grown(ledger.version()));
        self.known.insert(session.clone(), Known { ledger, entry });
        stored
    }

    fn read(&self, pen: &Pen<'_>, session: &SessionId, entry: &Entry, part: Part) -> Result<Journal, StoreError> {
        pen.tables.journal(session, entry, Span::Part(part)).map_err(|unreadable| match unreadable {
            Unreadable::Damaged(what) => damaged(&self.path, session, &what),
            Unreadable::Failed(error) => error,
        })
    }

    fn claim(&mut self, pen: &mut Pen<'_>, session: &SessionId, span: Span, seen: Seen) -> Result<Claim, StoreError> {
        self.check(pen)?;
        // A claim changes the row, also one that is refused because of damage.
        if let Some(known) = self.known.get_mut(session) {
            known.entry = None;
        }
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
                // What was read is still valid, unless another process wrote meanwhile.
                let read = match seen {
                    Some((seen, journal)) if seen == *entry => journal,
                    Some(_) | None => pen.tables.journal(session, entry, span),
                };
                self.set_aside(pen, session, entry, read)?
            }
        };
        self.owners.pools().refuse(pool_of(session, &journal.records).as_ref())?;
        let before = entry.map_or_else(|| pen.epoch_before_the_first(), |entry| Ok(entry.epoch))?;
        let epoch = before + 1;
        pen.claim(session, epoch, Some((&owner.name, &owner.lock)))?;
        let Journal { mut ledger, records } = journal;
        ledger.claimed(epoch);
        let version = ledger.version();
        self.known.insert(session.clone(), Known { ledger, entry: None });
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
        if self.known.get(session).is_some_and(|known| known.ledger.epoch() == epoch) {
            self.known.remove(session);
        }
        match self.owners.our_file() {
            Some(lock) => pen.release(session, epoch, &lock),
            None => Ok(()),
        }
    }

    /// Takes a session from its owner, also this one. A dead process owns nothing.
    fn take(&mut self, pen: &mut Pen<'_>, session: &SessionId) -> Result<Option<SessionOwner>, StoreError> {
        self.check(pen)?;
        let Some(entry) = pen.tables.find(session)? else { return Ok(None) };
        let Some((name, _)) = entry.owner.filter(|(_, lock)| self.owners.lives(lock)) else { return Ok(None) };
        self.known.remove(session);
        pen.claim(session, entry.epoch + 1, None)?;
        Ok(Some(SessionOwner { name, node: None, address: None }))
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
fn write(pen: &mut Pen<'_>, entry: &Entry, ledger: &mut Ledger, encoded: &Encoded) -> Result<u64, StoreError> {
    let ruling = ledger.rule(&encoded.append)?;
    let fresh = encoded.append.records.get(ruling.stored..).unwrap_or_default();
    if fresh.is_empty() {
        return Ok(ruling.version);
    }
    let lines = encoded.lines.as_ref().map_err(StoreError::clone)?.get(ruling.stored..).unwrap_or_default();
    let mut glance = ledger.glance().clone();
    fresh.iter().for_each(|record| glance.note(record));
    let snapshot = fresh.iter().rfind(|record| matches!(record.fact, Fact::Snapshot(_))).map(|record| record.version);
    pen.write(entry, lines, Some(&glance).filter(|glance| *glance != ledger.glance()), snapshot)?;
    for record in fresh {
        ledger.stored(record);
    }
    Ok(ruling.version)
}

fn durable<T>(committed: &Result<(), StoreError>, answer: T) -> Result<T, StoreError> {
    committed.clone().map(|()| answer)
}
