//! The keys and the words of the result object, pinned.

use super::*;
use bob::model::{LlmError, LlmErrorKind};
use bob::sessions::TurnId;
use bob::tools::{CallId, CallStatus, ToolName};
use bob::{AgentError, SessionId};
use expect_test::expect;
use serde_json::json;

fn outcome() -> TurnOutcome {
    let session = SessionId::parse("s-1").unwrap();
    TurnOutcome {
        guard_reason: Some(GuardReason::MaxToolCalls),
        model: Some(ModelName::parse("local:m").unwrap()),
        stop_reason: Some(StopReason::ToolCalls),
        tool_transcript: vec![TranscriptEntry {
            id: CallId::new("c1"),
            name: ToolName::new("local/list_dir"),
            arguments: json!({"path": "."}).into(),
            status: CallStatus::Ok,
            result: "a.txt".to_owned(),
            duration_ms: 3,
        }]
        .into(),
        denied: vec![DeniedCall {
            name: ToolName::new("local/shell_exec"),
            arguments: json!({}).into(),
            reason: "the policy denies it".to_owned(),
            mode: None,
        }],
        labels: [("channel".to_owned(), "slack".to_owned())].into(),
        error: Some(AgentError::from(LlmError::new(LlmErrorKind::Unavailable, "no connection"))),
        ..TurnOutcome::bare(session, TurnId::new("t-1"), FinishReason::GuardExceeded, "so far")
    }
}

#[test]
fn the_keys_are_the_contract() {
    let line = print::json_text(&ResultObject::of(&outcome(), PermissionMode::Ask, Vec::new()));
    expect![[r#"{"session_id":"s-1","turn_id":"t-1","request_id":null,"model":"local:m","finish_reason":"guard_exceeded","guard_reason":"max_tool_calls","content":"so far","question":null,"token":null,"stop_reason":"tool_calls","tool_transcript":[{"id":"c1","name":"local/list_dir","arguments":{"path":"."},"status":"ok","result":"a.txt","duration_ms":3}],"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"steps":0,"duration_ms":0,"saved":false,"denied":[{"name":"local/shell_exec","arguments":{},"reason":"the policy denies it","mode":"ask","allowed_by":[]}],"labels":{"channel":"slack"},"error":{"kind":"llm","message":"no connection","retryable":false}}"#]]
    .assert_eq(&line);
}

#[test]
fn a_turn_that_is_not_saved_says_why() {
    let lost = TurnOutcome { finish_reason: FinishReason::Final, guard_reason: None, error: None, ..outcome() };
    let full = bob::store::StoreError::Unavailable("the disk is full: cannot write s.db".into());
    let message = |outcome: &TurnOutcome| {
        serde_json::to_value(ResultObject::of(outcome, PermissionMode::Ask, Vec::new())).unwrap()["error"]["message"]
            .clone()
    };
    assert_eq!(message(&lost), "the end of the turn is not saved; `cli-agent doctor` checks the store");
    assert_eq!(
        message(&TurnOutcome { unsaved: Some(Box::new(full)), ..lost }),
        "the end of the turn is not saved: the store is unavailable: the disk is full: cannot write s.db; \
         `cli-agent doctor` checks the store"
    );
}

/// A turn whose end is not saved is open in its journal, where it may go on: sent again, it would run twice.
#[test]
fn a_turn_may_be_sent_again_when_its_end_is_saved() {
    let retryable = |outcome: &TurnOutcome| {
        serde_json::to_value(ResultObject::of(outcome, PermissionMode::Ask, Vec::new())).unwrap()["error"]["retryable"]
            .clone()
    };
    assert_eq!(retryable(&outcome()), json!(false));
    assert_eq!(retryable(&TurnOutcome { saved: true, ..outcome() }), json!(true));
    let kept = AgentError::Kept(bob::store::StoreError::Unavailable("the disk is full".into()));
    let value = serde_json::to_value(ResultObject::of(
        &TurnOutcome { error: Some(kept), ..outcome() },
        PermissionMode::Ask,
        Vec::new(),
    ))
    .unwrap();
    assert_eq!((&value["error"]["kind"], &value["error"]["retryable"]), (&json!("kept"), &json!(false)));
}

#[test]
fn a_refusal_has_the_same_keys() {
    let keys = |value: Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    let turn = serde_json::to_value(ResultObject::of(&outcome(), PermissionMode::Ask, Vec::new())).unwrap();
    let failure = Failure::usage("the prompt is empty");
    let refusal = serde_json::to_value(ResultObject::without_turn(None, &failure)).unwrap();
    assert_eq!(refusal["error"], json!({"kind": "invalid", "message": "the prompt is empty", "retryable": false}));
    assert_eq!(refusal["finish_reason"], "error");
    assert_eq!(keys(turn), keys(refusal));
}

#[test]
fn a_signal_before_the_turn_is_a_cancellation_without_an_error() {
    let failure = Failure::signalled(crate::exit::Exit::Interrupted);
    let object = serde_json::to_value(ResultObject::without_turn(Some("s"), &failure)).unwrap();
    assert_eq!((&object["finish_reason"], &object["error"]), (&json!("cancelled"), &Value::Null));
}

#[test]
fn the_last_event_has_all_keys_of_the_object() {
    let event = json!({"type": "turn.finished", "seq": 9, "error": {"detail": "raw"}});
    let Value::Object(event) = event else { panic!("an object") };
    let merged = ResultObject::of(&outcome(), PermissionMode::Ask, Vec::new()).as_event(event);
    assert_eq!(merged["seq"], 9);
    assert_eq!(merged["error"]["kind"], "llm");
    assert_eq!(merged["content"], "so far");
    assert_eq!(merged["schema"], 1);
}
