//! What is sent directly means what genai would send.

use super::super::clients::{Clients, Way};
use super::super::{render, stream, tap, target};
use super::*;
use crate::llm::deltas::DeltaSink;
use crate::llm::providers::{KeySource, Provider, ProviderConfig, ProviderKind};
use ::genai::resolver::Endpoint;
use axum::extract::State;
use bob_messages::chat::{CallStatus, ContentPart, Message, ToolCall, ToolOutput, ToolResult};
use bob_messages::ids::{CallId, ModelName, SessionId, ToolName, TurnId};
use bob_messages::llm::ToolMode;
use bob_messages::tools::{Risk, ToolDescriptor, ToolKind, ToolSet, ToolSource};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Seen = (HeaderMap, Value);

/// A server that hands on what it was sent, and refuses it.
async fn server() -> (String, tokio::sync::mpsc::UnboundedReceiver<Seen>) {
    async fn take(State(seen): State<UnboundedSender<Seen>>, headers: HeaderMap, body: String) -> &'static str {
        let _read_below = seen.send((headers, serde_json::from_str(&body).expect("a body of JSON")));
        ""
    }
    let (to, seen) = unbounded_channel();
    let app = axum::Router::new().route("/v1/chat/completions", axum::routing::post(take)).with_state(to);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, seen)
}

fn tool(name: &str) -> Arc<ToolDescriptor> {
    Arc::new(
        ToolDescriptor::new(
            ToolName::new(name),
            format!("does {name}"),
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        )
        .with_title(name)
        .with_kind(ToolKind::Read)
        .with_source(ToolSource::Local)
        .with_risk(Risk::Low)
        .with_idempotent(true)
        .with_read_only(true),
    )
}

fn call(id: &str, name: &str) -> Arc<ToolCall> {
    let arguments = json!({"path": "a \"b\"\n", "n": 1.5, "z": null, "a": [1, {"é": true}]});
    Arc::new(ToolCall {
        id: CallId::new(id),
        name: ToolName::new(name),
        argument_bytes: 40,
        arguments: arguments.into(),
        signatures: vec!["s\nthought".into(), "own".into()],
    })
}

fn result(call: &ToolCall, output: ToolOutput) -> Message {
    let (call, name) = (call.id.clone(), call.name.clone());
    Message::Tool { result: Arc::new(ToolResult { call, name, status: CallStatus::Ok, output, duration_ms: 1 }) }
}

fn text(text: &str) -> ContentPart {
    ContentPart::Text { text: text.into() }
}

fn image(mime_type: &str) -> ContentPart {
    ContentPart::Image { mime_type: mime_type.into(), data: "AAAA".into() }
}

fn request(messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        context: None,
        step: 1,
        model: ModelName::parse("fake:m").unwrap(),
        fallback: Arc::default(),
        priced: false,
        mode: ToolMode::Native,
        system: "Be brief.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new(ToolSet::from(vec![tool("local/read"), tool("mcp/files/list")])),
        envelope: None,
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        tracestate: None,
        interactive: true,
        aside: false,
    }
}

/// Conversations of every shape that is rendered.
fn corpus() -> Vec<LlmRequest> {
    let user = |parts: Vec<ContentPart>| Message::User { parts };
    let said = |text: &str, calls: Vec<Arc<ToolCall>>| Message::Assistant { text: text.into(), calls };
    let (one, two, odd) = (call("c1", "local/read"), call("c2", "mcp/files/list"), call("c3", "gone/away"));
    let audio = ContentPart::Audio { mime_type: "audio/mpeg".into(), data: "BBBB".into() };
    let link =
        ContentPart::Resource { uri: "file:///x".into(), mime_type: None, text: Some("inside".into()), blob: None };
    let shown = ToolOutput { parts: vec![text("seen"), image("image/png"), audio.clone()], ..ToolOutput::default() };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    let plain = || request(vec![user(vec![text("hi")])]);
    vec![
        plain(),
        LlmRequest { system: "".into(), traceparent: "".into(), tools: Arc::default(), ..plain() },
        request(vec![user(vec![text("a"), text("b\n"), text("c")]), said("yes", vec![]), user(vec![])]),
        request(vec![user(vec![text("look"), image("image/jpeg"), audio, link.clone()]), said("", vec![])]),
        request(vec![user(vec![image("application/pdf"), image("video/mp4")]), user(vec![link])]),
        request(vec![
            user(vec![text("go")]),
            said("I read.", vec![one.clone(), two.clone(), odd.clone()]),
            result(&one, shown),
            result(&two, ToolOutput::text("nothing")),
            result(&odd, ToolOutput::text("x".repeat(200_000))),
            said("", vec![one.clone()]),
            result(&one, ToolOutput::text("end")),
        ]),
        LlmRequest { mode: ToolMode::Json, envelope: Some(Arc::new(schema.clone())), ..plain() },
        LlmRequest { envelope: Some(Arc::new(schema)), ..plain() },
    ]
}

/// Every kind that is reached without genai.
const DIRECT: [ProviderKind; 10] = [
    ProviderKind::OpenAi,
    ProviderKind::Ollama,
    ProviderKind::DeepSeek,
    ProviderKind::Groq,
    ProviderKind::Xai,
    ProviderKind::Mistral,
    ProviderKind::OpenRouter,
    ProviderKind::Together,
    ProviderKind::Fireworks,
    ProviderKind::Moonshot,
];

#[tokio::test]
async fn a_body_means_what_genai_would_send() {
    let (address, mut seen) = server().await;
    let clients = Clients::default();
    let client = clients.by(Way::Plain).unwrap();
    let tools = Tools::default();
    let models = [
        "m",
        "gpt-4.1-high",
        "gpt-5-none",
        "gpt-5.6",
        "o3-mini",
        "openai::gpt-6-astra",
        "gpt-5.x",
        "gpt-",
        "a/b-none",
        "muse-glimmer-30b-low",
        "x::y/z",
    ];
    assert!(DIRECT.into_iter().all(ProviderKind::has_openais_format));
    for (at, request) in corpus().into_iter().enumerate() {
        for (number, (model, kind)) in models.into_iter().flat_map(|model| DIRECT.map(|kind| (model, kind))).enumerate()
        {
            let config = ProviderConfig {
                name: "fake".into(),
                kind: Some(kind),
                base_url: Some(address.clone()),
                key: Some(KeySource::Value("sk-test".to_owned().into())),
                temperature: (number % 3 == 0).then_some(0.25),
                max_tokens: (number + number / DIRECT.len()).is_multiple_of(2).then_some(77),
                ..ProviderConfig::default()
            };
            let provider = Provider::resolve(&config, &|_| None).unwrap();
            let model = ModelName::parse(&format!("fake:{model}")).unwrap();
            let can = Capabilities {
                native_tools: true,
                json_schema: true,
                images: number != 1,
                audio: true,
                ..Capabilities::default()
            };
            let attempt = Attempt { provider: &provider, model: &model, keys: &[] };
            let deltas = DeltaSink::unread();

            let to = super::address(&address).unwrap();
            ask(&client.http, &to, (&request, &can, &tools), &attempt, &deltas).await.unwrap_err();
            let (headers, ours) = seen.recv().await.unwrap();

            let read = Arc::new(tap::Tap::new(provider.kind));
            let options = render::options(&provider, &request, &can, Arc::clone(&read));
            let chat = render::chat(provider.kind, &request, &can);
            let endpoint = Endpoint::from_owned(provider.base_url.as_str());
            let opened = client.genai.exec_chat_stream(target(&endpoint, &attempt), chat, Some(&options)).await;
            stream::read(opened.unwrap().stream, &read, &attempt, &deltas).await.unwrap_err();
            let (theirs_headers, theirs) = seen.recv().await.unwrap();

            assert_eq!(ours, theirs, "request {at} to {model} of {kind:?}");
            for name in ["authorization", "content-type", "traceparent"] {
                assert_eq!(headers.get(name), theirs_headers.get(name), "{name} of request {at}");
            }
        }
    }
}

#[test]
fn the_tools_of_a_set_are_made_once() {
    let kept = Tools::default();
    let sets: Vec<Arc<ToolSet>> =
        (0..3).map(|at| Arc::new(ToolSet::from(vec![tool(&format!("local/t{at}"))]))).collect();
    let lists = || sets.iter().map(|set| kept.of(set).unwrap().get().as_ptr()).collect::<Vec<_>>();
    assert_eq!(lists(), lists());
    assert!(kept.of(&sets[2]).unwrap().get().contains("local__t2"));
}
