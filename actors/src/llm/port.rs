//! The port: what a model provider must do for us.
//!
//! An implementation makes one attempt per call and knows nothing of retries, places or sessions.

use super::deltas::DeltaSink;
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest};
use bob_messages::models::ModelPrice;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// One or more model providers.
pub trait LlmPort: Send + Sync + 'static {
    /// What the model can do, from configuration alone: nothing is sent.
    ///
    /// # Errors
    /// `UnknownProvider` or `UnknownModel` when the name leads nowhere, `MissingKey`
    /// (naming the variable) when the provider's key is not set.
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError>;

    /// One attempt at an answer from `model` (the request names the first choice; a fallback is asked the same). Pieces
    /// go to `deltas` as they arrive. Dropping the future closes the connection. Of an answer with more than 256 calls,
    /// or more than 8 MiB of text, reasoning and arguments, nothing counts: the call fails as `TooLarge`.
    ///
    /// # Errors
    /// Whatever kept the answer from being whole; see [`LlmErrorKind`](bob_messages::llm::LlmErrorKind).
    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>>;

    /// Completes a request without streaming: only the whole answer is returned.
    ///
    /// # Errors
    /// As for [`complete_stream`](Self::complete_stream).
    fn complete(&self, request: Arc<LlmRequest>, model: &ModelName) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.complete_stream(request, model, DeltaSink::unread())
    }

    /// How many tokens the request has, about; by default a quarter of its bytes. The size of prompts is measured by it until
    /// the provider has counted one of the session, and whether a fallback has room for a prompt.
    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        request.bytes().div_ceil(4) as u64
    }

    /// What a model costs, if it is known.
    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        let _unknown = model;
        None
    }

    /// The environment variable a provider's key is looked for in, if it needs one that is not set.
    fn key_variable(&self, provider: &str) -> Option<String> {
        let _unknown = provider;
        None
    }

    /// Whether the answer to this request is at hand: it is made without waiting and with little work, as from a script.
    /// Then it is made where the question arrives instead of in a task of its own.
    fn is_at_hand(&self, request: &LlmRequest) -> bool {
        let _most_answers_take_time = request;
        false
    }

    /// How much may be asked of the provider at once, and how long it may be silent.
    fn limits(&self, provider: &str) -> ProviderLimits {
        let _every_provider_alike = provider;
        ProviderLimits::default()
    }
}

/// What one provider is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderLimits {
    /// How long it may take to its headers, and be silent in a stream, in milliseconds.
    pub timeout_ms: u64,
    /// How many calls it may have at once; `usize::MAX` means any number.
    pub max_concurrent: usize,
}

impl Default for ProviderLimits {
    fn default() -> Self {
        Self { timeout_ms: 30_000, max_concurrent: usize::MAX }
    }
}

/// A port: whether a provider can be asked now. A provider that Bob starts itself is
/// waited for here, at the beginning of each attempt.
pub trait Readiness: Send + Sync + 'static {
    /// Returns when the provider can be asked. Dropping the future stops the waiting.
    ///
    /// # Errors
    /// When it will not become ready; the attempt fails with it.
    fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>>;

    /// Whether the provider may have to be started; without that it is not waited for.
    fn starts(&self, provider: &str) -> bool {
        let _any_may = provider;
        true
    }

    /// The port where a ready provider listens instead of that of its address, if it is another one.
    fn port(&self, provider: &str) -> Option<u16> {
        let _as_configured = provider;
        None
    }
}
