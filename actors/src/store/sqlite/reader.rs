//! The threads that read: one for claims, and others for loads and listings.
//!
//! They never write, so a long journal delays no append, and a load of one delays
//! no claim. Claims are passed on to the writer in the order in which they came.

use super::check::Check;
use super::database::Database;
use super::job::{Job, Seen, damaged};
use super::owners_folder;
use super::tables::{Entry, Journal, Tables, Unreadable};
use crate::store::SessionOwner;
use crate::store::folder::Folder;
use crate::store::owners::lives;
use crate::store::span::Span;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, Part, Record, SessionFilter, SessionPage, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// How many threads load and list: a second one goes on while one reads something long.
pub(super) const LOADERS: usize = 2;

/// What is asked on the way to the writer.
pub(super) enum ClaimAsk {
    /// Whether all records are wanted.
    Claim(SessionId, bool, Reply<Result<Claim, StoreError>>),
}

pub(super) enum Ask {
    Load(SessionId, Span, Reply<Result<Vec<Arc<Record>>, StoreError>>),
    Owner(SessionId, Reply<Result<Option<SessionOwner>, StoreError>>),
    List(SessionFilter, Option<String>, Reply<Result<SessionPage, StoreError>>),
}

pub(super) struct Reader {
    path: PathBuf,
    /// Opened by the first question after the database was made.
    database: Option<Database>,
    check: Arc<Check>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, check: Arc<Check>) -> Self {
        Self { path, database: None, check }
    }

    /// Reads what is claimed and passes it on, until all senders are dropped.
    pub(super) fn run_claims(mut self, asks: &Receiver<ClaimAsk>, jobs: &Sender<Job>) {
        while let Ok(ask) = asks.recv() {
            self.survive(|reader| match ask {
                ClaimAsk::Claim(session, whole, reply) => {
                    let span = if whole { Span::Whole } else { Span::Part(Part::Latest) };
                    match reader.see(&session, span) {
                        // The writer lives for as long as this sender.
                        Ok(seen) => drop(jobs.send(Job::Claim(session, span, Box::new(seen), reply))),
                        Err(error) => reply.send(Err(error)),
                    }
                }
            });
        }
    }

    /// Answers, beside other readers, until all senders are dropped.
    pub(super) fn run(mut self, asks: &Mutex<Receiver<Ask>>) {
        loop {
            let ask = asks.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(ask) = ask else { break };
            self.survive(|reader| match ask {
                Ask::Load(session, span, reply) => reply.send(reader.load(&session, span)),
                Ask::Owner(session, reply) => reply.send(reader.owner(&session)),
                Ask::List(filter, cursor, reply) => reply.send(reader.list(&filter, cursor.as_deref())),
            });
        }
    }

    /// A panic costs one question its answer.
    fn survive(&mut self, answer: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| answer(self))).is_err() {
            tracing::error!("the store panicked while it read; its asker gets no answer");
            self.database = None;
        }
        if self.database.as_ref().is_some_and(|database| database.is_alone) {
            self.database = None;
        }
    }

    fn load(&mut self, session: &SessionId, span: Span) -> Result<Vec<Arc<Record>>, StoreError> {
        let seen = self.see(session, span)?;
        match seen {
            None => Ok(Vec::new()),
            Some((Entry { damage: Some(damage), .. }, _)) => Err(damaged(&self.path, session, &damage)),
            Some((_, Ok(journal))) => Ok(journal.records),
            Some((_, Err(Unreadable::Damaged(what)))) => Err(damaged(&self.path, session, &what)),
            Some((_, Err(Unreadable::Failed(error)))) => Err(error),
        }
    }

    fn see(&mut self, session: &SessionId, span: Span) -> Result<Seen, StoreError> {
        let check = Arc::clone(&self.check);
        let Some(database) = self.database()? else { return Ok(None) };
        let transaction = database.read()?;
        let mut tables = Tables::of(database)?;
        let Some(entry) = tables.find(session)? else {
            // Nothing begins anew because of a damaged index.
            check.is_absent(&tables, session)?;
            return Ok(None);
        };
        let journal = match entry.damage {
            Some(_) => Ok(Journal::default()),
            None => tables.journal(session, &entry, span),
        };
        drop(transaction);
        Ok(Some((entry, journal)))
    }

    fn owner(&mut self, session: &SessionId) -> Result<Option<SessionOwner>, StoreError> {
        let folder = owners_folder(&self.path);
        let Some(database) = self.database()? else { return Ok(None) };
        let owner = Tables::of(database)?.find(session)?.and_then(|entry| entry.owner);
        // It is there where a session was claimed; what only reads makes none.
        let folder = folder.is_dir().then(|| Folder::open(&folder).ok()).flatten();
        let owner = owner.filter(|(_, lock)| folder.is_some_and(|folder| lives(&folder, lock)));
        Ok(owner.map(|(name, _)| SessionOwner { name, node: None, address: None }))
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
