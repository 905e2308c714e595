//! Texts of model calls: what each had and gave, only where the settings say so, and bounded.

use super::*;
use serde_json::{Value as Json, json};

fn said(text: &str) -> StepEvent {
    let parts = vec![ContentPart::text(text)];
    AgentEvent::MessageUser { message_id: "m".into(), parts, steered: false }.into()
}

fn replied(text: &str) -> StepEvent {
    AgentEvent::MessageAssistant { message_id: "m".into(), text: text.into(), reasoning: None }.in_step(1)
}

fn proposed() -> StepEvent {
    let (call, title, kind, state) = (call(), String::new(), ToolKind::Read, CallState::Proposed);
    AgentEvent::ToolCalled { call, title, kind, state, progress: None }.in_step(1)
}

fn parsed() -> StepEvent {
    AgentEvent::ActionParsed { action: "tool_call".into(), tools: Vec::new() }.in_step(1)
}

/// A turn of two model calls with a tool call between them.
fn a_turn() -> Vec<StepEvent> {
    let ([asked, answered], [asked_again, answered_again]) = (model_call(1), model_call(2));
    let first = [started(TURN).into(), said("question-canary"), asked, answered, parsed(), replied("let me see")];
    let between = [proposed(), runs(), returned(CallStatus::Ok)];
    let second = [asked_again, answered_again, parsed(), replied("answer-canary"), finished(FinishReason::Final)];
    first.into_iter().chain(between).chain(second).collect()
}

fn messages(span: &Span, key: &str) -> Json {
    serde_json::from_str(text(span, key).unwrap_or_else(|| panic!("{key} of {}", span.name))).expect("JSON")
}

#[test]
fn a_model_call_has_the_messages_before_it_and_its_reply() {
    let all = told_by(Spans::new("agent".into(), true), 0, a_turn());
    let names: Vec<_> = all.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["chat m", "execute_tool local/shell", "chat m", "invoke_agent agent"]);
    let user = json!({"role": "user", "parts": [{"type": "text", "content": "question-canary"}]});
    assert_eq!(messages(&all[0], names::INPUT_MESSAGES), json!([user]));
    let arguments = json!({"command": "secret-canary"});
    let parts = json!([
        {"type": "text", "content": "let me see"},
        {"type": "tool_call", "id": "c1", "name": "local/shell", "arguments": arguments},
    ]);
    let reply = json!([{"role": "assistant", "parts": parts, "finish_reason": "stop"}]);
    assert_eq!(messages(&all[0], names::OUTPUT_MESSAGES), reply);
    let result = json!({"type": "tool_call_response", "id": "c1", "response": "secret-canary"});
    let before = json!([user, {"role": "assistant", "parts": parts}, {"role": "tool", "parts": [result]}]);
    assert_eq!(messages(&all[2], names::INPUT_MESSAGES), before);
    assert_eq!(messages(&all[2], names::OUTPUT_MESSAGES)[0]["parts"][0]["content"], "answer-canary");
    assert_eq!(messages(&all[3], names::OUTPUT_MESSAGES)[0]["finish_reason"], "stop");
    let ends: Vec<_> = told(0, a_turn()).iter().map(|span| (span.id, span.start, span.end)).collect();
    let with: Vec<_> = all.iter().map(|span| (span.id, span.start, span.end)).collect();
    assert_eq!(with, ends, "texts change neither the ids nor the times of a span");
}

#[test]
fn without_the_setting_no_text_is_sent() {
    let all = told(0, a_turn());
    assert_eq!(all.len(), 4);
    assert!(!format!("{all:?}").contains("canary"));
}

#[test]
fn the_beginning_of_a_reply_that_was_interrupted_belongs_to_its_call() {
    let [asked, _never_answered] = model_call(1);
    let events = vec![started(TURN).into(), asked, replied("the begin"), finished(FinishReason::Cancelled)];
    let all = told_by(Spans::new("agent".into(), true), 0, events);
    let reply = messages(&all[0], names::OUTPUT_MESSAGES);
    assert_eq!(
        (&reply[0]["parts"][0]["content"], &reply[0]["finish_reason"]),
        (&json!("the begin"), &json!("cancelled"))
    );
}

#[test]
fn of_a_long_turn_the_newest_messages_are_sent() {
    let [asked, answered] = model_call(1);
    let long = (0..10).map(|number| said(&format!("{number}{}", "ä".repeat(10_000))));
    let events = [started(TURN).into()].into_iter().chain(long).chain([asked, answered, finished(FinishReason::Final)]);
    let all = told_by(Spans::new("agent".into(), true), 0, events.collect());
    let before = text(&all[0], names::INPUT_MESSAGES).unwrap();
    assert!(before.len() <= 66 * 1024, "{} bytes", before.len());
    let before = messages(&all[0], names::INPUT_MESSAGES);
    let kept: Vec<_> =
        before.as_array().unwrap().iter().map(|one| &one["parts"][0]["content"].as_str().unwrap()[..1]).collect();
    assert_eq!(kept, ["7", "8", "9"], "of 16 KiB and a sign that there was more");
}

#[test]
fn many_messages_without_text_are_bounded_as_well() {
    let mut contents = super::super::contents::Contents::default();
    for _ in 0..10_000 {
        contents.said(&[]);
    }
    let written = contents.messages().expect("some").to_string();
    assert!(written.len() <= 80 * 1024, "{} bytes", written.len());
}
