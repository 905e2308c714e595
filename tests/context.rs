//! Context of a conversation: prompt files, and a history that is too long.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "context/condensed.rs"]
mod condensed;
#[path = "context/files.rs"]
mod files;

use bob::ModelName;
use bob::model::{Capabilities, ContentPart, DeltaSink, LlmAnswer, LlmError, LlmPort, LlmRequest, Usage};
use bob_messages::chat::Message;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};

/// A model with a small context that records its requests.
#[derive(Clone)]
struct Small {
    context_tokens: u32,
    /// Its summaries.
    summary: &'static str,
    asked: Arc<Mutex<Vec<Arc<LlmRequest>>>>,
}

impl Small {
    fn of(context_tokens: u32, summary: &'static str) -> Self {
        Self { context_tokens, summary, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<Arc<LlmRequest>> {
        self.asked.lock().unwrap().clone()
    }

    /// The prompts of the conversation, or the questions beside it.
    fn requests(&self, aside: bool) -> Vec<Arc<LlmRequest>> {
        self.asked().into_iter().filter(|request| request.aside == aside).collect()
    }
}

impl LlmPort for Small {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities { native_tools: true, context_tokens: self.context_tokens, ..Capabilities::default() })
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let (text, model) = (if request.aside { self.summary } else { "so it is" }, model.clone());
        deltas.text(text);
        let tokens = request.bytes() as u64 / 4;
        self.asked.lock().unwrap().push(request);
        let usage = Some(Usage { input_tokens: tokens, total_tokens: tokens, ..Usage::default() });
        let text = text.to_owned();
        Box::pin(async move { Ok(LlmAnswer::text(model, text).with_usage(usage).with_latency_ms(1)) })
    }
}

fn text(message: &Message) -> String {
    match message {
        Message::User { parts } => parts.iter().map(ContentPart::as_text).collect(),
        Message::Assistant { text, .. } => text.clone(),
        Message::Tool { result } => result.output.plain(),
    }
}
