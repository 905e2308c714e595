//! The thread that reads: loads and listings, and each session before its claim.
//!
//! It never writes, so a long journal holds up no append. What it is asked it
//! answers in order; claims and flushes it passes on to the writer.

use super::database::Database;
use super::desk::damaged;
use super::tables::{Entry, Journal, Tables, Unreadable};
use super::writer::Job;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, Record, SessionFilter, SessionPage, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// What the reader is asked.
pub(super) enum Ask {
    Load(SessionId, Reply<Result<Vec<Arc<Record>>, StoreError>>),
    List(SessionFilter, Option<String>, Reply<Result<SessionPage, StoreError>>),
    Claim(SessionId, Reply<Result<Claim, StoreError>>),
    Flush(Reply<Result<(), StoreError>>),
}

/// A session as the reader saw it: its row and, where that is not said to be
/// damaged, its records.
pub(super) type Seen = Option<(Entry, Result<Journal, Unreadable>)>;

pub(super) struct Reader {
    path: PathBuf,
    /// Opened by the first question after the database was made.
    database: Option<Database>,
    jobs: Sender<Job>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, jobs: Sender<Job>) -> Self {
        Self { path, database: None, jobs }
    }

    /// Answers until nobody can ask any more. A panic costs one question its answer.
    pub(super) fn run(mut self, asks: &Receiver<Ask>) {
        while let Ok(ask) = asks.recv() {
            if catch_unwind(AssertUnwindSafe(|| self.answer(ask))).is_err() {
                tracing::error!("the store panicked while it read; its asker gets no answer");
                self.database = None;
            }
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Load(session, reply) => reply.send(self.load(&session)),
            Ask::List(filter, cursor, reply) => reply.send(self.list(&filter, cursor.as_deref())),
            Ask::Claim(session, reply) => match self.see(&session) {
                // The writer lives for as long as this sender.
                Ok(seen) => drop(self.jobs.send(Job::Claim(session, Box::new(seen), reply))),
                Err(error) => reply.send(Err(error)),
            },
            Ask::Flush(reply) => drop(self.jobs.send(Job::Flush(reply))),
        }
    }

    fn load(&mut self, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        let seen = self.see(session)?;
        match seen {
            None => Ok(Vec::new()),
            Some((Entry { damage: Some(damage), .. }, _)) => Err(damaged(&self.path, session, &damage)),
            Some((_, Ok(journal))) => Ok(journal.records),
            Some((_, Err(Unreadable::Damaged(what)))) => Err(damaged(&self.path, session, &what)),
            Some((_, Err(Unreadable::Failed(error)))) => Err(error),
        }
    }

    fn see(&mut self, session: &SessionId) -> Result<Seen, StoreError> {
        let Some(database) = self.database()? else { return Ok(None) };
        let transaction = database.read()?;
        let mut tables = Tables::of(database)?;
        let Some(entry) = tables.find(session)? else {
            // Nothing begins anew because of a damaged index.
            database.check_sessions()?;
            return Ok(None);
        };
        let journal = match entry.damage {
            Some(_) => Ok(Journal::default()),
            None => tables.journal(session, &entry),
        };
        drop(transaction);
        Ok(Some((entry, journal)))
    }

    fn list(&mut self, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
        // A cursor that is none is refused also while there is nothing to list.
        crate::store::listing::after(cursor)?;
        let Some(database) = self.database()? else { return Ok(SessionPage::default()) };
        let _one_state = database.read()?;
        Tables::of(database)?.list(filter, cursor)
    }

    fn database(&mut self) -> Result<Option<&Database>, StoreError> {
        if self.database.is_none() {
            self.database = Database::open_to_read(&self.path)?;
        }
        Ok(self.database.as_ref())
    }
}
