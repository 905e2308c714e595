//! What the turns of a session changed of files, and how it is taken back.

#[cfg(feature = "local-tools")]
pub use bob_actors::tools::local::{Originals, Undone, undo};
pub use bob_messages::file_changes::{
    Child, ChildRecords, TurnChanges, children, in_order, of_records, together, with_children,
};

use bob_actors::store::SessionStore;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::store::Record;
use bob_messages::tools::FileChange;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::HashSet;
use std::sync::Arc;

/// What the turns of a session changed of files, with what its sub-agents changed for them, at all levels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionChanges {
    /// The turns that changed files, oldest first.
    pub turns: Vec<TurnChanges>,
    /// The session, and those of its sub-agents that were read.
    pub sessions: HashSet<SessionId>,
    /// The sessions of sub-agents that could not be read, each with the reason: what they changed is missing.
    pub unknown: Vec<(SessionId, String)>,
}

impl SessionChanges {
    /// What a turn changed: one change for each file that is not as it was before the turn.
    pub fn of_turn(&self, turn: &TurnId) -> Vec<FileChange> {
        let turn = self.turns.iter().find(|known| known.turn == *turn);
        turn.map(|turn| together(&turn.changes)).unwrap_or_default()
    }
}

/// What a session changed, from its records, and from those of its sub-agents in the store. A program with a runtime uses
/// [`Runtime::file_changes`](crate::Runtime::file_changes).
pub async fn of_session(store: &dyn SessionStore, session: &SessionId, records: &[Arc<Record>]) -> SessionChanges {
    let load =
        |session: SessionId| async move { store.load(&session).await.map_err(|error| error.to_string()) }.boxed();
    gathered(session, records, &load).await
}

type Load<'l> = dyn Fn(SessionId) -> BoxFuture<'l, Result<Vec<Arc<Record>>, String>> + Send + Sync + 'l;

/// What a session changed, with the records of its sub-agents as they are loaded.
pub(crate) async fn gathered(session: &SessionId, records: &[Arc<Record>], load: &Load<'_>) -> SessionChanges {
    let (mut read, mut unknown) = (Vec::new(), Vec::new());
    let mut unread = children(session, records);
    let mut sessions = HashSet::from([session.clone()]);
    while let Some(child) = unread.pop() {
        if !sessions.insert(child.session.clone()) {
            continue;
        }
        match load(child.session.clone()).await {
            // Without a result its session may never have begun.
            Ok(records) if records.is_empty() && !child.has_result => {}
            Ok(records) if records.is_empty() => {
                unknown.push((child.session, "it has no records, and was deleted perhaps".to_owned()));
            }
            Ok(records) => {
                let records = ChildRecords::of(&child, records);
                let below = children(&child.session, &records.records).into_iter();
                unread.extend(below.map(|below| {
                    let in_background = child.in_background || below.in_background;
                    Child { turn: child.turn.clone(), in_background, ..below }
                }));
                read.push(records);
            }
            Err(error) => unknown.push((child.session, error)),
        }
    }
    SessionChanges { turns: with_children(session, records, &read), sessions, unknown }
}
