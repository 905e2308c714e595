//! The table of exit codes, once as errors and once as outcomes.

use super::*;
use bob::SessionId;
use bob::model::LlmErrorKind;
use bob::sessions::{GuardReason, TurnId};

fn llm(kind: LlmErrorKind) -> AgentError {
    LlmError::new(kind, "x").into()
}

#[test]
fn every_error_has_its_code() {
    let text = || "x".to_owned();
    for (error, code) in [
        (llm(LlmErrorKind::UnknownModel), 2),
        (llm(LlmErrorKind::UnknownProvider), 2),
        (llm(LlmErrorKind::MissingKey), 2),
        (llm(LlmErrorKind::Unavailable), 5),
        (llm(LlmErrorKind::Unauthorized), 5),
        (llm(LlmErrorKind::Malformed), 5),
        (AgentError::Tool(text()), 6),
        (AgentError::Skill(text()), 2),
        (AgentError::Policy(text()), 2),
        (AgentError::Store(StoreError::Unavailable(text())), 7),
        (AgentError::Store(StoreError::Corrupt(text())), 7),
        (AgentError::Kept(StoreError::Unavailable(text())), 7),
        (AgentError::from(StoreError::Busy { owner: text() }), 75),
        (AgentError::Store(StoreError::Busy { owner: text() }), 75),
        (AgentError::timeout(text(), "summary", 1), 75),
        (AgentError::busy(text()), 75),
        (AgentError::overloaded(text()), 75),
        (AgentError::GuardExceeded(GuardReason::MaxSteps), 3),
        (AgentError::Invalid(text()), 2),
        (AgentError::Internal(text()), 70),
        (AgentError::Stopped(text()), 70),
    ] {
        assert_eq!(Exit::of_error(&error) as u8, code, "{error:?}");
    }
}

#[test]
fn every_outcome_has_its_code() {
    for (reason, code) in [
        (FinishReason::Final, 0),
        (FinishReason::GuardExceeded, 3),
        (FinishReason::Suspended, 4),
        (FinishReason::Cancelled, 130),
        (FinishReason::Error, 70),
    ] {
        let session = SessionId::parse("s").unwrap();
        let outcome = TurnOutcome { saved: true, ..TurnOutcome::bare(session, TurnId::new("t"), reason, "") };
        assert_eq!(Exit::of(&outcome) as u8, code, "{reason:?}");
    }
}

#[test]
fn an_end_that_is_not_saved_is_a_failure_of_the_store_unless_it_is_saved_later() {
    let limit = Some(GuardReason::TurnTimeout);
    for (reason, guard, code) in [
        (FinishReason::Final, None, 7),
        (FinishReason::Suspended, None, 7),
        (FinishReason::GuardExceeded, Some(GuardReason::MaxSteps), 7),
        (FinishReason::GuardExceeded, limit, 3),
        (FinishReason::Cancelled, None, 130),
        (FinishReason::Error, None, 70),
    ] {
        let session = SessionId::parse("s").unwrap();
        let outcome = TurnOutcome::bare(session, TurnId::new("t"), reason, "");
        let outcome = TurnOutcome { saved: false, guard_reason: guard, ..outcome };
        assert_eq!(Exit::of(&outcome) as u8, code, "{reason:?} {guard:?}");
    }
}

#[test]
fn a_failed_turn_has_the_code_of_its_error() {
    let session = SessionId::parse("s").unwrap();
    let outcome = TurnOutcome::failed(session, TurnId::new("t"), llm(LlmErrorKind::Timeout));
    assert_eq!(Exit::of(&outcome), Exit::Model);
}

#[test]
fn a_reader_that_left_is_not_complained_about() {
    let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!((failure.exit as u8, failure.message.as_str()), (141, ""));
}
