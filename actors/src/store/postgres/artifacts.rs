//! The store of large parts, as the sessions beside it see it: what is asked goes to the tasks of the store's thread.

use super::contents::{Read, Sent, Write};
use super::job::Ask;
use crate::store::StoreFuture;
use crate::store::artifacts::{ArtifactStorePort, StoredArtifact};
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};
use tokio::time::Instant;

/// The ways to the tasks, which it does not keep alive.
#[derive(Debug)]
pub(super) struct PostgresArtifacts {
    reads: WeakUnboundedSender<Ask>,
    writes: WeakUnboundedSender<Sent>,
}

impl PostgresArtifacts {
    pub(super) fn of(reads: &UnboundedSender<Ask>, writes: &UnboundedSender<Sent>) -> Arc<dyn ArtifactStorePort> {
        Arc::new(Self { reads: reads.downgrade(), writes: writes.downgrade() })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(Reply<Result<T, StoreError>>) -> Read,
    ) -> StoreFuture<'static, T> {
        sent(&self.reads, |reply| Ask::Artifacts(read(reply)))
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(Reply<Result<T, StoreError>>) -> Write,
    ) -> StoreFuture<'static, T> {
        sent(&self.writes, |reply| Sent { write: write(reply), at: Instant::now() })
    }
}

fn sent<M, T: Send + 'static>(
    way: &WeakUnboundedSender<M>,
    message: impl FnOnce(Reply<Result<T, StoreError>>) -> M,
) -> StoreFuture<'static, T> {
    let (reply, answer) = Reply::channel();
    if let Some(way) = way.upgrade() {
        // A task that ended drops it, which answers.
        drop(way.send(message(reply)));
    }
    answer.map(|answer| answer.unwrap_or_else(|| Err(super::ended()))).boxed()
}

impl ArtifactStorePort for PostgresArtifacts {
    fn put<'a>(&'a self, session: &'a SessionId, content: Arc<Vec<u8>>) -> StoreFuture<'a, ArtifactId> {
        async move {
            let hashed = Arc::clone(&content);
            let id = tokio::task::spawn_blocking(move || ArtifactId::of(&hashed)).await;
            let id = id.map_err(|_| StoreError::Unavailable("the runtime ends".to_owned()))?;
            self.write(|reply| Write::Put(session.clone(), id.clone(), content, reply)).await?;
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
        self.read(|reply| Read::Get(session.clone(), id.clone(), range, reply))
    }

    fn list<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StoredArtifact>> {
        self.read(|reply| Read::List(session.clone(), reply))
    }

    fn share<'a>(&'a self, from: &'a SessionId, to: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        self.write(|reply| Write::Share { from: from.clone(), to: to.clone(), ids: ids.to_vec(), reply })
    }

    fn recorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        self.write(|reply| Write::Recorded(session.clone(), ids.to_vec(), reply)).map(drop).boxed()
    }

    fn unrecorded(&self, most: usize) -> StoreFuture<'_, Vec<(SessionId, Vec<ArtifactId>)>> {
        self.read(|reply| Read::Unrecorded(most, reply))
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let (session, ids, only_unrecorded) = (session.clone(), ids.to_vec(), false);
        self.write(|reply| Write::Delete { session, ids, only_unrecorded, reply })
    }

    fn delete_unrecorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let (session, ids, only_unrecorded) = (session.clone(), ids.to_vec(), true);
        self.write(|reply| Write::Delete { session, ids, only_unrecorded, reply })
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, usize> {
        self.write(|reply| Write::DeleteAll(session.clone(), reply))
    }
}
