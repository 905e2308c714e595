//! What the writer is asked to do, by readers and encoders.

use super::tables::{Entry, Journal, Unreadable};
use crate::store::SessionOwner;
use crate::store::encoded::Encoded;
use crate::store::span::Span;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, StoreError};
use std::path::Path;

pub(super) enum Job {
    Append(Vec<Encoded>, Reply<Vec<Result<u64, StoreError>>>),
    Claim(SessionId, Span, Box<Seen>, Reply<Result<Claim, StoreError>>),
    Release(SessionId, u64, Reply<()>),
    Take(SessionId, Reply<Result<Option<SessionOwner>, StoreError>>),
    Delete(SessionId, Reply<Result<bool, StoreError>>),
}

impl Job {
    /// Answers as a database answers in which there is nothing.
    pub(super) fn answer_empty(self) {
        match self {
            Self::Take(_, reply) => reply.send(Ok(None)),
            Self::Delete(_, reply) => reply.send(Ok(false)),
            other => other.refuse(&StoreError::Fenced { epoch: 0 }),
        }
    }

    pub(super) fn refuse(self, error: &StoreError) {
        match self {
            Self::Append(batch, reply) => reply.send(vec![Err(error.clone()); batch.len()]),
            Self::Claim(_, _, _, reply) => reply.send(Err(error.clone())),
            Self::Release(_, _, reply) => reply.send(()),
            Self::Take(_, reply) => reply.send(Err(error.clone())),
            Self::Delete(_, reply) => reply.send(Err(error.clone())),
        }
    }
}

/// A session as the reader saw it: its row and, where that is not said to be damaged, its records.
pub(super) type Seen = Option<(Entry, Result<Journal, Unreadable>)>;

pub(super) fn damaged(path: &Path, session: &SessionId, what: &str) -> StoreError {
    let path = path.display();
    StoreError::Corrupt(format!(
        "session {session} in {path}, {what}; it is left as it is: restore a copy of the database, or delete the session"
    ))
}
