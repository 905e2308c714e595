//! Who has a session that was taken from this process.

use bob::AgentError;
use bob::sessions::TurnOutcome;
use bob::store::StoreError;

use super::OpenRuntime;

/// Whether a turn ended since another process has its session.
pub(crate) fn is_taken(outcome: &TurnOutcome) -> bool {
    matches!(outcome.error, Some(AgentError::Store(StoreError::Fenced { .. } | StoreError::Conflict { .. })))
}

/// A remark on a turn whose session was taken: who has it now, as far as the store knows. `None` for another turn.
pub(crate) async fn remark(opened: &OpenRuntime, outcome: &TurnOutcome) -> Option<String> {
    if !is_taken(outcome) {
        return None;
    }
    let session = &outcome.session_id;
    if matches!(outcome.error, Some(AgentError::Store(StoreError::Fenced { epoch: 0 }))) {
        return Some(format!("[session {session} was deleted by another process]"));
    }
    Some(match opened.store.owner(session).await {
        Ok(Some(owner)) => format!("[session {session} was taken from this process; {owner} has it now]"),
        Ok(None) => format!("[session {session} was taken from this process; no process is known to have it now]"),
        Err(error) => {
            format!("[session {session} was taken from this process; it is not known who has it: {error}]")
        }
    })
}
