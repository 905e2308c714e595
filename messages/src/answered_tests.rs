//! What answers of the supervisor mean for calls of agents, and which children end with their callers.

use crate::agent::{ChildTurn, read, resumed, worked};
use crate::chat::{CallStatus, FinishReason, ToolCall, ToolOutput};
use crate::error::{AgentError, StoreError};
use crate::ids::{CallId, SessionId, ToolName, TurnId};
use crate::outcome::{EndReason, TurnOutcome};
use crate::tools::ToolReturn;
use std::sync::Arc;

fn call() -> ToolCall {
    let arguments = serde_json::json!({"task": "look"});
    ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("agent/reader"),
        argument_bytes: arguments.to_string().len(),
        arguments: Arc::new(arguments),
        signatures: Vec::new(),
    }
}

fn ends(finish_reason: FinishReason) -> Result<Box<TurnOutcome>, AgentError> {
    let session = SessionId::parse("s").unwrap();
    Ok(Box::new(TurnOutcome::bare(session, TurnId::new("t"), finish_reason, "found")))
}

#[test]
fn a_refusal_for_now_is_a_result_only_of_a_call_that_was_not_made_before() {
    let statuses = |answer: Result<Box<TurnOutcome>, AgentError>| {
        [false, true].map(|again| worked(&call(), &answer, again).status)
    };
    let in_doubt = AgentError::Store(StoreError::InDoubt("it is away".into()));
    assert_eq!(statuses(ends(FinishReason::Final)), [CallStatus::Ok; 2]);
    assert_eq!(statuses(ends(FinishReason::Cancelled)), [CallStatus::Error; 2]);
    assert_eq!(statuses(Err(AgentError::overloaded("later"))), [CallStatus::Error, CallStatus::Unknown]);
    assert_eq!(statuses(Err(AgentError::Invalid("no".into()))), [CallStatus::Error; 2]);
    assert_eq!(statuses(Err(in_doubt)), [CallStatus::Unknown; 2], "it may have begun");
    let kept = AgentError::Kept(StoreError::Unavailable("it is away".into()));
    assert_eq!(statuses(Err(kept)), [CallStatus::Unknown; 2], "it begins later");
}

#[test]
fn a_decision_that_is_not_taken_is_asked_for_again_or_the_outcome_is_read() {
    let asks = || ToolOutput::waits_for("May it?");
    let resumed = |answer| resumed(&call(), &answer, asks());
    assert_eq!(resumed(ends(FinishReason::Final)).unwrap().output.plain(), "found");
    assert_eq!(resumed(Err(AgentError::busy("elsewhere"))), Some(ToolReturn::of(asks())));
    assert_eq!(resumed(Err(AgentError::Invalid("no such question".into()))), None);
    let unknown = resumed(Err(AgentError::Internal("a defect".into()))).unwrap();
    assert_eq!(unknown.status, CallStatus::Unknown);
}

#[test]
fn a_journal_without_an_outcome_leaves_it_unknown() {
    assert_eq!(read(&call(), None).status, CallStatus::Unknown);
    assert_eq!(read(&call(), Some(&ends(FinishReason::Final).unwrap())).output.plain(), "found");
}

#[test]
fn children_end_with_their_callers_unless_they_outlive_them() {
    let child = |outlives| ChildTurn {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        of: TurnId::new("above"),
        outlives,
    };
    let stops = |reason| [false, true].map(|outlives| child(outlives).ends_with_stop(reason));
    assert_eq!(stops(EndReason::Cancelled), [true, false], "its outcome says that none outlives it");
    assert_eq!(stops(EndReason::TurnTimeout), [true, false]);
    assert_eq!(stops(EndReason::Shutdown), [true, false], "the next process has its result");
    assert_eq!(stops(EndReason::HandedOver), [false, false]);
    let ends = |cancelled: Option<&str>| {
        let cancelled = cancelled.map(TurnId::new);
        [false, true].map(|outlives| child(outlives).ends_with_turn(cancelled.as_ref()))
    };
    assert_eq!(ends(None), [true, false]);
    assert_eq!(ends(Some("above")), [true, true]);
    assert_eq!(ends(Some("a later one")), [true, false]);
}
