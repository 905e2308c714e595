//! A model port with the catalogue around it: selectors are models, prices are known, a model that cannot be run comes
//! with alternatives, and each call is measured.

use super::catalogue::Catalogue;
use super::port::ModelCatalogPort;
use super::resolve::{nearest, selected};
use crate::llm::{DeltaSink, LlmPort, ProviderLimits};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest};
use bob_messages::models::ModelPrice;
use futures_util::future::BoxFuture;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::time::Instant;

/// Asks another port, with what the catalogue knows.
#[derive(Clone)]
pub struct Catalogued {
    port: Arc<dyn LlmPort>,
    catalogue: Arc<dyn ModelCatalogPort>,
}

impl Catalogued {
    /// This port, with this catalogue around it.
    pub fn new(port: Arc<dyn LlmPort>, catalogue: Arc<dyn ModelCatalogPort>) -> Self {
        Self { port, catalogue }
    }

    /// The model that is meant: one that a selector selects now, if a selector is named.
    fn meant<'m>(&self, model: &'m ModelName) -> Result<Cow<'m, ModelName>, LlmError> {
        match model.is_selector() {
            false => Ok(Cow::Borrowed(model)),
            true => match selected(&self.catalogue.book(), model) {
                Ok(model) => Ok(Cow::Owned(model)),
                Err(why) => Err(LlmError::new(LlmErrorKind::NotSelected, why)),
            },
        }
    }

    fn with_alternatives(&self, model: &ModelName, mut error: LlmError) -> LlmError {
        if !matches!(error.kind, LlmErrorKind::UnknownProvider | LlmErrorKind::MissingKey) {
            return error;
        }
        let alternatives = nearest(&self.catalogue.book(), model);
        if alternatives.is_empty() {
            return error;
        }
        let names: Vec<&str> = alternatives.iter().map(ModelName::as_str).collect();
        error.message.push_str(&format!("; of the models that can be run here, nearest are {}", names.join(", ")));
        error
    }
}

impl Catalogue {
    /// A port with this catalogue around it: it knows prices, names alternatives, and measures.
    pub fn around(self: &Arc<Self>, port: Arc<dyn LlmPort>) -> Arc<dyn LlmPort> {
        Arc::new(Catalogued::new(port, self.clone()))
    }
}

impl LlmPort for Catalogued {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        let meant = self.meant(model)?;
        self.port.capabilities(&meant).map_err(|error| self.with_alternatives(&meant, error))
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let meant = match self.meant(model) {
            Ok(meant) => meant.into_owned(),
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        Box::pin(async move {
            let began = Instant::now();
            let answered = self.port.complete_stream(request, &meant, deltas).await;
            if answered.is_ok() {
                let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.catalogue.took(meant.provider(), ms);
            }
            answered
        })
    }

    fn estimate_tokens(&self, request: &LlmRequest) -> u64 {
        self.port.estimate_tokens(request)
    }

    fn limits(&self, provider: &str) -> ProviderLimits {
        self.port.limits(provider)
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.catalogue.price(self.meant(model).ok()?.as_ref())
    }

    fn key_variable(&self, provider: &str) -> Option<String> {
        self.port.key_variable(provider)
    }
}
