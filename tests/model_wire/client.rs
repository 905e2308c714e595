//! A `GenaiLlm` pointed at a fake provider, and requests for it.

use crate::support::provider::FakeProvider;
use bob_actors::llm::providers::{CapabilityOverrides, KeySource, ProviderConfig, ProviderKind};
use bob_actors::llm::{GenaiLlm, LlmPort};
use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, SessionId, ToolName, TurnId};
use bob_messages::llm::{LlmAnswer, LlmError, LlmRequest, ToolMode};
use bob_messages::tools::{Risk, ToolDescriptor, ToolKind, ToolSet, ToolSource};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any operation here, so that a hanging test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The key that must never come back in a message.
pub(crate) const KEY: &str = "sk-very-secret";

/// The wire formats; Ollama's is OpenAI's under another name.
pub(crate) const ALL: [ProviderKind; 4] =
    [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini, ProviderKind::Ollama];

/// The model side with one provider called `fake`.
pub(crate) fn port(provider: &FakeProvider, kind: ProviderKind, timeout_ms: u64) -> GenaiLlm {
    let config = ProviderConfig {
        name: "fake".into(),
        kind: Some(kind),
        base_url: Some(provider.base_url()),
        key: Some(KeySource::Env("FAKE_KEY".into())),
        timeout_ms: Some(timeout_ms),
        capabilities: CapabilityOverrides {
            native_tools: Some(true),
            json_schema: Some(kind != ProviderKind::Anthropic),
            images: Some(true),
            ..CapabilityOverrides::default()
        },
        ..ProviderConfig::default()
    };
    GenaiLlm::new(&[config], &|name| (name == "FAKE_KEY").then(|| KEY.to_owned())).unwrap()
}

pub(crate) fn model() -> ModelName {
    ModelName::parse("fake:m-1").unwrap()
}

pub(crate) fn request(messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        context: None,
        step: 1,
        model: model(),
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

pub(crate) fn hello() -> LlmRequest {
    request(vec![Message::user("hello?")])
}

/// Two tools, one of a server.
pub(crate) fn tools() -> Arc<ToolSet> {
    let tool = |name: &str| {
        Arc::new(
            ToolDescriptor::new(
                ToolName::new(name),
                format!("does {name}"),
                json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            )
            .with_title(name.to_owned())
            .with_kind(ToolKind::Read)
            .with_source(ToolSource::Local)
            .with_risk(Risk::Low)
            .with_idempotent(true)
            .with_read_only(true),
        )
    };
    Arc::new(ToolSet::from(vec![tool("local/read"), tool("mcp/files/list")]))
}

/// One attempt, within the deadline.
pub(crate) async fn ask(port: &GenaiLlm, request: LlmRequest) -> Result<LlmAnswer, LlmError> {
    let asked = port.complete(Arc::new(request), &model());
    tokio::time::timeout(DEADLINE, asked).await.expect("an end within the deadline")
}
