//! The store of one of several workers: it reports whose a session is, and is where defects of sharing are planted.
//!
//! A defect stands in for one inside the real store, as far as it shows at the port. None is there unless planned.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bob::SessionId;
use bob::inbox::{Due, Inbox, InboxEntry, InboxKey, InboxMessage, InboxStanding, StoreLease};
use bob::sessions::{SessionFilter, SessionPage};
use bob::store::{Append, Claim, Part, Record, SessionStore, StoreError};
use bob_actors::store::{ArtifactStorePort, StoreFuture, Stored};
use bob_messages::error::AgentError;
use bob_messages::ids::RecordId;
use bob_messages::store::Fact;
use futures_util::future::{BoxFuture, FutureExt};

use super::telling::Telling;
use crate::soak::plan::{Defect, Plan};
use crate::soak::wire::Report;

/// Every so many outcomes, one meets a defect of those that are planted in appends.
const EACH: u32 = 4;

/// How many notifications arrive before they stop, where that is the defect.
const NOTIFIED: u32 = 20;

pub(super) struct Watched {
    inner: Arc<dyn SessionStore>,
    telling: Telling,
    who: String,
    defect: Option<Defect>,
    outcomes: AtomicU32,
    /// Of claims whose epoch was not raised: the epoch that was told, and the real one.
    told: Mutex<HashMap<SessionId, (u64, u64)>>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn SessionStore>, plan: &Plan, telling: Telling, who: String) -> Self {
        Self { inner, telling, who, defect: plan.defect, outcomes: AtomicU32::new(0), told: Mutex::default() }
    }

    fn claimed(&self, session: &SessionId, claim: Result<Claim, StoreError>) -> Result<Claim, StoreError> {
        let mut claim = claim?;
        if let (Some(Defect::EpochNotRaised), Some(last)) = (self.defect, claim.records.last()) {
            let told = last.epoch;
            self.told().insert(session.clone(), (told, claim.epoch));
            claim.epoch = told;
        }
        let (who, session) = (self.who.clone(), session.to_string());
        self.telling.tell(Report::Claimed { who, session, epoch: claim.epoch });
        Ok(claim)
    }

    /// The epoch under which the store knows an owner.
    fn real(&self, session: &SessionId, epoch: u64) -> u64 {
        let told = self.told();
        told.get(session).filter(|(told, _)| *told == epoch).map_or(epoch, |(_, real)| *real)
    }

    fn told(&self) -> MutexGuard<'_, HashMap<SessionId, (u64, u64)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the defect of an append meets this one.
    fn is_met(&self, append: &Append) -> bool {
        let has_outcome = append.records.iter().any(|record| matches!(record.fact, Fact::Outcome(_)));
        has_outcome && self.is_its_turn()
    }

    /// Whether the entry that would be lost is the intent of a call, which runs behind it also when the session is lost.
    fn is_of_intent(&self, append: &Append) -> bool {
        let is_second = append.records.iter().skip(1).any(|record| matches!(record.fact, Fact::Intent { .. }));
        is_second && self.is_its_turn()
    }

    fn is_its_turn(&self) -> bool {
        self.outcomes.fetch_add(1, Ordering::Relaxed) % EACH == EACH - 1
    }

    async fn broken(&self, defect: Defect, append: Append) -> Result<u64, StoreError> {
        let version = append.expected_version + append.records.len() as u64;
        match defect {
            Defect::DoubtDone if self.is_met(&append) => return Ok(version),
            Defect::SecondEntryLost if self.is_of_intent(&append) => {
                let first = append.records.first().cloned().into_iter().collect();
                return self.one(Append { records: first, ..append }).await.map(|_first| version);
            }
            Defect::EpochNotRaised => {
                let epoch = self.real(&append.session, append.epoch);
                return self.one(Append { epoch, ..append }).await;
            }
            _ => {}
        }
        let is_again = defect == Defect::DoubtFailed && self.is_met(&append);
        match self.one(append.clone()).await {
            Ok(version) if is_again => self.behind(&append, append.epoch, version).await.map(|_doubled| version),
            Err(StoreError::Fenced { .. } | StoreError::Conflict { .. }) if defect == Defect::EpochIgnored => {
                let latest = self.inner.load_part(&append.session, Part::Latest).await?;
                let (epoch, last) = latest.last().map_or((append.epoch, 0), |last| (last.epoch, last.version));
                self.behind(&append, epoch, last).await.map(|_in_spite_of_it| version)
            }
            answer => answer,
        }
    }

    /// Stores the records of an append once more, behind this version.
    async fn behind(&self, append: &Append, epoch: u64, version: u64) -> Result<u64, StoreError> {
        let anew = |(record, next): (&Arc<Record>, u64)| {
            let id = RecordId::new(format!("{}-again-{next}", record.id));
            Arc::new(Record { id, version: next, ..(**record).clone() })
        };
        let records = append.records.iter().zip(version + 1..).map(anew).collect();
        self.one(Append { session: append.session.clone(), epoch, expected_version: version, records }).await
    }

    async fn one(&self, append: Append) -> Result<u64, StoreError> {
        let lost = || Err(StoreError::Unavailable("there is no answer".to_owned()));
        self.inner.append(vec![append]).await.pop().unwrap_or_else(lost)
    }

    fn of_appends(&self) -> Option<Defect> {
        let of_appends = [
            Defect::DoubtDone,
            Defect::DoubtFailed,
            Defect::EpochIgnored,
            Defect::EpochNotRaised,
            Defect::SecondEntryLost,
        ];
        self.defect.filter(|defect| of_appends.contains(defect))
    }
}

impl SessionStore for Watched {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.inner.claim(session).map(|claim| self.claimed(session, claim)).boxed()
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.inner.claim_latest(session).map(|claim| self.claimed(session, claim)).boxed()
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.inner.load(session)
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.inner.load_part(session, part)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let Some(defect) = self.of_appends() else { return self.inner.append(batch) };
        async move {
            let mut answers = Vec::with_capacity(batch.len());
            for append in batch {
                answers.push(self.broken(defect, append).await);
            }
            answers
        }
        .boxed()
    }

    fn batches_at_once(&self) -> usize {
        self.inner.batches_at_once()
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        match self.of_appends() {
            None => self.inner.append_apart(batch),
            Some(_) => self.append(batch).map(|answers| answers.into_iter().map(Stored::Now).collect()).boxed(),
        }
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let epoch = self.real(session, epoch);
        let (who, name) = (self.who.clone(), session.to_string());
        self.telling.tell(Report::Released { who, session: name });
        self.inner.release(session, epoch)
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        self.inner.list(filter, cursor)
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        self.inner.delete(session)
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        self.inner.artifacts()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        let inner = self.inner.inbox()?;
        match self.defect {
            Some(Defect::NotificationOnly) => Some(Arc::new(NotifiedInbox::new(inner))),
            _ => Some(inner),
        }
    }

    fn lease(&self, session: &SessionId) -> StoreLease {
        self.inner.lease(session)
    }
}

/// An inbox in which something is due only after a notification; these stop.
struct NotifiedInbox {
    inner: Arc<dyn Inbox>,
    is_notified: AtomicBool,
    count: AtomicU32,
}

impl NotifiedInbox {
    fn new(inner: Arc<dyn Inbox>) -> Self {
        Self { inner, is_notified: AtomicBool::new(true), count: AtomicU32::new(0) }
    }
}

impl Inbox for NotifiedInbox {
    fn put(&self, message: InboxMessage) -> StoreFuture<'_, bool> {
        self.inner.put(message)
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InboxEntry>> {
        self.inner.take(session)
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> StoreFuture<'_, bool> {
        self.inner.settle(key, refusal)
    }

    fn standing(&self, key: InboxKey) -> StoreFuture<'_, InboxStanding> {
        self.inner.standing(key)
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> StoreFuture<'a, Vec<Due>> {
        match self.is_notified.swap(false, Ordering::SeqCst) {
            true => self.inner.due(most, known),
            false => std::future::ready(Ok(Vec::new())).boxed(),
        }
    }

    fn finds_open_turns(&self) -> bool {
        self.inner.finds_open_turns()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        async {
            self.inner.woken().await;
            if self.count.fetch_add(1, Ordering::SeqCst) >= NOTIFIED {
                return std::future::pending().await;
            }
            self.is_notified.store(true, Ordering::SeqCst);
        }
        .boxed()
    }
}
