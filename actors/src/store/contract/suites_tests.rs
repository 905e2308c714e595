//! Each rule of stores is broken by a store in memory with a fault.

use crate::contract::Suite;
#[cfg(feature = "sqlite")]
use crate::store::SqliteStore;
use crate::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
use bob_messages::ids::{PoolName, SessionId};
use bob_messages::store::{Append, Claim, Part, Pools, Record, SessionFilter, SessionPage, StoreError};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    OtherEpoch,
    Backwards,
    NeverFenced,
    NeverInConflict,
    NothingAgain,
    NewAgain,
    AllOrNothing,
    UnknownIsAnError,
    LoadClaims,
    ReleaseLocks,
    ListsNothing,
    ListsAll,
    AnyCursor,
    KeepsDeleted,
    FoldsCase,
    SmallBatches,
    NoParts,
    LosesSome,
}

struct Faulty(Arc<MemoryStore>, Fault, AtomicU64);

impl Faulty {
    fn name(&self, session: &SessionId) -> SessionId {
        match self.1 {
            Fault::FoldsCase => SessionId::parse(&session.as_str().to_lowercase()).unwrap(),
            _other => session.clone(),
        }
    }

    async fn append_one(&self, append: Append) -> Result<u64, StoreError> {
        let count = append.records.len() as u64;
        let (session, expected) = (append.session.clone(), append.expected_version);
        let before = self.0.load(&session).await?.len() as u64;
        match self.1 {
            Fault::NothingAgain if count > 0 && expected != before => {
                return Err(StoreError::Conflict { version: before });
            }
            Fault::LosesSome if self.2.fetch_add(1, Ordering::SeqCst) % 10 == 9 => return Ok(expected + count),
            _others => {}
        }
        let answer = self.0.append(vec![append]).await.remove(0);
        match (self.1, answer) {
            (Fault::NeverFenced, Err(StoreError::Fenced { .. })) => Ok(expected + count),
            (Fault::NeverInConflict, Err(StoreError::Conflict { .. } | StoreError::Corrupt(_))) => Ok(expected + count),
            (Fault::NewAgain, Ok(version)) if version == before => Ok(version + count),
            (_, answer) => answer,
        }
    }
}

impl SessionStore for Faulty {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        Box::pin(async move {
            if self.1 == Fault::ReleaseLocks && self.2.load(Ordering::SeqCst) > 0 {
                return Err(StoreError::Busy { owner: "itself".to_owned() });
            }
            let mut claimed = self.0.claim(&self.name(session)).await?;
            claimed.epoch += u64::from(self.1 == Fault::OtherEpoch);
            Ok(claimed)
        })
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        Box::pin(async move {
            let mut claimed = self.0.claim_latest(session).await?;
            if self.1 == Fault::NoParts {
                claimed.records.clear();
            }
            Ok(claimed)
        })
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        Box::pin(async move {
            let mut records = self.0.load(&self.name(session)).await?;
            match self.1 {
                Fault::Backwards => records.reverse(),
                Fault::UnknownIsAnError if records.is_empty() => {
                    return Err(StoreError::Unavailable("there is no such session".to_owned()));
                }
                Fault::LoadClaims => drop(self.0.claim(session).await?),
                _others => {}
            }
            Ok(records)
        })
    }

    fn load_part<'a>(
        &'a self,
        session: &'a SessionId,
        part: Part,
    ) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        match self.1 {
            Fault::NoParts => Box::pin(async { Ok(Vec::new()) }),
            _other => self.0.load_part(session, part),
        }
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        Box::pin(async move {
            let down = || Err(StoreError::Unavailable("too much".to_owned()));
            if self.1 == Fault::SmallBatches && batch.len() > 100 {
                return batch.iter().map(|_| down()).collect();
            }
            let mut answers = Vec::new();
            for append in batch {
                let session = self.name(&append.session);
                answers.push(self.append_one(Append { session, ..append }).await);
            }
            if self.1 == Fault::AllOrNothing && answers.iter().any(Result::is_err) {
                answers.fill(down());
            }
            answers
        })
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        if self.1 == Fault::ReleaseLocks {
            self.2.fetch_add(1, Ordering::SeqCst);
        }
        self.0.release(session, epoch)
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        Box::pin(async move {
            match self.1 {
                Fault::ListsNothing => Ok(SessionPage::default()),
                Fault::ListsAll => {
                    self.0.list(&SessionFilter { limit: filter.limit, ..SessionFilter::default() }, cursor).await
                }
                Fault::AnyCursor => match self.0.list(filter, cursor).await {
                    Err(_refused) => self.0.list(filter, None).await,
                    page => page,
                },
                _others => self.0.list(filter, cursor).await,
            }
        })
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        match self.1 {
            Fault::KeepsDeleted => Box::pin(async { Ok(true) }),
            _other => self.0.delete(session),
        }
    }
}

fn names(suite: &Suite, wanted: impl Fn(&Result<(), String>) -> bool) -> BTreeSet<&'static str> {
    suite.rules().iter().filter(|(_, found)| wanted(found)).map(|(name, _)| *name).collect()
}

#[tokio::test]
async fn each_rule_of_a_store_is_broken_by_a_store_with_a_fault() {
    use Fault::*;
    let faults = [
        OtherEpoch,
        Backwards,
        NeverFenced,
        NeverInConflict,
        NothingAgain,
        NewAgain,
        AllOrNothing,
        UnknownIsAnError,
        LoadClaims,
        ReleaseLocks,
        ListsNothing,
        ListsAll,
        AnyCursor,
        KeepsDeleted,
        FoldsCase,
        SmallBatches,
        NoParts,
        LosesSome,
    ];
    let whole = super::store(|| MemoryStore::new()).await;
    let mut unbroken = names(&whole, Result::is_ok);
    assert_eq!(unbroken.len(), 31, "{whole}");
    for fault in faults {
        let suite = super::store(|| Arc::new(Faulty(MemoryStore::new(), fault, AtomicU64::new(0)))).await;
        let broken = names(&suite, Result::is_err);
        assert!(!broken.is_empty(), "no rule sees the fault {fault:?}");
        unbroken = &unbroken - &broken;
    }
    assert!(unbroken.is_empty(), "no store breaks these rules: {unbroken:?}");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn each_rule_of_owners_is_kept_by_a_database_and_broken_by_a_store_that_forgets() {
    fn in_a_database(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
        SqliteStore::open(&folder.join("sessions.db"), options).expect("the folder is empty")
    }
    fn forgetful(_folder: &Path, _options: StoreOptions) -> Arc<dyn SessionStore> {
        MemoryStore::new()
    }
    super::owners(in_a_database).await.assert();
    let forgotten = super::owners(forgetful).await;
    let (broken, kept) = (names(&forgotten, Result::is_err), names(&forgotten, Result::is_ok));
    // The rule of pools asks nothing of a store that has none.
    let kept: Vec<_> = kept.into_iter().collect();
    assert_eq!(
        (broken.len(), kept.as_slice()),
        (8, &["a_session_of_a_pool_is_given_to_its_processes_alone"][..]),
        "{forgotten}"
    );
}

/// The rule of pools would ask nothing of a store that had forgotten them.
#[test]
fn the_stores_that_come_with_bob_are_in_the_pools_they_were_opened_with() {
    let (folder, ours) = (tempfile::TempDir::new().unwrap(), PoolName::parse("gpu").unwrap());
    let ours: Pools = [ours].into_iter().collect();
    let options = || StoreOptions { pools: ours.clone(), ..StoreOptions::default() };
    assert_eq!(MemoryStore::in_pools(ours.clone()).pools(), ours);
    assert_eq!(FileStore::open(&folder.path().join("files"), options()).unwrap().pools(), ours);
    #[cfg(feature = "sqlite")]
    assert_eq!(SqliteStore::open(&folder.path().join("sessions.db"), options()).unwrap().pools(), ours);
}
