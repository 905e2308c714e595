//! Finishes what a crash of the program interrupted, without a new message to the session.

use super::request::AgentRunResult;
use super::runtime::Runtime;
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use bob_messages::session::{OpenTurn, Session, TurnInput};
use bob_messages::turn::{Brief, OnRestart};
use std::sync::Arc;

/// Submits the inputs again that the journal holds without an outcome, under their own names: the session's actor
/// reads the journal, goes on with the open turn, and takes none of them a second time.
///
/// # Errors
/// `Busy` when a turn of the session runs here or in another process; what the store says.
pub(super) async fn finish(runtime: &Runtime, session: SessionId) -> Result<Vec<AgentRunResult>, AgentError> {
    // An actor that has read the journal already would not look for what was interrupted.
    if !runtime.let_go(&session).await {
        return Err(AgentError::Busy("a turn of the session runs; cancel it, or wait for its end".into()));
    }
    let records = runtime.journal(session.clone()).await?;
    let brief = Arc::new(Brief { on_restart: OnRestart::Resume, ..(**runtime.brief()).clone() });
    let owed: Vec<_> = interrupted(&session, &records)
        .into_iter()
        .map(|input| runtime.hand_in(session.clone(), input, Arc::clone(&brief)))
        .collect();
    let mut results = Vec::with_capacity(owed.len());
    for owed in owed {
        results.push(super::runtime::outcome(runtime, owed).await?);
    }
    Ok(results)
}

/// The input of the open turn and those that wait behind it, each named as its outcome is owed.
fn interrupted(session: &SessionId, records: &[Arc<bob_messages::store::Record>]) -> Vec<Arc<TurnInput>> {
    let folded = Session::fold(session.clone(), records);
    let open = folded.running().map(as_owed);
    open.into_iter().chain(folded.waiting.iter().cloned()).collect()
}

/// The input of an open turn. One that went on after a question is owed to whoever answered.
pub(super) fn as_owed(open: &OpenTurn) -> Arc<TurnInput> {
    match open.submission == open.input.turn {
        true => Arc::clone(&open.input),
        false => Arc::new(TurnInput { turn: open.submission.clone(), ..(*open.input).clone() }),
    }
}
