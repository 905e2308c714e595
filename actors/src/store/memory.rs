//! Journals in memory: for tests, for embedding, for sessions nobody keeps.
//!
//! Not durable: what is stored here ends with the process. Within the process it
//! keeps every rule of the port. Records are shared, never serialised, and every
//! operation is ready at its first poll.

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

use super::listing;
use super::{Ledger, SessionStore};
use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, SessionSummary, StoreError};
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that is gone with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    sessions: Mutex<HashMap<SessionId, Journal>>,
}

#[derive(Debug, Default)]
struct Journal {
    ledger: Ledger,
    records: Vec<Arc<Record>>,
}

impl MemoryStore {
    /// A store without sessions.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Journal>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn append_to(sessions: &mut HashMap<SessionId, Journal>, append: Append) -> Result<u64, StoreError> {
    match sessions.get_mut(&append.session) {
        Some(journal) => journal.append(append),
        None => Err(StoreError::Fenced { epoch: 0 }),
    }
}

impl Journal {
    fn append(&mut self, append: Append) -> Result<u64, StoreError> {
        self.ledger.recall(&self.records);
        let ruling = self.ledger.rule(&append)?;
        for record in append.records.into_iter().skip(ruling.stored) {
            self.ledger.stored(&record);
            self.records.push(record);
        }
        Ok(ruling.version)
    }

    /// Its owner let it go: most sessions of a store rest most of the time, and what only
    /// an append needs is made again by the next one.
    fn rest(&mut self) {
        self.ledger.rest();
        self.records.shrink_to_fit();
    }

    /// The time its last record was made: this store has no clock.
    fn updated_at(&self) -> Millis {
        self.records.last().map_or(0, |record| record.at)
    }
}

impl SessionStore for MemoryStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        let mut sessions = self.sessions();
        let journal = sessions.entry(session.clone()).or_default();
        let epoch = journal.ledger.epoch() + 1;
        journal.ledger.claimed(epoch);
        let claim = Claim { epoch, version: journal.ledger.version(), records: journal.records.clone() };
        ready(Ok(claim)).boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        let records = self.sessions().get(session).map(|journal| journal.records.clone());
        ready(Ok(records.unwrap_or_default())).boxed()
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let mut sessions = self.sessions();
        ready(batch.into_iter().map(|append| append_to(&mut sessions, append)).collect()).boxed()
    }

    fn append_now(&self, append: Append) -> Result<Result<u64, StoreError>, Append> {
        Ok(append_to(&mut self.sessions(), append))
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        // There is no other process that could want it; it only rests.
        if let Some(journal) = self.sessions().get_mut(session).filter(|journal| journal.ledger.epoch() == epoch) {
            journal.rest();
        }
        ready(()).boxed()
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        let sessions = self.sessions();
        let wanted = sessions.iter().filter(|(session, _)| listing::wanted(filter, session.as_str()));
        let found = wanted.map(|(session, journal)| SessionSummary {
            session: session.clone(),
            updated_at: journal.updated_at(),
            bytes: 0,
        });
        ready(listing::page(found.collect(), filter, cursor)).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let found = self.sessions().remove(session).is_some();
        ready(Ok(found)).boxed()
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}
