//! The port: what a catalogue of models does.

use super::facts::ModelFacts;
use super::source::CatalogueError;
use bob_messages::ids::ModelName;
use bob_messages::models::{Listing, ModelBook, ModelEntry, ModelPrice, ModelSelector, Needs, Selection, select};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Whether a model can be run here, and by whose word.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// The catalogue knows it, and its provider can be asked.
    Mapped(Arc<ModelEntry>),
    /// Its provider can be asked, and the configuration says something of it itself: its price, its abilities, or, of a
    /// model that the catalogue does not know, all.
    MappedWithOverrides {
        /// The model as it is used; what only the provider knows is missing.
        entry: Arc<ModelEntry>,
        /// What the configuration says.
        overrides: Vec<String>,
    },
    /// It cannot be run.
    Unmapped {
        /// Why not, with the variable of a missing key.
        why: String,
        /// Up to three models that can be run, the nearest first.
        alternatives: Vec<ModelName>,
    },
}

/// A catalogue of models. It answers at once, from memory.
///
/// A runtime asks for the book and for prices; models are selected from the book when a turn begins, so that its journal
/// explains the selection. Whether a model can be run is decided by its [`LlmPort`](crate::llm::LlmPort).
pub trait ModelCatalogPort: Send + Sync + 'static {
    /// What is known at this moment. While nothing has changed it is the `Arc` that was returned before: for another one the
    /// runtime makes its configuration of turns anew. Its entries are sorted by name.
    fn book(&self) -> Arc<ModelBook>;

    /// Whether a model can be run here. A selector resolves to the model it selects now.
    fn resolve(&self, model: &ModelName) -> Resolution;

    /// The price of a model, if it is known; the configuration's before the catalogue's. A runtime asks once for each model, and
    /// again after its [`refreshed_facts`](Self::refreshed_facts) changed.
    fn price(&self, model: &ModelName) -> Option<ModelPrice>;

    /// The models of the catalogue, by name.
    ///
    /// # Errors
    /// Why the catalogue is not available.
    fn list(&self) -> Result<Arc<[Arc<ModelEntry>]>, CatalogueError> {
        match &self.book().listing {
            Listing::Open(entries) => Ok(Arc::clone(entries)),
            Listing::Closed(why) => Err(CatalogueError::new(why.to_string())),
        }
    }

    /// Selects a model, and explains it. A turn does not call this: it selects from the [`book`](Self::book), by this rule.
    fn select(&self, selector: &ModelSelector, needs: &Needs) -> Selection {
        select(&self.book(), selector, needs)
    }

    /// Takes the time of a call of this provider that was answered, for the latencies of the book.
    fn took(&self, provider: &str, ms: u64) {
        let _not_measured = (provider, ms);
    }

    /// Returns when the first answer of a source is there, or there is none for now; in bounded time. A request that needs a
    /// selection waits for it while the book is closed.
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The facts that the runtime asks the source of again, and whose latencies it keeps; `None` for a catalogue that does
    /// so itself. For a port around a [`Catalogue`](super::Catalogue): its facts.
    fn refreshed_facts(&self) -> Option<&Arc<ModelFacts>> {
        None
    }
}
