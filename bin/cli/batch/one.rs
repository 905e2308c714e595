//! One line: run, or answered from the store.

use std::sync::Arc;

use bob::sessions::TurnOutcome;
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime, SessionId};

use super::again::Earlier;

/// A line that has ended.
pub(crate) struct Ended {
    pub(crate) line: u64,
    /// Whose turn it was.
    pub(crate) session: SessionId,
    /// How it ended, or why it was not taken.
    pub(crate) result: Result<Arc<TurnOutcome>, AgentError>,
    /// Whether its turn ran now.
    pub(crate) is_new: bool,
    /// The session's earlier turns, with `--finish`.
    pub(crate) earlier: Option<Earlier>,
}

/// Runs a line.
pub(crate) async fn run(runtime: Runtime, line: u64, request: AgentRequest) -> Ended {
    let session = request.session.clone();
    let result = outcome(&runtime, request).await;
    Ended { line, session, result, is_new: true, earlier: None }
}

/// Runs a line unless it is the `nth` turn of its prompt in its session's journal, counted from 0. Reads the journal
/// unless it is `known`.
pub(crate) async fn finish(
    runtime: Runtime,
    line: u64,
    request: AgentRequest,
    nth: usize,
    known: Option<Earlier>,
) -> Ended {
    let session = request.session.clone();
    let earlier = match known {
        Some(earlier) => earlier,
        None => match Earlier::read(&runtime, &session).await {
            Ok(earlier) => earlier,
            Err(error) => return Ended { line, session, result: Err(error), is_new: true, earlier: None },
        },
    };
    let prompt: String = request.input.iter().map(|part| part.as_text()).collect();
    let (result, is_new) = match earlier.outcome(&prompt, nth) {
        Some((outcome, is_new)) => (Ok(outcome), is_new),
        None => (outcome(&runtime, request).await, true),
    };
    Ended { line, session, result, is_new, earlier: Some(earlier) }
}

async fn outcome(runtime: &Runtime, request: AgentRequest) -> Result<Arc<TurnOutcome>, AgentError> {
    let result = runtime.run(request).await?;
    Ok(Arc::new(result.response().clone()))
}
