//! A script answers by the turn's message and the step, and by nothing it remembers.

use super::*;
use crate::llm::testing::{model as named, plain_request};
use bob_messages::chat::Message;
use serde_json::json;

fn request(mode: ToolMode, step: u32, messages: Vec<Message>) -> Arc<LlmRequest> {
    Arc::new(LlmRequest { mode, step, ..plain_request(messages) })
}

async fn ask(model: &ScriptedLlm, mode: ToolMode, step: u32, messages: Vec<Message>) -> Result<LlmAnswer, LlmError> {
    model.complete(request(mode, step, messages), &named("scripted:m")).await
}

const SCRIPT: &str = r#"[
    {"when": "weather", "replies": [
        {"calls": [{"name": "local/weather", "arguments": {"city": "Rome"}}, {"name": "local/time"}]},
        {"text": "sunny"}
    ]},
    {"when": "break", "replies": [{"malformed": "{\"type\":"}, {"error": "rate_limited"}]},
    {"replies": [{"text": "hello"}]}
]"#;

#[tokio::test]
async fn the_first_rule_that_fits_answers_step_by_step_and_repeats_its_last_reply() {
    let model = ScriptedLlm::from_json(SCRIPT).unwrap();
    let asked = || Message::user("how is the weather?");
    let first = ask(&model, ToolMode::Native, 1, vec![asked()]).await.unwrap();
    let names: Vec<_> = first.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(names, [("local/weather", r#"{"city":"Rome"}"#), ("local/time", "{}")]);
    assert_eq!(first.stop_reason, StopReason::ToolCalls);
    for step in [2, 3] {
        let history = (1..step).flat_map(|_| [Message::assistant("")]);
        let answer = ask(&model, ToolMode::Native, step, std::iter::once(asked()).chain(history).collect()).await;
        assert_eq!(answer.unwrap().text, "sunny");
    }
    assert_eq!(ask(&model, ToolMode::Native, 1, vec![Message::user("hi")]).await.unwrap().text, "hello");
}

#[tokio::test]
async fn earlier_turns_and_told_results_do_not_choose_the_rule() {
    let model = ScriptedLlm::from_json(SCRIPT).unwrap();
    let before = [Message::user("weather"), Message::assistant("sunny")];
    let now = [Message::user("hi"), Message::assistant("{}"), Message::user("result: weather")];
    let answer = ask(&model, ToolMode::Json, 2, before.into_iter().chain(now).collect()).await.unwrap();
    assert_eq!(answer.text, r#"{"type":"final","content":"hello"}"#);
}

#[tokio::test]
async fn a_long_turn_whose_middle_no_longer_fits_keeps_its_rule() {
    let model = ScriptedLlm::from_json(SCRIPT).unwrap();
    let kept = vec![Message::user("weather"), Message::assistant("{}"), Message::user("Result of local/time:\nhi")];
    let answer = ask(&model, ToolMode::Json, 9, kept).await.unwrap();
    assert_eq!(answer.text, r#"{"type":"final","content":"sunny"}"#);
}

#[tokio::test]
async fn in_json_mode_calls_come_in_an_envelope() {
    let model = ScriptedLlm::replies(vec![ScriptedReply::call("local/read", json!({"path": "a"}))]);
    let answer = ask(&model, ToolMode::Json, 1, vec![Message::user("x")]).await.unwrap();
    let envelope: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(envelope, json!({"type": "tool_call", "name": "local/read", "arguments": {"path": "a"}}));
    assert!(answer.calls.is_empty());
}

#[tokio::test]
async fn malformed_text_and_failures_come_as_written() {
    let model = ScriptedLlm::from_json(SCRIPT).unwrap();
    let asked = || vec![Message::user("break it")];
    assert_eq!(ask(&model, ToolMode::Json, 1, asked()).await.unwrap().text, r#"{"type":"#);
    let later = vec![Message::user("break it"), Message::assistant("{\"type\":"), Message::user("not JSON")];
    assert_eq!(ask(&model, ToolMode::Json, 2, later).await.unwrap_err().kind, LlmErrorKind::RateLimited);
}

#[tokio::test]
async fn a_message_without_a_rule_is_a_clear_failure() {
    let model = ScriptedLlm::from_json(r#"[{"when": "a", "replies": [{"text": "b"}]}]"#).unwrap();
    let error = ask(&model, ToolMode::Native, 1, vec![Message::user("x")]).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::NotScripted);
    assert_eq!(error.message, r#"the script has no answer for step 1 of session s: add a rule whose "when" fits"#);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_and_a_stall_never_ends() {
    let slow = ScriptedLlm::from_json(r#"[{"replies": [{"text": "b"}], "delay_ms": 700}]"#).unwrap();
    let started = tokio::time::Instant::now();
    ask(&slow, ToolMode::Native, 1, vec![Message::user("x")]).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(700));
    for script in [r#"[{"replies": [{"text": "b"}], "stall": true}]"#, r#"[{"replies": ["stall"]}]"#] {
        let stalled = ScriptedLlm::from_json(script).unwrap();
        let waited = ask(&stalled, ToolMode::Native, 1, vec![Message::user("x")]);
        assert!(tokio::time::timeout(Duration::from_secs(3_600), waited).await.is_err());
    }
}

#[test]
fn a_script_that_is_none_says_where() {
    let error = ScriptedLlm::from_json("[\n{\"replys\": []}]").unwrap_err().to_string();
    assert!(error.contains("unknown field `replys`") && error.contains("line 2"), "{error}");
}

#[tokio::test]
async fn the_script_of_the_documentation_does_what_the_page_says() {
    let page = include_str!("../../../docs/scripted-model.md");
    let (_, script) = page.split_once("```json\n").expect("a script");
    let model = ScriptedLlm::from_json(script.split("```").next().unwrap()).unwrap();
    let first = |text: &str| ask(&model, ToolMode::Native, 1, vec![Message::user(text)]);
    assert_eq!(first("good day").await.unwrap().text, "Hello.");
    assert_eq!(first("fail").await.unwrap_err().kind, LlmErrorKind::RateLimited);
    assert_eq!(first("the weather").await.unwrap().calls[0].name, "local/list_dir");
    let (_, kinds) = page.split_once("(`llm.retry_max`): ").expect("the kinds of errors");
    for kind in kinds.split(", …").next().unwrap().split(", ") {
        let script = format!(r#"[{{"replies": [{{"error": "{}"}}]}}]"#, kind.trim_matches('`'));
        assert!(ScriptedLlm::from_json(&script).is_ok(), "{kind}");
    }
}

#[test]
fn a_reply_that_is_none_is_named_with_what_it_can_be() {
    for (reply, said) in [
        (r#"{"calls": [], "text": "hi"}"#, "one of them: this one has \"calls\" and \"text\""),
        ("{}", "this one has nothing"),
        (r#"{"says": "hi"}"#, "not {\"says\"}"),
        (r#""stop""#, "\"stall\", not \"stop\""),
        ("7", "a reply is \"stall\" or an object"),
        (r#"{"error": "tired"}"#, "\"error\" of a reply: unknown variant `tired`"),
        (r#"{"calls": [{"tool": "x"}]}"#, "\"calls\" of a reply: unknown field `tool`"),
    ] {
        let error = ScriptedLlm::from_json(&format!(r#"[{{"replies": [{reply}]}}]"#)).unwrap_err().to_string();
        assert!(error.contains(said), "{reply}: {error}");
    }
}
