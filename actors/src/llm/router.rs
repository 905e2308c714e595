//! Several ports behind one: each provider name leads to its port.

use super::deltas::DeltaSink;
use super::port::{LlmPort, ProviderLimits};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
use bob_messages::models::ModelPrice;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;

/// Asks the port a model's provider leads to.
#[doc(alias = "ProviderRouter")]
#[derive(Default)]
pub struct Router {
    ports: HashMap<String, Arc<dyn LlmPort>>,
    otherwise: Option<Arc<dyn LlmPort>>,
}

impl Router {
    /// A router that leads nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Models of `provider` are asked there.
    #[must_use]
    pub fn with(mut self, provider: impl Into<String>, port: Arc<dyn LlmPort>) -> Self {
        self.ports.insert(provider.into(), port);
        self
    }

    /// Models of every other provider are asked there.
    #[must_use]
    pub fn otherwise(mut self, port: Arc<dyn LlmPort>) -> Self {
        self.otherwise = Some(port);
        self
    }

    fn port(&self, provider: &str) -> Result<&Arc<dyn LlmPort>, LlmError> {
        self.ports.get(provider).or(self.otherwise.as_ref()).ok_or_else(|| {
            let mut names: Vec<&str> = self.ports.keys().map(String::as_str).collect();
            names.sort_unstable();
            let text = format!("provider {provider:?} is not known: use one of {}", names.join(", "));
            LlmError::new(LlmErrorKind::UnknownProvider, text)
        })
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("providers", &self.ports.keys()).finish_non_exhaustive()
    }
}

impl LlmPort for Router {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.port(model.provider())?.capabilities(model)
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        match self.port(model.provider()) {
            Ok(port) => port.complete_stream(request, model, deltas),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        match self.port(request.model.provider()) {
            Ok(port) => port.estimate_tokens(request),
            Err(_nobody_to_ask) => request.bytes().div_ceil(4) as u64,
        }
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.port(model.provider()).ok()?.price(model)
    }

    fn key_variable(&self, provider: &str) -> Option<String> {
        self.port(provider).ok()?.key_variable(provider)
    }

    fn is_at_hand(&self, request: &LlmRequest) -> bool {
        self.port(request.model.provider()).is_ok_and(|port| port.is_at_hand(request))
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.port(provider).map_or_else(|_| ProviderLimits::default(), |port| port.limits(provider))
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
