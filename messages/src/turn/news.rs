//! Effects that answer the callers of a session.

use super::{Effect, TurnMessage};
use crate::approvals::Heard;
use crate::error::AgentError;
use crate::ids::{ApprovalId, RequestId, Ticket, TurnId};
use crate::input::TurnInput;
use crate::outcome::TurnOutcome;
use crate::store::StoreError;
use crate::submission::TurnNews;

pub(super) fn finished(submission: TurnId, outcome: TurnOutcome) -> Effect {
    Effect::Report(TurnNews::Finished { submission, outcome: Box::new(outcome) })
}

/// An input or a reply is not taken.
pub(super) fn refused(submission: &TurnId, error: AgentError) -> Effect {
    Effect::Report(TurnNews::Refused { submission: submission.clone(), error })
}

/// Refuses an input, a reply or a change of the options. A turn that was to be closed and cannot be is not waited for:
/// its caller says so again. Other requests have no refusal.
pub(super) fn refused_request(request: &TurnMessage, error: AgentError) -> Option<Effect> {
    match request {
        TurnMessage::Configure { asked, .. } => Some(configured(&asked.request_id, Err(error))),
        TurnMessage::GivenUp { .. } => Some(Effect::Report(TurnNews::Closed)),
        request => request.submission().map(|submission| refused(submission, error)),
    }
}

/// A reply carries a token that no suspended turn has.
pub(super) fn refused_token(submission: &TurnId) -> Effect {
    let text = "no suspended turn has this token; it may have been answered already";
    refused(submission, AgentError::Invalid(text.into()))
}

/// A change of the options is durable, or not taken.
pub(super) fn configured(request_id: &RequestId, result: Result<(), AgentError>) -> Effect {
    Effect::Report(TurnNews::Configured { request_id: request_id.clone(), result })
}

/// Answers a steer message: it is durable, has no turn, or is not taken.
pub(super) fn steered(request_id: &RequestId, result: Result<bool, AgentError>) -> Effect {
    Effect::Report(TurnNews::Steered { request_id: request_id.clone(), result })
}

pub(super) fn decision_heard(approval: &ApprovalId, asker: Option<Ticket>, heard: Heard) -> Effect {
    Effect::Report(TurnNews::Decided { approval: approval.clone(), asker, heard })
}

/// Whether it is in the journal is not known: sent again, it might run twice.
pub(super) fn in_doubt(why: String) -> AgentError {
    AgentError::Store(StoreError::InDoubt(why))
}

pub(super) fn began(submission: &TurnId, input: &TurnInput) -> Effect {
    Effect::Report(TurnNews::Began {
        submission: submission.clone(),
        turn: input.turn.clone(),
        limits: Box::new(input.limits),
        asks_at_limits: input.may_ask_at_limits(),
        tenant: input.tenant().cloned(),
    })
}
