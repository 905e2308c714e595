//! Journals in memory: for tests, for embedding, for sessions that are not kept.
//!
//! Not durable: what is stored here ends with the process. Within the process it keeps every rule of the port. Records
//! are shared while a session has an owner and packed while it rests; every operation is ready at its first poll.

mod packed;

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;

use super::artifacts::{ArtifactStorePort, MemoryArtifacts};
use super::future::StoreFuture;
use super::inbox::MemoryInbox;
use super::{Inbox, Ledger, SessionStore, StoreOverview, listing};
use bob_messages::Millis;
use bob_messages::ids::SessionId;
use bob_messages::session_state::pool_of;
use bob_messages::store::{
    Append, Claim, Part, Pools, Record, SessionFilter, SessionPage, SessionSummary, StoreError, latest,
};
use foldhash::fast::RandomState;
use futures_util::future::{BoxFuture, FutureExt, ready};
use packed::Packed;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store that is gone with its process.
#[doc(alias = "InMemorySessionStore")]
#[derive(Debug, Default)]
pub struct MemoryStore {
    sessions: Arc<Mutex<Journals>>,
    artifacts: Arc<MemoryArtifacts>,
    inbox: Arc<MemoryInbox>,
    pools: Pools,
}

#[derive(Debug, Default)]
struct Journals {
    /// Each in a box: the map has up to twice the room that it needs.
    of: HashMap<SessionId, Box<Journal>, RandomState>,
    /// The greatest epoch of a session that was deleted. One that begins anew goes on behind it.
    greatest_deleted: u64,
}

#[derive(Debug, Default)]
struct Journal {
    ledger: Ledger,
    records: Records,
    /// The time its last record was made, in milliseconds: this store has no clock.
    updated_at: Millis,
}

#[derive(Debug, Default)]
struct Records {
    /// What is not in use, in pieces that each begin with the first record or with a snapshot.
    packed: Vec<Packed>,
    /// The rest. It begins so, too; it is empty while the session has no owner.
    loose: Vec<Arc<Record>>,
}

impl Records {
    /// All of them, to be read only.
    fn all(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        let mut all = Vec::new();
        for packed in &self.packed {
            all.append(&mut unpacked(packed, session)?);
        }
        all.extend(self.loose.iter().cloned());
        Ok(all)
    }

    /// A part of them, to be read only.
    fn part(&self, session: &SessionId, part: Part) -> Result<Vec<Arc<Record>>, StoreError> {
        match (part, self.packed.last()) {
            (Part::Latest, Some(last)) if self.loose.is_empty() => Ok(latest(&unpacked(last, session)?).to_vec()),
            (Part::Latest, _) => Ok(latest(&self.loose).to_vec()),
            (Part::Page { .. }, None) => Ok(part.of(&self.loose).to_vec()),
            (Part::Page { .. }, Some(_)) => Ok(part.of(&self.all(session)?).to_vec()),
        }
    }

    /// The newest ones, for their owner: at least from the last snapshot on.
    fn loosen(&mut self, session: &SessionId) -> Result<&mut Vec<Arc<Record>>, StoreError> {
        if let (true, Some(last)) = (self.loose.is_empty(), self.packed.last()) {
            self.loose = unpacked(last, session)?;
            self.packed.pop();
        }
        Ok(&mut self.loose)
    }
}

fn unpacked(packed: &Packed, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
    packed.unpack(session).map_err(|error| StoreError::Corrupt(format!("the packed journal: {error}")))
}

impl MemoryStore {
    /// A store without sessions.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A store without sessions, of a process in these pools.
    pub fn in_pools(pools: Pools) -> Arc<Self> {
        Arc::new(Self { pools, ..Self::default() })
    }

    fn sessions(&self) -> MutexGuard<'_, Journals> {
        locked(&self.sessions)
    }
}

fn locked(sessions: &Mutex<Journals>) -> MutexGuard<'_, Journals> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packs the records of a released session in a task: many sessions may be released at
/// once, and no caller waits for the memory they free.
fn pack_later(sessions: Arc<Mutex<Journals>>, session: SessionId, records: Vec<Arc<Record>>) {
    // Without a runtime the records stay as they are.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        // An owner reads from the last snapshot on: that is a piece of its own.
        let (before, newest) = records.split_at(records.len() - latest(&records).len());
        let pieces = [before, newest].into_iter().filter(|piece| !piece.is_empty()).map(Packed::pack);
        let Some(pieces) = pieces.collect::<Option<Vec<_>>>() else { return };
        if let Some(journal) = locked(&sessions).of.get_mut(&session).filter(|journal| journal.still_rests(&records)) {
            // The usual growth would make room for four.
            journal.records.packed.reserve_exact(pieces.len());
            journal.records.packed.extend(pieces);
            journal.records.loose = Vec::new();
        }
    });
}

impl Journals {
    fn claim(&mut self, session: &SessionId, whole: bool, pools: &Pools) -> Result<Claim, StoreError> {
        let before = self.greatest_deleted;
        let journal = self.of.entry(session.clone()).or_insert_with(|| {
            let mut journal = Box::<Journal>::default();
            journal.ledger.claimed(before);
            journal
        });
        journal.claim(session, whole, pools)
    }

    fn delete(&mut self, session: &SessionId) -> bool {
        let Some(journal) = self.of.remove(session) else { return false };
        self.greatest_deleted = self.greatest_deleted.max(journal.ledger.epoch());
        true
    }
}

fn append_to(sessions: &mut Journals, append: Append) -> Result<u64, StoreError> {
    match sessions.of.get_mut(&append.session) {
        Some(journal) => journal.append(append),
        None => Err(StoreError::Fenced { epoch: 0 }),
    }
}

impl Journal {
    fn append(&mut self, append: Append) -> Result<u64, StoreError> {
        let loose = self.records.loosen(&append.session)?;
        if self.ledger.is_resting() {
            self.ledger.recall(loose);
        }
        if let Some(first) = self.ledger.wants(&append) {
            let all = self.records.all(&append.session)?;
            self.ledger.recall(&all[usize::try_from(first - 1).map_or(0, |first| first.min(all.len()))..]);
        }
        let ruling = self.ledger.rule(&append)?;
        for record in append.records.into_iter().skip(ruling.stored) {
            self.ledger.stored(&record);
            self.updated_at = record.at;
            self.records.loose.push(record);
        }
        Ok(ruling.version)
    }

    /// Its owner let it go: most sessions of a store rest most of the time, and what only
    /// an owner needs is made again for the next one. The records that may be packed.
    fn rest(&mut self) -> Vec<Arc<Record>> {
        self.ledger.rest();
        self.records.loose.shrink_to_fit();
        self.records.loose.clone()
    }

    /// Whether nothing was written since it was let go with these records, which are not
    /// those of an earlier session of its name.
    fn still_rests(&self, records: &[Arc<Record>]) -> bool {
        let loose = &self.records.loose;
        let is_same = || loose.iter().zip(records).all(|(one, other)| Arc::ptr_eq(one, other));
        self.ledger.is_resting() && !records.is_empty() && loose.len() == records.len() && is_same()
    }

    fn claim(&mut self, session: &SessionId, whole: bool, pools: &Pools) -> Result<Claim, StoreError> {
        let loose = self.records.loosen(session)?;
        let records = if whole { self.records.all(session)? } else { latest(loose).to_vec() };
        pools.refuse(pool_of(session, &records).as_ref())?;
        let epoch = self.ledger.epoch() + 1;
        self.ledger.claimed(epoch);
        Ok(Claim { epoch, version: self.ledger.version(), records })
    }
}

impl SessionStore for MemoryStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        ready(self.sessions().claim(session, true, &self.pools)).boxed()
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        ready(self.sessions().claim(session, false, &self.pools)).boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        let records = self.sessions().of.get(session).map(|journal| journal.records.all(session));
        ready(records.unwrap_or_else(|| Ok(Vec::new()))).boxed()
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        let records = self.sessions().of.get(session).map(|journal| journal.records.part(session, part));
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
        let owned = self
            .sessions()
            .of
            .get_mut(session)
            .filter(|journal| journal.ledger.epoch() == epoch)
            .map(|journal| journal.rest());
        if let Some(records) = owned {
            pack_later(Arc::clone(&self.sessions), session.clone(), records);
        }
        ready(()).boxed()
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        let sessions = self.sessions();
        let summary = |(session, journal): (&SessionId, &Journal)| {
            SessionSummary::bare(session.clone(), journal.updated_at, 0).seen(journal.ledger.glance())
        };
        // Only those of the page are described, unless more than their names is asked for.
        let looks = listing::looks(filter);
        let is_wanted = |one: &(&SessionId, &Journal)| {
            listing::wanted(filter, one.0.as_str()) && (!looks || listing::wants(filter, &summary(*one)))
        };
        let mut found: Vec<_> =
            sessions.of.iter().map(|(session, journal)| (session, &**journal)).filter(is_wanted).collect();
        let cut = listing::cut(&mut found, filter, cursor, |(session, journal)| (journal.updated_at, session));
        ready(cut.map(|more| listing::page_of_cut(found.into_iter().map(summary).collect(), more))).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        let found = self.sessions().delete(session);
        self.artifacts.forget(session);
        self.inbox.forget(session);
        ready(Ok(found)).boxed()
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        Some(Arc::<MemoryArtifacts>::clone(&self.artifacts))
    }

    fn overview(&self) -> StoreFuture<'_, Option<StoreOverview>> {
        ready(Ok(Some(self.inbox.overview()))).boxed()
    }

    fn pools(&self) -> Pools {
        self.pools.clone()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(Arc::<MemoryInbox>::clone(&self.inbox))
    }

    fn is_of_one_process(&self) -> bool {
        true
    }
}
