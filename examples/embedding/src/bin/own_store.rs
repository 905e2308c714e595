//! A store of one's own: journals in a map. The ledger has the rules, so a store only keeps records.

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{SessionFilter, SessionPage, SessionSummary};
use bob::store::{Append, Claim, Ledger, Record, SessionStore, StoreError, page_of};
use bob::{AgentRequest, AgentRuntime, BoxFuture, ModelName, RuntimeBuilder, SessionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct OwnStore(Mutex<Journals>);

#[derive(Default)]
struct Journals {
    of: BTreeMap<SessionId, Journal>,
    /// The greatest epoch of a deleted session: one that begins anew goes on behind it, so that an owner from before stays
    /// fenced.
    deleted: u64,
}

#[derive(Default)]
struct Journal {
    ledger: Ledger,
    records: Vec<Arc<Record>>,
}

impl OwnStore {
    fn lock(&self) -> MutexGuard<'_, Journals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_one(&self, append: Append) -> Result<u64, StoreError> {
        let mut journals = self.lock();
        let journal = journals.of.get_mut(&append.session).ok_or(StoreError::Fenced { epoch: 0 })?;
        if journal.ledger.wants(&append).is_some() {
            journal.ledger.recall(&journal.records);
        }
        let ruling = journal.ledger.rule(&append)?;
        for record in append.records.into_iter().skip(ruling.stored) {
            journal.ledger.stored(&record);
            journal.records.push(record);
        }
        Ok(ruling.version)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl SessionStore for OwnStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        let mut journals = self.lock();
        let before = journals.deleted;
        let journal = journals.of.entry(session.clone()).or_default();
        let epoch = if journal.ledger.epoch() == 0 { before + 1 } else { journal.ledger.epoch() + 1 };
        journal.ledger.claimed(epoch);
        ready(Ok(Claim { epoch, version: journal.ledger.version(), records: journal.records.clone() }))
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        ready(Ok(self.lock().of.get(session).map(|journal| journal.records.clone()).unwrap_or_default()))
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        ready(batch.into_iter().map(|append| self.append_one(append)).collect())
    }

    fn release<'a>(&'a self, _: &'a SessionId, _: u64) -> BoxFuture<'a, ()> {
        ready(())
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        let journals = self.lock();
        let sessions = journals.of.iter().map(|(session, journal)| {
            let updated_at = journal.records.last().map_or(0, |last| last.at);
            SessionSummary::bare(session.clone(), updated_at, 0).seen(journal.ledger.glance())
        });
        ready(page_of(sessions, filter, cursor))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut journals = self.lock();
        let deleted = journals.of.remove(session);
        let epoch = deleted.as_ref().map_or(0, |journal| journal.ledger.epoch());
        journals.deleted = journals.deleted.max(epoch);
        ready(Ok(deleted.is_some()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(OwnStore::default());
    for turn in 1..=2 {
        // Each in a runtime of its own, over one store.
        let model = Arc::new(ScriptedLlm::from_fn(|request| {
            ScriptedReply::text(format!("{} messages", request.messages.len()))
        }));
        let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(model);
        let runtime = builder.store(store.clone()).build().await?;
        let result = runtime.run(AgentRequest::text(SessionId::parse("kept")?, "How many?")).await?;
        println!("turn {turn}: {}", result.response().content);
        assert_eq!(result.response().content, format!("{} messages", 2 * turn - 1));
        runtime.shutdown().await;
    }
    let page = store.list(&SessionFilter::default(), None).await?;
    println!("{}: {} turns", page.sessions[0].session, page.sessions[0].turns.unwrap_or_default());
    assert_eq!(page.sessions[0].turns, Some(2));
    Ok(())
}
