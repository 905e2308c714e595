//! Which sessions are at work: those with an actor in this process, and those of other processes that live.

use std::collections::BTreeSet;

use bob::health::NodeState;
use bob::sessions::SessionSummary;
use bob::{AgentRuntime, SessionId};

use crate::commands::sessions::find;
use crate::runtime::OpenRuntime;

/// Those of the sessions that have an interrupted turn; none that the runtime has open has.
pub(super) async fn interrupted(opened: &OpenRuntime, sessions: &[SessionSummary]) -> BTreeSet<SessionId> {
    let mut interrupted = find::interrupted(&*opened.store, sessions).await;
    if !interrupted.is_empty() {
        let tree = opened.runtime.tree().await;
        interrupted.retain(|session| !is_open(session, &tree));
    }
    interrupted
}

/// Whether an actor of this tree has the session.
pub(super) fn is_open(session: &SessionId, tree: &[NodeState]) -> bool {
    tree.iter().any(|node| node.name == session.as_str() || is_open(session, &node.children))
}
