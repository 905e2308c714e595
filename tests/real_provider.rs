//! One short request to a real provider, if the environment has its key; otherwise skipped with a message.
#![cfg(feature = "genai")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "this is a test, its helper included, and it says so when it was skipped"
)]

use bob_actors::llm::{GenaiLlm, LlmPort};
use bob_messages::chat::{Message, StopReason};
use bob_messages::ids::{ModelName, SessionId, TurnId};
use bob_messages::llm::{LlmRequest, ToolMode};
use std::sync::Arc;
use std::time::Duration;

async fn short_question(variable: &str, model: &str) {
    let environment = |name: &str| std::env::var(name).ok();
    if environment(variable).is_none_or(|key| key.trim().is_empty()) {
        println!("skipped: {variable} is not set, so {model} was not asked");
        return;
    }
    let port = GenaiLlm::new(&[], &environment).unwrap();
    let model = ModelName::parse(model).unwrap();
    let request = LlmRequest {
        session: SessionId::parse("real").unwrap(),
        turn: TurnId::new("t"),
        context: None,
        step: 1,
        model: model.clone(),
        fallback: Arc::default(),
        priced: false,
        mode: ToolMode::Native,
        system: "Answer with one word.".into(),
        messages: vec![Arc::new(Message::user("What is the capital of France?"))],
        tools: Arc::default(),
        envelope: None,
        traceparent: "".into(),
        tracestate: None,
        interactive: true,
        aside: false,
    };
    let asked = port.complete(Arc::new(request), &model);
    let answer = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("an answer in time").unwrap();
    assert!(answer.text.contains("Paris"), "{answer:?}");
    assert_eq!(answer.stop_reason, StopReason::Stop);
    assert!(answer.usage.is_some_and(|usage| usage.output_tokens > 0) && answer.response_id.is_some(), "{answer:?}");
}

#[tokio::test]
async fn openai_answers() {
    short_question("OPENAI_API_KEY", "openai:gpt-4o-mini").await;
}

#[tokio::test]
async fn anthropic_answers() {
    short_question("ANTHROPIC_API_KEY", "anthropic:claude-haiku-4-5").await;
}
