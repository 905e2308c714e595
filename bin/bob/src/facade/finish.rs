//! Finishes what a crash of the program interrupted, without a new message to the session.

use super::request::AgentRunResult;
use super::runtime::Runtime;
use bob_messages::brief::{Brief, OnRestart};
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use bob_messages::input::TurnInput;
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::{OpenTurn, Session};
use std::sync::Arc;

/// Submits the inputs again that the journal holds without an outcome, under their own names: the session's actor
/// reads the journal, goes on with the open turn, and takes none of them a second time.
///
/// # Errors
/// `Busy` when a turn of the session runs here or in another process; what the store says. Where at least one turn has
/// ended, those that were refused are told as failed outcomes that are not saved. It may be asked for again in any case.
pub(super) async fn finish(runtime: &Runtime, session: SessionId) -> Result<Vec<AgentRunResult>, AgentError> {
    // An actor that has read the journal already would not look for what was interrupted.
    if !runtime.let_go(&session).await {
        return Err(AgentError::Busy("a turn of the session runs; cancel it, or wait for its end".into()));
    }
    let found = runtime.folded(session.clone()).await?;
    let brief = Arc::new(Brief { on_restart: OnRestart::Resume, ..(**runtime.brief()).clone() });
    let owed: Vec<_> = interrupted(&found)
        .into_iter()
        .map(|input| (input.turn.clone(), runtime.hand_in(session.clone(), input, Arc::clone(&brief))))
        .collect();
    let mut ends = Vec::with_capacity(owed.len());
    for (turn, owed) in owed {
        ends.push((turn, super::runtime::outcome(runtime, owed).await));
    }
    let (mut results, mut refused) = (Vec::with_capacity(ends.len()), None);
    for (turn, end) in ends {
        results.push(end.unwrap_or_else(|error| {
            refused.get_or_insert_with(|| error.clone());
            AgentRunResult::from(Box::new(TurnOutcome::failed(session.clone(), turn, error)))
        }));
    }
    // Where some have ended, their ends are told whatever became of the others.
    match refused {
        Some(error) if results.iter().all(|result| result.response().model.is_none()) => Err(error),
        Some(_) | None => Ok(results),
    }
}

/// The input of the open turn and those that wait behind it, each named as its outcome is owed.
fn interrupted(folded: &Session) -> Vec<Arc<TurnInput>> {
    let open = folded.running().map(as_owed);
    open.into_iter().chain(folded.waiting.iter().cloned()).collect()
}

/// The input of an open turn. One that went on after a question is owed to whoever answered.
pub(super) fn as_owed(open: &OpenTurn) -> Arc<TurnInput> {
    match open.submission == open.input.turn {
        true => Arc::clone(&open.input),
        // Whose request that is the journal knows.
        false => Arc::new(TurnInput { turn: open.submission.clone(), request_id: None, ..(*open.input).clone() }),
    }
}
