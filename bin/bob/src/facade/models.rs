//! The catalogue of a runtime: what a turn is told of models, and whether a request's model can be run.

use super::builder::RuntimeBuilder;
use super::runtime::Runtime;
use bob_actors::models::ModelCatalogPort;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::ModelName;
use bob_messages::llm::{LlmError, LlmErrorKind};
use bob_messages::models::{Listing, ModelBook, Needs, Requirement};
use bob_messages::turn_config::TurnConfig;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the end of a runtime waits for latencies to be written.
const KEPT_WITHIN: Duration = Duration::from_millis(500);

/// How long a request waits for the first answer of a catalogue that a program brings: no limit of a turn counts yet.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// The catalogue, and the newest configuration of turns that was made with it.
pub(super) struct Models {
    pub(super) catalogue: Arc<dyn ModelCatalogPort>,
    newest: Mutex<Option<(Arc<ModelBook>, Arc<TurnConfig>)>>,
}

impl Models {
    pub(super) fn new(catalogue: Arc<dyn ModelCatalogPort>) -> Self {
        Self { catalogue, newest: Mutex::new(None) }
    }

    /// The configuration with what is known of models now; it is made again when that changes.
    pub(super) fn told(&self, plain: &Arc<TurnConfig>) -> Arc<TurnConfig> {
        let book = self.catalogue.book();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, made)) = newest.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &book)) {
            let _of_the_book = of;
            return Arc::clone(made);
        }
        let made = Arc::new(TurnConfig { models: Some(Arc::clone(&book)), ..(**plain).clone() });
        *newest = Some((book, Arc::clone(&made)));
        made
    }
}

impl RuntimeBuilder {
    /// Sets the catalogue of models: a [selector](crate::model::catalogue::ModelSelector) can then stand wherever a model is
    /// named, and calls of models with a known price have a cost. Without one, selectors are refused. It is a
    /// [`Catalogue`](crate::model::catalogue::Catalogue), or a program's own [`ModelCatalogPort`].
    #[must_use]
    pub fn models(mut self, catalogue: Arc<dyn ModelCatalogPort>) -> Self {
        self.models = Some(catalogue);
        self
    }
}

impl Runtime {
    /// The catalogue of models, if the runtime has one. A panic of a program's own is caught.
    pub fn models(&self) -> Option<&Arc<dyn ModelCatalogPort>> {
        self.0.models.as_ref().map(|models| &models.catalogue)
    }

    /// Keeps the latencies that were measured; a disk that does not answer is not waited for long.
    pub(super) async fn keep_latencies(&self) {
        let facts = self.0.models.as_ref().and_then(|models| models.catalogue.refreshed_facts().cloned());
        let Some(facts) = facts else { return };
        let written = tokio::task::spawn_blocking(move || facts.keep_latencies());
        let _written_or_left = tokio::time::timeout(KEPT_WITHIN, written).await;
    }

    /// The configuration of turns, with what is known of models now.
    pub(super) fn turn_config_now(&self) -> Arc<TurnConfig> {
        match &self.0.models {
            Some(models) => models.told(&self.0.turn_config),
            None => Arc::clone(&self.0.turn_config),
        }
    }

    /// Waits for the first answer of the catalogue's source, where a model may have to be selected from it. `named` is the
    /// model of the request.
    pub(super) async fn models_settled(&self, named: Option<&ModelName>) {
        let Some(models) = &self.0.models else { return };
        if named.is_some_and(|model| !model.is_selector()) {
            return;
        }
        let book = models.catalogue.book();
        // A session may name a selector itself; those with a name are made for that.
        let selects = named.is_some() || self.0.turn_config.default_model.is_selector() || !book.aliases.is_empty();
        if selects && matches!(book.listing, Listing::Closed(_)) {
            // What the book holds then decides.
            let _elapsed = tokio::time::timeout(SETTLED_WITHIN, models.catalogue.settled()).await;
        }
    }

    /// Whether a model can be run and takes these parts; of a selector, whether one can.
    /// Errors: `Llm` for a model that cannot be run, `Invalid` for a part that it does not take.
    pub(super) fn takes(&self, model: &ModelName, parts: &[ContentPart]) -> Result<(), AgentError> {
        let selected = match &self.0.models {
            Some(models) if model.is_selector() => Some(selected(&models.catalogue.book(), model, parts)?),
            _named => None,
        };
        let model = selected.as_ref().unwrap_or(model);
        let capabilities = self.0.model.capabilities(model)?;
        match parts.iter().find(|part| !capabilities.takes(part)) {
            Some(part) => Err(AgentError::Invalid(format!("the model {model} does not take {} parts", part.kind()))),
            None => Ok(()),
        }
    }
}

fn selected(book: &ModelBook, name: &ModelName, parts: &[ContentPart]) -> Result<ModelName, LlmError> {
    let refuse = |why: String| LlmError::new(LlmErrorKind::NotSelected, why);
    let selector = book.selector(name).map_err(|error| refuse(error.to_string()))?;
    let needs = Needs { require: Requirement::of(parts), ..Needs::default() };
    let selection = bob_messages::models::select(book, &selector, &needs);
    selection.model.ok_or_else(|| refuse(format!("{name}: {}", selection.why)))
}
