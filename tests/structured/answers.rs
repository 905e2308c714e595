//! Answers that must fit a schema, through the library.

use std::sync::{Arc, Mutex};

use bob::events::AgentEvent;
use bob::model::{Capabilities, LlmErrorKind, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, ResumeReply};
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, RuntimeBuilder};
use serde_json::{Value, json};

use crate::support::runtime::{Recorder, build, over, say, session, turn, within};

type Asked = Arc<Mutex<Vec<LlmRequest>>>;

fn schema() -> Arc<Value> {
    Arc::new(json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/count"}}},
        "$defs": {"count": {"type": "integer", "minimum": 0}},
    }))
}

fn wanted(text: &str) -> AgentRequest {
    AgentRequest { output_schema: Some(schema()), ..say(text) }
}

/// A model that gives these replies step by step, in native mode or with an envelope.
fn model(native: bool, replies: &[&str]) -> (RuntimeBuilder, Asked) {
    let heard: Asked = Arc::default();
    let (kept, replies) = (Arc::clone(&heard), replies.iter().map(|reply| (*reply).to_owned()).collect::<Vec<_>>());
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        let at = usize::try_from(request.step).unwrap() - 1;
        ScriptedReply::Malformed(replies[at.min(replies.len() - 1)].clone())
    });
    let can =
        Capabilities { native_tools: native, json_schema: true, context_tokens: 32_000, ..Capabilities::default() };
    (over(model.with_capabilities(can)), heard)
}

#[tokio::test]
async fn an_answer_that_fits_is_told_as_json() {
    for (native, reply) in [
        (true, "{\"items\": [1, 2]}"),
        (true, "```json\n{\"items\":\n[1,2]}\n```"),
        (false, r#"{"type":"final","content":{"items":[1,2]}}"#),
        (false, r#"{"type":"final","content":"{\"items\": [1, 2]}"}"#),
    ] {
        let (builder, heard) = model(native, &[reply]);
        let runtime = build(builder).await;
        let outcome = turn(&runtime, wanted("count")).await;
        assert_eq!((outcome.finish_reason, outcome.steps), (FinishReason::Final, 1), "{reply}: {outcome:?}");
        assert_eq!(serde_json::from_str::<Value>(&outcome.content).unwrap(), json!({"items": [1, 2]}));
        let request = heard.lock().unwrap()[0].clone();
        assert!(request.system.contains("JSON schema") && request.system.contains("\"minimum\":0"));
        let envelope = request.envelope.map(|envelope| (*envelope).clone());
        if native {
            assert_eq!(envelope, None, "tools are on offer");
        } else {
            let envelope = envelope.expect("an envelope");
            let content = &envelope["anyOf"][0]["properties"]["content"];
            assert_eq!(content["properties"]["items"]["items"], json!({"$ref": "#/$defs/count"}));
            assert_eq!(envelope["$defs"]["count"]["type"], "integer", "definitions are at the top");
        }
        if native {
            let (next, asked) = (turn(&runtime, say("thanks")).await, heard.lock().unwrap().clone());
            assert_eq!((next.content.as_str(), next.steps), (reply, 1), "the next turn is free again");
            assert!(!asked.last().unwrap().system.contains("JSON schema"));
        }
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn without_tools_a_native_model_gets_the_schema_itself() {
    let (builder, heard) = model(true, &["{\"items\":[]}"]);
    let runtime = build(builder.local_tools(false)).await;
    turn(&runtime, wanted("count")).await;
    assert_eq!(heard.lock().unwrap()[0].envelope, Some(schema()));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_with_its_place() {
    let (builder, heard) = model(true, &["{\"items\": [1, -2]}", "{\"items\": [1, 2]}"]);
    let recorder = Recorder::new();
    let sink: Arc<dyn bob::events::EventSink> = recorder.clone();
    let runtime = build(builder.sink(sink)).await;
    let outcome = turn(&runtime, wanted("count")).await;
    assert_eq!((outcome.content.as_str(), outcome.steps), ("{\"items\":[1,2]}", 2));
    let complaint = heard.lock().unwrap()[1].messages.last().unwrap().clone();
    let complaint = format!("{complaint:?}");
    assert!(complaint.contains("/items/1: ") && complaint.contains("minimum"), "{complaint}");
    assert_eq!(recorder.count(|event| matches!(event.event, AgentEvent::ActionMalformed { .. })), 1);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn two_misfits_in_a_row_are_a_failure_of_the_model() {
    for replies in [&["{}"][..], &["no JSON", "{\"items\":[1],\"items\":[2]}"], &["[1", "{\"items\":1}"]] {
        let (builder, _) = model(true, replies);
        let runtime = build(builder).await;
        let outcome = turn(&runtime, wanted("count")).await;
        assert_eq!((outcome.finish_reason, outcome.steps), (FinishReason::Error, 2), "{replies:?}");
        let Some(AgentError::Llm(error)) = &outcome.error else { panic!("{outcome:?}") };
        assert_eq!(error.kind, LlmErrorKind::Malformed);
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn what_is_no_schema_is_refused_before_anything_is_sent() {
    let (builder, heard) = model(true, &["{}"]);
    let runtime = build(builder).await;
    for wrong in [json!([]), json!({"type": "objekt"}), json!({"$ref": "https://example.org/schema"})] {
        let request = AgentRequest { output_schema: Some(Arc::new(wrong.clone())), ..say("count") };
        let refused = within(runtime.run(request)).await.unwrap_err();
        assert!(matches!(&refused, AgentError::Invalid(why) if why.contains("output schema")), "{wrong}: {refused:?}");
    }
    assert!(heard.lock().unwrap().is_empty());
    assert!(within(runtime.records(session("s"))).await.unwrap().is_empty());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_schema_holds_behind_a_question() {
    let ask = r#"{"type":"ask_user","question":"of what?"}"#;
    let (builder, _) =
        model(false, &[ask, r#"{"type":"final","content":"three"}"#, r#"{"type":"final","content":{"items":[3]}}"#]);
    let runtime = build(builder).await;
    let AgentRunResult::Suspended { token, .. } = within(runtime.run(wanted("count"))).await.unwrap() else {
        panic!("it asks")
    };
    let result = within(runtime.resume(token, ResumeReply::Answer("apples".into()))).await.unwrap();
    assert_eq!((result.response().content.as_str(), result.response().steps), ("{\"items\":[3]}", 3));
    within(runtime.shutdown()).await;
}
