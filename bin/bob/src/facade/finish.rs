//! Finishes turns that a crash of the program interrupted, without a new message to the session.

use super::request::AgentRunResult;
use super::runtime::Runtime;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::input::TurnInput;
use bob_messages::outcome::TurnOutcome;
use bob_messages::session_state::{OpenTurn, Session};
use bob_messages::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

/// Resubmits the inputs that have no outcome in the journal, under their own ids: the session's actor reads the
/// journal, continues the open turn, and accepts no input twice. Those of the requests that were cancelled are ended at once.
/// Errors: `Busy` when a turn of the session is running here or in another process; errors of the store. If at least
/// one turn has ended, refused ones are returned as failed outcomes that are not saved. The call may be repeated.
pub(crate) async fn finish(
    runtime: &Runtime,
    session: SessionId,
    cancelled: &[RequestId],
) -> Result<Vec<AgentRunResult>, AgentError> {
    // An actor that has read the journal already would not look for interrupted turns.
    if !runtime.let_go(&session).await {
        return Err(AgentError::busy("a turn of the session runs; cancel it, or wait for its end"));
    }
    let found = runtime.folded(session.clone()).await?;
    runtime.settle_tenant(found.tenant.as_ref()).await?;
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*runtime.turn_config_now()).clone() });
    let owed: Vec<_> = interrupted(&found)
        .into_iter()
        .map(|input| {
            let turn = input.turn.clone();
            let is_cancelled = cancelled.iter().any(|of| is_request(&found, &input, of));
            let owed = runtime.hand_in(session.clone(), input, Arc::clone(&turn_config));
            if is_cancelled {
                runtime.cancel_later(&session, Some(turn.clone()));
            }
            (turn, owed)
        })
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
    // If some turns have ended, their outcomes are returned regardless of the others.
    match refused {
        Some(error) if results.iter().all(|result| result.response().model.is_none()) => Err(error),
        Some(_) | None => Ok(results),
    }
}

/// Whether an input that is owed was asked for by this request.
fn is_request(found: &Session, input: &TurnInput, request: &RequestId) -> bool {
    let open = found.running().filter(|open| open.submission == input.turn);
    open.map_or(input.request_id.as_ref() == Some(request), |open| open.is_request(request))
}

/// Returns the input of the open turn and those queued behind it, under their request ids.
fn interrupted(folded: &Session) -> Vec<Arc<TurnInput>> {
    let open = folded.running().map(as_owed);
    open.into_iter().chain(folded.waiting.iter().cloned()).collect()
}

/// Returns the input of an open turn. A turn that was resumed is owed to the caller of the resumption.
pub(super) fn as_owed(open: &OpenTurn) -> Arc<TurnInput> {
    match open.submission == open.input.turn {
        true => Arc::clone(&open.input),
        // The journal has the request id.
        false => Arc::new(TurnInput { turn: open.submission.clone(), request_id: None, ..(*open.input).clone() }),
    }
}
