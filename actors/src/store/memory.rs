//! Journals in memory: for tests, for embedding, for sessions nobody keeps.
//!
//! Not durable: what is stored here ends with the process. Within the process it
//! keeps every rule of the port. Records are shared while a session has an owner and
//! packed while it rests; every operation is ready at its first poll.

mod packed;

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

use super::listing;
use super::{Ledger, SessionStore};
use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Claim, Record, SessionFilter, SessionPage, SessionSummary, StoreError};
use futures_util::future::{BoxFuture, FutureExt, ready};
use packed::Packed;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that is gone with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    sessions: Arc<Mutex<HashMap<SessionId, Journal>>>,
}

#[derive(Debug, Default)]
struct Journal {
    ledger: Ledger,
    records: Records,
    /// The time its last record was made, in milliseconds: this store has no clock.
    updated_at: Millis,
}

/// The records of one session, in order.
#[derive(Debug)]
enum Records {
    /// Somebody owns them, or did just now.
    Loose(Vec<Arc<Record>>),
    /// Nobody does.
    Packed(Packed),
}

impl Default for Records {
    fn default() -> Self {
        Self::Loose(Vec::new())
    }
}

impl Records {
    /// The records, for somebody who only reads.
    fn read(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        match self {
            Self::Loose(records) => Ok(records.clone()),
            Self::Packed(packed) => {
                packed.unpack(session).map_err(|error| StoreError::Corrupt(format!("the packed journal: {error}")))
            }
        }
    }

    /// The records, for their owner.
    fn loosen(&mut self, session: &SessionId) -> Result<&mut Vec<Arc<Record>>, StoreError> {
        if matches!(self, Self::Packed(_)) {
            *self = Self::Loose(self.read(session)?);
        }
        match self {
            Self::Loose(records) => Ok(records),
            Self::Packed(_) => Err(StoreError::Corrupt("the packed journal was not read".to_owned())),
        }
    }
}

impl MemoryStore {
    /// A store without sessions.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Journal>> {
        locked(&self.sessions)
    }
}

fn locked(sessions: &Mutex<HashMap<SessionId, Journal>>) -> MutexGuard<'_, HashMap<SessionId, Journal>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packs what rests, beside everybody else's work: many sessions may be let go at once,
/// and nobody waits for the room they give up.
fn pack_later(sessions: Arc<Mutex<HashMap<SessionId, Journal>>>, session: SessionId, records: Vec<Arc<Record>>) {
    // Without a runtime the records stay as they are.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let Some(packed) = Packed::pack(&records) else { return };
        if let Some(journal) = locked(&sessions).get_mut(&session).filter(|journal| journal.still_rests(&records)) {
            journal.records = Records::Packed(packed);
        }
    });
}

fn append_to(sessions: &mut HashMap<SessionId, Journal>, append: Append) -> Result<u64, StoreError> {
    match sessions.get_mut(&append.session) {
        Some(journal) => journal.append(append),
        None => Err(StoreError::Fenced { epoch: 0 }),
    }
}

impl Journal {
    fn append(&mut self, append: Append) -> Result<u64, StoreError> {
        let records = self.records.loosen(&append.session)?;
        self.ledger.recall(records);
        let ruling = self.ledger.rule(&append)?;
        for record in append.records.into_iter().skip(ruling.stored) {
            self.ledger.stored(&record);
            self.updated_at = record.at;
            records.push(record);
        }
        Ok(ruling.version)
    }

    /// Its owner let it go: most sessions of a store rest most of the time, and what only
    /// an owner needs is made again for the next one. The records that may be packed.
    fn rest(&mut self) -> Vec<Arc<Record>> {
        self.ledger.rest();
        match &mut self.records {
            Records::Loose(records) => {
                records.shrink_to_fit();
                records.clone()
            }
            Records::Packed(_) => Vec::new(),
        }
    }

    /// Whether nothing was written since it was let go with these records, which are not
    /// those of an earlier session of its name.
    fn still_rests(&self, records: &[Arc<Record>]) -> bool {
        let Records::Loose(loose) = &self.records else { return false };
        let is_same = || loose.iter().zip(records).all(|(one, other)| Arc::ptr_eq(one, other));
        self.ledger.is_resting() && loose.len() == records.len() && is_same()
    }
}

impl SessionStore for MemoryStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        let mut sessions = self.sessions();
        let journal = sessions.entry(session.clone()).or_default();
        let records = match journal.records.loosen(session) {
            Ok(records) => records.clone(),
            Err(error) => return ready(Err(error)).boxed(),
        };
        let epoch = journal.ledger.epoch() + 1;
        journal.ledger.claimed(epoch);
        ready(Ok(Claim { epoch, version: journal.ledger.version(), records })).boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        let records = self.sessions().get(session).map(|journal| journal.records.read(session));
        ready(records.unwrap_or_else(|| Ok(Vec::new()))).boxed()
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
        let owned =
            self.sessions().get_mut(session).filter(|journal| journal.ledger.epoch() == epoch).map(Journal::rest);
        if let Some(records) = owned {
            pack_later(Arc::clone(&self.sessions), session.clone(), records);
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
        let found = wanted.map(|(session, journal)| {
            SessionSummary::bare(session.clone(), journal.updated_at, 0).seen(journal.ledger.glance())
        });
        let found = found.filter(|summary| listing::wants(filter, summary)).collect();
        ready(listing::page(found, filter, cursor)).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let found = self.sessions().remove(session).is_some();
        ready(Ok(found)).boxed()
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}
