//! Errors keep their form as JSON, and their data.

use super::*;
use crate::llm::LlmErrorKind;
use serde_json::json;
use std::error::Error;

#[test]
fn what_an_older_program_has_written_is_read() {
    let read = |json| serde_json::from_value::<AgentError>(json).unwrap();
    assert_eq!(read(json!({"kind": "busy", "detail": "later"})), AgentError::busy("later"));
    assert_eq!(read(json!({"kind": "overloaded", "detail": "later"})), AgentError::overloaded("later"));
    let late = AgentError::Timeout { text: "late".into(), which: None, after_ms: None };
    assert_eq!(read(json!({"kind": "timeout", "detail": "late"})), late);
    assert_eq!(read(json!({"kind": "internal", "detail": "a fault"})), AgentError::Internal("a fault".into()));
    let down = AgentError::Store(StoreError::Unavailable("down".into()));
    assert_eq!(read(json!({"kind": "store", "detail": {"unavailable": "down"}})), down);
}

#[test]
fn an_error_is_written_as_before_with_its_data_beside() {
    for (error, json) in [
        (AgentError::busy("later"), json!({"kind": "busy", "detail": "later"})),
        (
            AgentError::from(StoreError::Busy { owner: "ann".into() }),
            json!({"kind": "busy", "detail": "the session is in use by ann", "owner": "ann"}),
        ),
        (
            AgentError::overloaded_for("later", Some(900)),
            json!({"kind": "overloaded", "detail": "later", "retry_after_ms": 900}),
        ),
        (
            AgentError::timeout("late", "summary", 20),
            json!({"kind": "timeout", "detail": "late", "which": "summary", "after_ms": 20}),
        ),
        (AgentError::Stopped("over".into()), json!({"kind": "stopped", "detail": "over"})),
        (AgentError::GuardExceeded(GuardReason::MaxSteps), json!({"kind": "guard_exceeded", "detail": "max_steps"})),
    ] {
        assert_eq!(serde_json::to_value(&error).unwrap(), json, "{error:?}");
        assert_eq!(json["kind"], error.kind());
        assert_eq!(serde_json::from_value::<AgentError>(json).unwrap(), error);
    }
}

#[test]
fn an_error_of_a_model_or_a_store_is_the_source() {
    let model = AgentError::from(LlmError::new(LlmErrorKind::Unavailable, "down"));
    assert!(model.source().is_some_and(|source| source.downcast_ref::<LlmError>().is_some()));
    for error in [AgentError::Store(StoreError::Corrupt("x".into())), AgentError::Kept(StoreError::Corrupt("x".into()))]
    {
        assert!(error.source().is_some_and(|source| source.downcast_ref::<StoreError>().is_some()), "{error:?}");
    }
    assert!(AgentError::busy("later").source().is_none());
}

/// What an error comes from is neither compared nor written down: a replay of a journal has the same outcome.
#[test]
fn what_is_below_an_error_of_a_model_is_its_source_and_no_part_of_its_value() {
    let bare = LlmError::new(LlmErrorKind::Unavailable, "down");
    let full = bare.clone().with_source(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
    let below = |error: &LlmError| error.source()?.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    assert_eq!((below(&bare), below(&full)), (None, Some(std::io::ErrorKind::BrokenPipe)));
    assert_eq!(below(&full.clone()), below(&full));
    assert_eq!(bare, full);
    let json = serde_json::to_string(&full).unwrap();
    assert_eq!(json, serde_json::to_string(&bare).unwrap());
    assert!(below(&serde_json::from_str(&json).unwrap()).is_none());
}
