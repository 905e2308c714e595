//! The requests on the wire.

use crate::model_wire::client::{ALL, KEY, ask, hello, model, port, request, tools};
use crate::support::anthropic::SIGNATURE;
use crate::support::provider::{FakeProvider, Recorded};
use crate::support::reply::Reply;
use bob_actors::llm::providers::ProviderKind;
use bob_actors::llm::{GenaiLlm, LlmPort, Readiness};
use bob_messages::chat::{CallStatus, ContentPart, Message, ToolCall, ToolResult};
use bob_messages::ids::{CallId, ModelName, ToolName};
use bob_messages::llm::{LlmError, LlmErrorKind, LlmRequest, ToolMode};
use bob_messages::tools::ToolOutput;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

/// The request as recorded by the provider.
async fn sent(kind: ProviderKind, request: LlmRequest) -> Recorded {
    let provider = FakeProvider::start([Reply::text("fine")]);
    ask(&port(&provider, kind, 10_000), request).await.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
    provider.requests().remove(0)
}

fn call(id: &str, name: &str, signatures: Vec<String>) -> Arc<ToolCall> {
    let (id, name) = (CallId::new(id), ToolName::new(name));
    Arc::new(ToolCall { id, name, arguments: json!({"path": "a"}).into(), argument_bytes: 12, signatures })
}

fn result(call: &ToolCall, text: &str) -> Message {
    let (name, status) = (call.name.clone(), CallStatus::Ok);
    let output = ToolOutput::text(text);
    Message::Tool { result: Arc::new(ToolResult { call: call.id.clone(), name, status, output, duration_ms: 1 }) }
}

#[tokio::test]
async fn the_endpoint_the_key_and_the_trace_are_those_of_the_request() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (kind, path, header, key) in [
        (ProviderKind::OpenAi, "/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        (ProviderKind::Ollama, "/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        (ProviderKind::Anthropic, "/v1/messages", "x-api-key", KEY.to_owned()),
        (ProviderKind::Gemini, "/v1/models/m-1:streamGenerateContent?alt=sse", "x-goog-api-key", KEY.to_owned()),
    ] {
        let seen = sent(
            kind,
            LlmRequest {
                traceparent: trace.into(),
                tracestate: Some("vendor=1".into()),
                system: "Be brief.".into(),
                ..hello()
            },
        )
        .await;
        assert_eq!((seen.path.as_str(), seen.header(header)), (path, Some(key.as_str())));
        assert_eq!((seen.header("traceparent"), seen.header("tracestate")), (Some(trace), Some("vendor=1")));
        // Gemini names the model and the wish for a stream in the path.
        if kind != ProviderKind::Gemini {
            assert_eq!((&seen.body["model"], &seen.body["stream"]), (&json!("m-1"), &json!(true)));
        }
        let system = match kind {
            ProviderKind::Anthropic => &seen.body["system"],
            ProviderKind::Gemini => &seen.body["systemInstruction"],
            _speaks_openai => &seen.body["messages"][0]["content"],
        };
        assert!(system.to_string().contains("Be brief."), "{}", seen.body);
    }
}

#[tokio::test]
async fn tools_go_under_their_native_names_and_only_in_native_mode() {
    for kind in ALL {
        let seen = sent(kind, LlmRequest { tools: tools(), ..hello() }).await;
        let offered = seen.body["tools"].to_string();
        assert!(offered.contains("local__read") && offered.contains("mcp__files__list"), "{offered}");
        assert_eq!(offered.matches("ask_user").count(), 1, "the question to the user is a function, too: {offered}");
        assert!(offered.contains("does local/read") && offered.contains("\"path\""), "{offered}");
        let seen = sent(kind, LlmRequest { tools: tools(), mode: ToolMode::Json, ..hello() }).await;
        assert_eq!(seen.body["tools"], Value::Null);
    }
}

#[tokio::test]
async fn the_envelopes_schema_goes_to_those_who_take_one() {
    let schema = json!({"type": "object", "properties": {"type": {"const": "final"}, "content": {"type": "string"}}});
    let rows = [
        (ProviderKind::OpenAi, "json_schema"),
        (ProviderKind::Ollama, "json_schema"),
        (ProviderKind::Gemini, "responseJsonSchema"),
        (ProviderKind::Anthropic, ""),
    ];
    for (kind, word) in rows {
        let asked = LlmRequest { mode: ToolMode::Json, envelope: Some(Arc::new(schema.clone())), ..hello() };
        let body = sent(kind, asked).await.body.to_string();
        let takes = !word.is_empty();
        assert_eq!((body.contains(word), body.contains("\"final\"")), (true, takes), "{kind:?}: {body}");
    }
}

#[tokio::test]
async fn calls_and_results_go_back_paired_and_signed() {
    for kind in ALL {
        let signed = vec![format!("{SIGNATURE}\nlet me see")];
        let (first, second) = (call("c1", "local/read", signed), call("c2", "mcp/files/list", Vec::new()));
        let messages = vec![
            Message::user("look"),
            Message::Assistant { text: String::new(), calls: vec![Arc::clone(&first), Arc::clone(&second)] },
            result(&first, "one"),
            result(&second, "two"),
            Message::assistant(""),
            Message::user("and?"),
        ];
        // The fake refuses a history whose calls and results are not paired as providers want them.
        let seen = sent(kind, LlmRequest { tools: tools(), ..request(messages) }).await;
        let body = seen.body.get("messages").unwrap_or(&seen.body["contents"]).to_string();
        for word in ["local__read", "mcp__files__list", "\"one\"", "\"two\"", "and?"] {
            assert!(body.contains(word), "{kind:?} lacks {word}: {body}");
        }
        let thoughts = seen.body.pointer("/messages/1/content/0").filter(|block| block["type"] == "thinking");
        let expected = json!({"type": "thinking", "thinking": "let me see", "signature": SIGNATURE});
        assert_eq!(thoughts, (kind == ProviderKind::Anthropic).then_some(&expected), "{body}");
        assert!(kind == ProviderKind::Anthropic || !body.contains("let me see"), "a foreign signature: {body}");
    }
}

#[tokio::test]
async fn pictures_go_as_pictures() {
    for kind in ALL {
        let parts = vec![
            ContentPart::text("what is this?"),
            ContentPart::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() },
        ];
        let body = sent(kind, request(vec![Message::User { parts }])).await.body.to_string();
        assert!(body.contains("iVBORw0KGgo=") && body.contains("image/png"), "{body}");
    }
}

/// A picture in a result is shown behind the results of its step, and only to a model that takes pictures.
#[tokio::test]
async fn pictures_of_results_go_as_pictures_or_as_a_note() {
    for kind in ALL {
        for mode in [ToolMode::Native, ToolMode::Json] {
            let asked = call("c1", "local/read", Vec::new());
            let picture = ContentPart::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
            let output =
                ToolOutput { parts: vec![ContentPart::text("here"), picture.clone()], ..ToolOutput::default() };
            let (name, status) = (asked.name.clone(), CallStatus::Ok);
            let result = Arc::new(ToolResult { call: asked.id.clone(), name, status, output, duration_ms: 1 });
            // In JSON mode calls and results are text already.
            let messages = match mode {
                ToolMode::Native => vec![
                    Message::user("look"),
                    Message::Assistant { text: String::new(), calls: vec![asked] },
                    Message::Tool { result },
                ],
                ToolMode::Json => vec![Message::User { parts: vec![ContentPart::text("Result:"), picture] }],
            };
            let body = sent(kind, LlmRequest { tools: tools(), mode, ..request(messages) }).await.body.to_string();
            assert!(body.contains("iVBORw0KGgo=") && body.contains("image/png"), "{kind:?} {mode:?}: {body}");
            assert_eq!(body.matches("iVBORw0KGgo=").count(), 1, "{body}");
        }
    }
}

/// Refuses every request.
struct Never;

impl Readiness for Never {
    fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
        let error = LlmError::new(LlmErrorKind::Unavailable, format!("{provider} does not start"));
        Box::pin(std::future::ready(Err(error)))
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_provider_is_ready_known_and_has_its_key() {
    let provider = FakeProvider::start([]);
    let port = port(&provider, ProviderKind::OpenAi, 10_000).with_readiness(Arc::new(Never));
    assert_eq!(ask(&port, hello()).await.unwrap_err().message, "fake does not start");

    let keyless = GenaiLlm::new(&[], &|_| None).unwrap();
    for (name, kind, word) in [
        ("openai:gpt-4o-mini", LlmErrorKind::MissingKey, "OPENAI_API_KEY"),
        ("anthropic:claude", LlmErrorKind::MissingKey, "ANTHROPIC_API_KEY"),
        ("nobody:m", LlmErrorKind::UnknownProvider, "openai"),
    ] {
        let named = ModelName::parse(name).unwrap();
        let error = keyless.capabilities(&named).unwrap_err();
        assert!(error.kind == kind && error.is_usage() && error.message.contains(word), "{error}");
        assert_eq!(keyless.complete(Arc::new(hello()), &named).await.unwrap_err(), error);
    }
    assert!(port.capabilities(&model()).is_ok());
    assert!(provider.requests().is_empty());
}
