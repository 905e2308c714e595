//! What the tests of this room share.

use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, SessionId, TurnId};
use bob_messages::llm::{LlmRequest, ToolMode};
use std::sync::Arc;

pub(super) fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

/// A first step of one user message in native mode.
pub(crate) fn request(text: &str) -> Arc<LlmRequest> {
    Arc::new(plain_request(vec![Message::user(text)]))
}

pub(super) fn plain_request(messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        context: None,
        step: 1,
        model: model("scripted:m"),
        fallback: Arc::default(),
        priced: false,
        mode: ToolMode::Native,
        system: "".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::default(),
        envelope: None,
        traceparent: "".into(),
        tracestate: None,
        interactive: true,
        aside: false,
    }
}
