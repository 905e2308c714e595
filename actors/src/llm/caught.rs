//! A port whose panics are caught in the methods that answer at once, which actors and callers call in place.
//!
//! A panic in an answer's future ends the task of its call, which says so.

use super::{DeltaSink, LlmPort, ProviderLimits, panicked};
use crate::panics::Panics;
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest};
use bob_messages::models::ModelPrice;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// The port with its panics caught: then `capabilities` is an error of the kind `Panicked`, and the other methods are what
/// a port has that does not implement them.
pub fn caught(port: Arc<dyn LlmPort>) -> Arc<dyn LlmPort> {
    Arc::new(Caught { port, panics: Panics::of("model") })
}

struct Caught {
    port: Arc<dyn LlmPort>,
    panics: Panics,
}

impl LlmPort for Caught {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.panics.catch("capabilities", || self.port.capabilities(model)).unwrap_or_else(|| Err(panicked()))
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.port.complete_stream(request, model, deltas)
    }

    fn complete(&self, request: Arc<LlmRequest>, model: &ModelName) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.port.complete(request, model)
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        let estimated = self.panics.catch("estimate_tokens", || self.port.estimate_tokens(request));
        estimated.unwrap_or_else(|| request.bytes().div_ceil(4) as u64)
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.panics.catch("price", || self.port.price(model)).flatten()
    }

    fn key_variable(&self, provider: &str) -> Option<String> {
        self.panics.catch("key_variable", || self.port.key_variable(provider)).flatten()
    }

    fn is_at_hand(&self, request: &LlmRequest) -> bool {
        self.panics.catch("is_at_hand", || self.port.is_at_hand(request)).unwrap_or(false)
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.panics.catch("limits", || self.port.limits(provider)).unwrap_or_default()
    }
}
