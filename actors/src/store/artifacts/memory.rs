//! Artifacts in memory: they end with the process, as the sessions beside them do.

use super::port::{ArtifactStorePort, StoredArtifact, clipped};
use crate::store::StoreFuture;
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store of artifacts that is gone with its process.
#[derive(Debug, Default)]
pub struct MemoryArtifacts {
    sessions: Mutex<HashMap<SessionId, Kept>>,
}

type Kept = BTreeMap<ArtifactId, Arc<Vec<u8>>>;

impl MemoryArtifacts {
    /// A store without artifacts.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn forget(&self, session: &SessionId) -> usize {
        self.sessions().remove(session).map_or(0, |kept| kept.len())
    }
}

impl ArtifactStorePort for MemoryArtifacts {
    fn put<'a>(&'a self, session: &'a SessionId, content: Arc<Vec<u8>>) -> StoreFuture<'a, ArtifactId> {
        async move {
            let hashed = Arc::clone(&content);
            let id = tokio::task::spawn_blocking(move || ArtifactId::of(&hashed)).await;
            let id = id.map_err(|_| StoreError::Unavailable("the runtime ends".to_owned()))?;
            self.sessions().entry(session.clone()).or_default().entry(id.clone()).or_insert(content);
            Ok(id)
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> StoreFuture<'a, Option<Vec<u8>>> {
        let content = self.sessions().get(session).and_then(|kept| kept.get(id)).cloned();
        let part = content.map(|content| content[clipped(&range, content.len())].to_vec());
        ready(Ok(part)).boxed()
    }

    fn list<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StoredArtifact>> {
        let stored = |(id, content): (&ArtifactId, &Arc<Vec<u8>>)| StoredArtifact {
            id: id.clone(),
            bytes: content.len() as u64,
        };
        let list = self.sessions().get(session).map(|kept| kept.iter().map(stored).collect()).unwrap_or_default();
        ready(Ok(list)).boxed()
    }

    fn share<'a>(&'a self, from: &'a SessionId, to: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let mut sessions = self.sessions();
        let own = sessions.get(from);
        let found = |id: &ArtifactId| Some((id.clone(), Arc::clone(own?.get(id)?)));
        let shared: Vec<_> = ids.iter().filter_map(found).collect();
        if !shared.is_empty() {
            sessions.entry(to.clone()).or_default().extend(shared);
        }
        ready(Ok(())).boxed()
    }

    /// Nothing survives a process, so nothing is to be told.
    fn recorded<'a>(&'a self, _session: &'a SessionId, _ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }

    fn unrecorded(&self, _most: usize) -> StoreFuture<'_, Vec<(SessionId, Vec<ArtifactId>)>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        if let Some(kept) = self.sessions().get_mut(session) {
            kept.retain(|id, _| !ids.contains(id));
        }
        ready(Ok(())).boxed()
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, usize> {
        ready(Ok(self.forget(session))).boxed()
    }
}
