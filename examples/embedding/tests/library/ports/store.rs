//! A store with artifacts and an inbox of its own, over the journals of the program `own_store`.

use super::artifacts::Attic;
use super::inbox::Tray;
use bob::inbox::Inbox;
use bob::sessions::{SessionFilter, SessionPage};
use bob::store::{Append, ArtifactStorePort, Claim, Record, SessionStore, StoreError, StoreOverview};
use bob::{BoxFuture, SessionId};
use own_store::OwnStore;
use std::sync::Arc;

#[allow(dead_code, reason = "its main is that of the program")]
#[path = "../../../src/bin/own_store.rs"]
mod own_store;

/// Journals, artifacts and messages.
#[derive(Default)]
pub struct Shelf {
    journals: OwnStore,
    artifacts: Arc<Attic>,
    inbox: Arc<Tray>,
}

impl SessionStore for Shelf {
    fn claim<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.journals.claim(session)
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.journals.load(session)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        self.journals.append(batch)
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        self.journals.release(session, epoch)
    }

    fn overview(&self) -> BoxFuture<'_, Result<Option<StoreOverview>, StoreError>> {
        let seen = self.inbox.overview();
        Box::pin(std::future::ready(Ok(Some(seen))))
    }

    fn list<'a>(
        &'a self,
        filter: &'a SessionFilter,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionPage, StoreError>> {
        self.journals.list(filter, cursor)
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.inbox.forget(session);
            self.artifacts.delete_all(session).await?;
            self.journals.delete(session).await
        })
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        Some(self.artifacts.clone())
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(self.inbox.clone())
    }
}
