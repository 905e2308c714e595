//! A store of artifacts.

use bob::store::{ArtifactId, ArtifactStorePort, StoreError, StoredArtifact};
use bob::{BoxFuture, SessionId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

type OfSession = BTreeMap<ArtifactId, Arc<Vec<u8>>>;

/// Keeps artifacts for as long as the program runs.
#[derive(Default)]
pub struct Attic(Mutex<BTreeMap<SessionId, OfSession>>);

impl Attic {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, OfSession>> {
        self.0.lock().expect("not poisoned")
    }
}

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl ArtifactStorePort for Attic {
    fn put<'a>(
        &'a self,
        session: &'a SessionId,
        content: Arc<Vec<u8>>,
    ) -> BoxFuture<'a, Result<ArtifactId, StoreError>> {
        let id = ArtifactId::of(&content);
        self.all().entry(session.clone()).or_default().insert(id.clone(), content);
        now(id)
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        let part = self.all().get(session).and_then(|kept| kept.get(id)).map(|content| {
            let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(content.len());
            content[at(range.start).min(at(range.end))..at(range.end)].to_vec()
        });
        now(part)
    }

    fn list<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<StoredArtifact>, StoreError>> {
        let all = self.all();
        let kept = all.get(session).into_iter().flatten();
        now(kept.map(|(id, content)| StoredArtifact { id: id.clone(), bytes: content.len() as u64 }).collect())
    }

    fn share<'a>(
        &'a self,
        from: &'a SessionId,
        to: &'a SessionId,
        ids: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut all = self.all();
        let own = all.get(from).cloned().unwrap_or_default();
        all.entry(to.clone()).or_default().extend(own.into_iter().filter(|(id, _)| ids.contains(id)));
        now(())
    }

    fn recorded<'a>(&'a self, _session: &'a SessionId, _ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn unrecorded(&self, _most: usize) -> BoxFuture<'_, Result<Vec<(SessionId, Vec<ArtifactId>)>, StoreError>> {
        now(Vec::new())
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, Result<(), StoreError>> {
        if let Some(kept) = self.all().get_mut(session) {
            kept.retain(|id, _| !ids.contains(id));
        }
        now(())
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<usize, StoreError>> {
        now(self.all().remove(session).map_or(0, |kept| kept.len()))
    }
}
