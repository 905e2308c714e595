//! How a model answers, in native and in JSON mode.

use bob::AgentError;
use bob::model::{LlmErrorKind, StopReason};
use bob::sessions::FinishReason;
use serde_json::{Value, json};

use crate::support::provider::FakeProvider;
use crate::support::reply::{INPUT_TOKENS, OUTPUT_TOKENS, Reply};
use crate::support::runtime::{KINDS, at, build, provided, provided_in_json, say, turn};
use crate::support::scratch::Scratch;

fn last_message(body: &Value) -> &Value {
    body["messages"].as_array().and_then(|messages| messages.last()).expect("a message")
}

#[tokio::test]
async fn plain_text_in_native_mode_is_a_final_answer() {
    for kind in KINDS {
        let provider = FakeProvider::start([Reply::text("Hello.")]);
        let runtime = build(provided(&provider, kind)).await;
        let answer = turn(&runtime, say("hello?")).await;
        assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "Hello."), "{kind:?}");
        assert_eq!((answer.steps, answer.stop_reason, answer.saved), (1, Some(StopReason::Stop), true));
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (INPUT_TOKENS, OUTPUT_TOKENS));
        assert_eq!(answer.error, None);
        let asked = &provider.requests()[0].body;
        assert!(asked["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "tools are offered: {asked}");
    }
}

#[tokio::test]
async fn final_without_tools() {
    for kind in KINDS {
        let provider = FakeProvider::start([Reply::text(r#"{"type":"final","content":"Hello."}"#)]);
        let runtime = build(provided_in_json(&provider, kind)).await;
        let answer = turn(&runtime, say("hello?")).await;
        assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "Hello."), "{kind:?}");
        assert_eq!((answer.steps, answer.tool_transcript.len()), (1, 0));
        assert_eq!(
            provider.requests()[0].body["tools"],
            Value::Null,
            "the envelope is described, not the wire's tools"
        );
    }
}

#[tokio::test]
async fn tool_then_final() {
    for kind in KINDS {
        let folder = Scratch::new();
        folder.write("note.txt", "the word is heron");
        let call = json!({"type": "tool_call", "name": "local/read_file", "arguments": {"path": "note.txt"}});
        let provider = FakeProvider::start([
            Reply::text(&call.to_string()),
            Reply::text(r#"{"type":"final","content":"It is heron."}"#),
        ]);
        let runtime = build(provided_in_json(&provider, kind).turn_config(at(folder.path()))).await;
        let answer = turn(&runtime, say("which word?")).await;
        assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "It is heron."), "{kind:?}");
        assert_eq!(answer.steps, 2);
        assert_eq!(answer.tool_transcript[0].result, "1\tthe word is heron");
        let told = last_message(&provider.requests()[1].body).clone();
        assert_eq!(told["role"], "user", "{kind:?}");
        assert!(told["content"].to_string().contains("the word is heron"), "{told}");
        assert_eq!(answer.usage.total_tokens, 2 * (INPUT_TOKENS + OUTPUT_TOKENS), "summed over the steps");
    }
}

#[tokio::test]
async fn malformed_once_is_asked_again() {
    for kind in KINDS {
        let provider =
            FakeProvider::start([Reply::text("{\"type\":"), Reply::text(r#"{"type":"final","content":"Now."}"#)]);
        let runtime = build(provided_in_json(&provider, kind)).await;
        let answer = turn(&runtime, say("well?")).await;
        assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "Now."), "{kind:?}");
        assert_eq!((answer.steps, provider.requests().len()), (2, 2));
        let complaint = last_message(&provider.requests()[1].body)["content"].to_string();
        assert!(complaint.contains("Answer again"), "the model is told what was wrong: {complaint}");
    }
}

#[tokio::test]
async fn malformed_twice_is_a_model_failure() {
    for kind in KINDS {
        let provider = FakeProvider::repeating([Reply::text("{\"type\":")]);
        let runtime = build(provided_in_json(&provider, kind)).await;
        let answer = turn(&runtime, say("well?")).await;
        assert_eq!((answer.finish_reason, answer.saved), (FinishReason::Error, true), "{kind:?}");
        let Some(AgentError::Llm(error)) = &answer.error else { panic!("a model failure: {answer:?}") };
        assert_eq!(error.kind, LlmErrorKind::Malformed);
        assert_eq!(provider.requests().len(), 2, "asked again once");
    }
}

#[tokio::test]
async fn an_answer_cut_by_the_token_limit_is_final_and_says_so() {
    for kind in KINDS {
        let provider = FakeProvider::start([Reply::MaxTokens("Once upon".into())]);
        let runtime = build(provided(&provider, kind)).await;
        let answer = turn(&runtime, say("a story")).await;
        assert_eq!((answer.finish_reason, answer.stop_reason), (FinishReason::Final, Some(StopReason::MaxTokens)));
        assert_eq!(answer.content, "Once upon");
    }
}
