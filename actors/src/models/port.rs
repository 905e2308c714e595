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

/// A catalogue of models. It answers at once, from memory.
///
/// ```
/// use bob_actors::models::{ModelCatalogPort, Resolution};
/// use bob_messages::ids::ModelName;
/// use bob_messages::models::{ModelBook, ModelPrice};
/// use std::sync::Arc;
///
/// /// A list of models that does not change.
/// struct Fixed(Arc<ModelBook>);
///
/// impl ModelCatalogPort for Fixed {
///     fn book(&self) -> Arc<ModelBook> {
///         Arc::clone(&self.0)
///     }
///
///     fn resolve(&self, model: &ModelName) -> Resolution {
///         match self.0.get(model) {
///             Some(entry) => Resolution::Mapped(Arc::clone(entry)),
///             None => Resolution::Unmapped { why: format!("{model} is not in the list"), alternatives: Vec::new() },
///         }
///     }
///
///     fn price(&self, model: &ModelName) -> Option<ModelPrice> {
///         self.0.get(model).and_then(|entry| entry.price.clone())
///     }
/// }
/// ```
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
    fn list(&self) -> Result<Arc<[Arc<ModelEntry>]>, String> {
        match &self.book().listing {
            bob_messages::models::Listing::Open(entries) => Ok(Arc::clone(entries)),
            bob_messages::models::Listing::Closed(why) => Err(why.to_string()),
        }
    }

    /// Selects a model, and explains it.
    fn select(&self, selector: &ModelSelector, needs: &Needs) -> Selection {
        select(&self.book(), selector, needs)
    }
}
