//! Streams as the four wire formats have them, and a provider that plays pieces of them on request.

use crate::model_faults::client::{model, port, request};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use bob_actors::llm::providers::ProviderKind;
use bob_actors::llm::{GenaiLlm, LlmPort};
use bob_messages::chat::Message;
use bob_messages::llm::{LlmAnswer, LlmError};
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;

/// One recorded stream.
#[derive(Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    pub(crate) kind: ProviderKind,
    pub(crate) bytes: &'static [u8],
}

const fn of(name: &'static str, kind: ProviderKind, bytes: &'static [u8]) -> Recording {
    Recording { name, kind, bytes }
}

/// Text and calls in every format.
pub(crate) const RECORDINGS: [Recording; 8] = [
    of("openai words", ProviderKind::OpenAi, include_bytes!("recorded/openai_text.sse")),
    of("openai call", ProviderKind::OpenAi, include_bytes!("recorded/openai_call.sse")),
    of("anthropic words", ProviderKind::Anthropic, include_bytes!("recorded/anthropic_text.sse")),
    of("anthropic call", ProviderKind::Anthropic, include_bytes!("recorded/anthropic_call.sse")),
    of("gemini words", ProviderKind::Gemini, include_bytes!("recorded/gemini_text.sse")),
    of("gemini calls", ProviderKind::Gemini, include_bytes!("recorded/gemini_call.sse")),
    of("ollama words", ProviderKind::Ollama, include_bytes!("recorded/ollama_text.sse")),
    of("ollama call", ProviderKind::Ollama, include_bytes!("recorded/ollama_call.sse")),
];

/// How many attempts are under way at once.
const AT_ONCE: usize = 16;

/// A provider whose reply is chosen by the number its request asks for.
pub(crate) struct Player {
    port: GenaiLlm,
    _provider: FakeProvider,
}

impl Player {
    pub(crate) fn new(kind: ProviderKind, reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        let provider = FakeProvider::answering(move |body| reply(number(body)));
        Self { port: port(&provider, kind, 10_000), _provider: provider }
    }

    /// One attempt at reply `number`.
    pub(crate) async fn play(&self, number: usize) -> Result<LlmAnswer, LlmError> {
        let request = request(vec![Message::user(format!("number {number}."))]);
        self.port.complete(Arc::new(request), &model()).await
    }

    /// An attempt at each, in any order.
    pub(crate) async fn play_all(
        &self,
        numbers: impl Iterator<Item = usize>,
        mut each: impl FnMut(usize, Result<LlmAnswer, LlmError>),
    ) {
        let attempts = numbers.map(|number| async move { (number, self.play(number).await) });
        let mut attempts = futures_util::stream::iter(attempts).buffer_unordered(AT_ONCE);
        while let Some((number, end)) = attempts.next().await {
            each(number, end);
        }
    }
}

fn number(body: &Value) -> usize {
    let text = body.to_string();
    let said = text.split_once("number ").and_then(|(_, rest)| rest.split_once('.'));
    said.and_then(|(number, _)| number.parse().ok()).expect("a number in every request")
}

/// The answer of a whole recording.
pub(crate) async fn whole(recording: Recording) -> LlmAnswer {
    let player = Player::new(recording.kind, move |_| Reply::Pieces(vec![recording.bytes.to_vec()]));
    let answer = player.play(0).await.unwrap_or_else(|error| panic!("{}: {error}", recording.name));
    assert!(!answer.text.is_empty() || !answer.calls.is_empty(), "{}: {answer:?}", recording.name);
    answer
}
