//! The port: what a catalogue of models does.

use bob_messages::ids::ModelName;
use bob_messages::models::{ModelBook, ModelEntry, ModelPrice, ModelSelector, Needs, Selection, select};
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

/// Why the catalogue of models is not available, or its source has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct CatalogueError {
    why: String,
}

impl CatalogueError {
    /// An error with this text.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// A catalogue of models. It answers at once, from memory.
pub trait ModelCatalogPort: Send + Sync + 'static {
    /// What is known at this moment.
    fn book(&self) -> Arc<ModelBook>;

    /// Whether a model can be run here. A selector resolves to the model it selects now.
    fn resolve(&self, model: &ModelName) -> Resolution;

    /// The price of a model, if it is known; the configuration's before the catalogue's.
    fn price(&self, model: &ModelName) -> Option<ModelPrice>;

    /// The models of the catalogue, by name.
    ///
    /// # Errors
    /// Why the catalogue is not available.
    fn list(&self) -> Result<Arc<[Arc<ModelEntry>]>, CatalogueError> {
        match &self.book().listing {
            bob_messages::models::Listing::Open(entries) => Ok(Arc::clone(entries)),
            bob_messages::models::Listing::Closed(why) => Err(CatalogueError::new(why.to_string())),
        }
    }

    /// Selects a model, and explains it.
    fn select(&self, selector: &ModelSelector, needs: &Needs) -> Selection {
        select(&self.book(), selector, needs)
    }
}
