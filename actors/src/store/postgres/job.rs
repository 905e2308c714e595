//! What a writer and the reader are asked to do.

use super::contents;
use crate::store::encoded::Encoded;
use crate::store::span::Span;
use crate::store::{SessionOwner, StoreOverview};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Claim, Record, SessionFilter, SessionPage, StoreError};
use std::sync::Arc;

/// What a writer does. All that concerns one session goes to one writer.
pub(super) enum Job {
    Append(Encoded, Reply<Result<u64, StoreError>>),
    Claim(SessionId, Span, Reply<Result<Claim, StoreError>>),
    Release(SessionId, u64, Reply<()>),
    Take(SessionId, Reply<Result<Option<SessionOwner>, StoreError>>),
    Delete(SessionId, Reply<Result<bool, StoreError>>),
}

impl Job {
    pub(super) fn session(&self) -> &SessionId {
        match self {
            Self::Append(encoded, _) => &encoded.append.session,
            Self::Claim(session, ..)
            | Self::Release(session, ..)
            | Self::Take(session, _)
            | Self::Delete(session, _) => session,
        }
    }
}

pub(super) enum Ask {
    Load(SessionId, Span, Reply<Result<Vec<Arc<Record>>, StoreError>>),
    Owner(SessionId, Reply<Result<Option<SessionOwner>, StoreError>>),
    Overview(Reply<Result<StoreOverview, StoreError>>),
    List(SessionFilter, Option<String>, Reply<Result<SessionPage, StoreError>>),
    Artifacts(contents::Read),
}
