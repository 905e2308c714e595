//! The port of real providers keeps the rules of the wire, in each format.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use bob::Providers;
use bob::model::LlmPort;
use bob::testing::{self, ModelWire};
use bob_actors::llm::providers::{KeySource, ProviderConfig, ProviderKind};

use super::client::{KEY, model};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const TEXT: &str = "Hello, wörld: 😀";

/// What the fake provider sends for this request, from the status line to the end.
fn response(path: &str, header: &str, body: &str) -> Vec<u8> {
    let provider = FakeProvider::start([Reply::text(TEXT)]);
    let mut connection = TcpStream::connect(provider.address()).unwrap();
    let length = body.len();
    write!(connection, "POST /v1/{path} HTTP/1.1\r\nhost: x\r\n{header}content-length: {length}\r\n\r\n{body}")
        .unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while !bytes.ends_with(b"0\r\n\r\n") {
        let read = connection.read(&mut piece).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..read]);
    }
    bytes
}

async fn keeps_the_rules(kind: ProviderKind, response: Vec<u8>) {
    let make = |address: SocketAddr| -> Arc<dyn LlmPort> {
        let config = ProviderConfig {
            name: "fake".into(),
            kind: Some(kind),
            base_url: Some(format!("http://{address}/v1/")),
            key: Some(KeySource::value(KEY)),
            ..ProviderConfig::default()
        };
        Arc::new(Providers::new().configured(config).build().unwrap())
    };
    testing::model_wire(&ModelWire { make, model: model(), response, text: TEXT.to_owned() }).await;
}

#[tokio::test]
async fn openai_keeps_the_rules_of_the_wire() {
    let body = r#"{"model":"m-1","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    keeps_the_rules(ProviderKind::OpenAi, response("chat/completions", "", body)).await;
}

#[tokio::test]
async fn anthropic_keeps_the_rules_of_the_wire() {
    let body = r#"{"model":"m-1","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let version = "anthropic-version: 2023-06-01\r\n";
    keeps_the_rules(ProviderKind::Anthropic, response("messages", version, body)).await;
}

#[tokio::test]
async fn gemini_keeps_the_rules_of_the_wire() {
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;
    let path = "models/m-1:streamGenerateContent?alt=sse";
    keeps_the_rules(ProviderKind::Gemini, response(path, "", body)).await;
}

/// The rules of every model, against a provider that answers whatever it is asked.
#[tokio::test]
async fn the_port_of_real_providers_keeps_the_rules_of_models() {
    let provider = FakeProvider::repeating([Reply::text(TEXT)]);
    let make = || -> Arc<dyn LlmPort> {
        let providers = Providers::new().endpoint("fake", provider.base_url(), Some(KEY.to_owned()));
        Arc::new(providers.build().unwrap())
    };
    testing::model(make, &model()).await;
}
