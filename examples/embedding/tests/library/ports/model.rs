//! The ports of the model side.

use bob::model::{
    Capabilities, CondenseRequest, ContextCompactorPort, DeltaSink, LlmAnswer, LlmError, LlmErrorKind, LlmPort,
    LlmRequest, Message, ProviderLimits, RawCall, Readiness, Summary,
};
use bob::{AgentError, BoxFuture, ModelName};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Asks for one sum, and then tells it.
#[derive(Default)]
pub struct Scribe(Mutex<Vec<Arc<LlmRequest>>>);

impl Scribe {
    pub fn requests(&self) -> Vec<Arc<LlmRequest>> {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl LlmPort for Scribe {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        match model.model() {
            "scribe" => Ok(Capabilities { native_tools: true, context_tokens: 3_000, ..Capabilities::default() }),
            other => Err(LlmError::new(LlmErrorKind::UnknownModel, format!("no model {other}"))),
        }
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.0.lock().expect("not poisoned").push(request.clone());
        let answer = match request.messages.last().map(AsRef::as_ref) {
            Some(Message::Tool { result }) => {
                let text = format!("It is {}.", result.output.plain());
                deltas.text(&text);
                LlmAnswer::text(model.clone(), text)
            }
            Some(Message::User { parts }) => {
                let number = parts.first().and_then(|part| part.as_text().split(' ').nth(1).map(str::to_owned));
                let number = number.as_deref().unwrap_or("0");
                let name = request.tools.with_native_names().next().map_or("", |(_, name)| name).to_owned();
                let arguments = format!(r#"{{"a": {number}, "b": 1}}"#);
                let call = RawCall::new(name, arguments);
                LlmAnswer::text(model.clone(), "").with_calls(vec![call])
            }
            other => LlmAnswer::text(model.clone(), format!("What is {other:?}?")),
        };
        Box::pin(async { Ok(answer) })
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        request.bytes() as u64
    }

    fn limits(&self, _provider: &str) -> ProviderLimits {
        ProviderLimits { max_concurrent: 2, ..ProviderLimits::default() }
    }
}

/// Summarises by counting.
#[derive(Default)]
pub struct Digest(AtomicUsize);

impl Digest {
    pub fn condensed(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl ContextCompactorPort for Digest {
    fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let text = format!("{} messages came before.", request.messages.len());
        Box::pin(async { Ok(Summary { text, usage: None }) })
    }
}

/// A provider that sleeps.
#[derive(Default)]
pub struct Awake(AtomicUsize);

impl Awake {
    pub fn never() -> Self {
        Self::default()
    }

    pub fn asked(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Readiness for Awake {
    fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let error = LlmError::new(LlmErrorKind::NotStarted, format!("{provider}: it will not wake up"));
        Box::pin(async { Err(error) })
    }
}
