//! One line: run, or answered from the store.

use std::sync::Arc;

use bob::sessions::TurnOutcome;
use bob::store::SessionStore;
use bob::tools::FileChange;
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime, SessionId};

use super::again::Earlier;
use crate::commands::file_changes;

pub(crate) struct Ended {
    pub(crate) line: u64,
    pub(crate) session: SessionId,
    pub(crate) result: Result<Arc<TurnOutcome>, AgentError>,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) is_new: bool,
    /// The session's earlier turns, with `--finish`.
    pub(crate) earlier: Option<Earlier>,
}

pub(crate) struct Journaled {
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<dyn SessionStore>,
}

impl Journaled {
    async fn changes(&self, result: &Result<Arc<TurnOutcome>, AgentError>) -> Vec<FileChange> {
        match result {
            Ok(outcome) => file_changes::of_outcome(&*self.store, outcome).await,
            Err(_no_turn) => Vec::new(),
        }
    }
}

pub(crate) async fn run(journaled: Journaled, line: u64, request: AgentRequest) -> Ended {
    let session = request.session.clone();
    let result = outcome(&journaled.runtime, request).await;
    let changes = journaled.changes(&result).await;
    Ended { line, session, result, changes, is_new: true, earlier: None }
}

/// Runs a line unless it is the `nth` turn of its prompt in its session's journal, counted from 0. Reads the journal
/// unless it is `known`.
pub(crate) async fn finish(
    journaled: Journaled,
    line: u64,
    request: AgentRequest,
    nth: usize,
    known: Option<Earlier>,
) -> Ended {
    let session = request.session.clone();
    let earlier = match known {
        Some(earlier) => earlier,
        None => match Earlier::read(&journaled.runtime, &session).await {
            Ok(earlier) => earlier,
            Err(error) => {
                return Ended { line, session, result: Err(error), changes: Vec::new(), is_new: true, earlier: None };
            }
        },
    };
    let prompt: String = request.input.iter().map(|part| part.as_text()).collect();
    let (result, is_new) = match earlier.outcome(&prompt, nth) {
        Some((outcome, is_new)) => (Ok(outcome), is_new),
        None => (outcome(&journaled.runtime, request).await, true),
    };
    let changes = journaled.changes(&result).await;
    Ended { line, session, result, changes, is_new, earlier: Some(earlier) }
}

async fn outcome(runtime: &Runtime, request: AgentRequest) -> Result<Arc<TurnOutcome>, AgentError> {
    let result = runtime.run(request).await?;
    Ok(Arc::new(result.response().clone()))
}
