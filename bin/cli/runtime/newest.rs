//! The newest part of a session's journal: it says how the session is, however many turns it had.

use bob::SessionId;
use bob::store::{Part, Session, SessionStore, StoreError};

/// A session as its journal has it.
pub(crate) struct Read {
    pub(crate) session: Session,
    /// Whether its history has all messages. Otherwise those that the last snapshot has and those behind it.
    pub(crate) is_whole: bool,
}

/// Reads the session from its last snapshot on; the whole journal where there is none, or it cannot be used.
pub(crate) async fn read(store: &dyn SessionStore, session: &SessionId) -> Result<Read, StoreError> {
    let newest = store.load_part(session, Part::Latest).await?;
    let is_whole = newest.first().is_none_or(|first| first.version == 1);
    match Session::fold_latest(session.clone(), None, &newest) {
        Some(session) => Ok(Read { session, is_whole }),
        None => {
            let records = store.load(session).await?;
            Ok(Read { session: Session::fold(session.clone(), &records), is_whole: true })
        }
    }
}
