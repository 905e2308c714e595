//! A session as its journal has it, read without owning it.

use bob_actors::store::SessionStore;
use bob_messages::ids::SessionId;
use bob_messages::session_state::Session;
use bob_messages::store::{Part, StoreError};

/// Reads the session from its last snapshot on, or from the beginning.
pub(super) async fn folded(store: &dyn SessionStore, session: &SessionId) -> Result<Session, StoreError> {
    let newest = store.load_part(session, Part::Latest).await?;
    match Session::fold_latest(session.clone(), None, &newest) {
        Some(folded) => Ok(folded),
        None => Ok(Session::fold(session.clone(), &store.load(session).await?)),
    }
}
