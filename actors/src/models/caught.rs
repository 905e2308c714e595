//! A catalogue whose panics are caught: it may be a program's own, and is asked in place.

use super::facts::ModelFacts;
use super::port::{ModelCatalogPort, Resolution};
use super::source::CatalogueError;
use crate::panics::Panics;
use bob_messages::ids::ModelName;
use bob_messages::models::{ModelBook, ModelEntry, ModelPrice, ModelSelector, Needs, Selection, select};
use futures_util::future::BoxFuture;
use std::sync::Arc;

const PANICKED: &str = "the catalogue of models panicked: it has a fault of its own";

/// The catalogue with its panics caught: then its book is closed, a model cannot be run and has no price.
pub fn caught(catalogue: Arc<dyn ModelCatalogPort>) -> Arc<dyn ModelCatalogPort> {
    Arc::new(Caught { catalogue, closed: Arc::new(ModelBook::closed(PANICKED)), panics: Panics::of("catalogue") })
}

struct Caught {
    catalogue: Arc<dyn ModelCatalogPort>,
    closed: Arc<ModelBook>,
    panics: Panics,
}

impl ModelCatalogPort for Caught {
    fn book(&self) -> Arc<ModelBook> {
        self.panics.catch("book", || self.catalogue.book()).unwrap_or_else(|| Arc::clone(&self.closed))
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        let resolved = self.panics.catch("resolve", || self.catalogue.resolve(model));
        resolved.unwrap_or_else(|| Resolution::Unmapped { why: PANICKED.to_owned(), alternatives: Vec::new() })
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.panics.catch("price", || self.catalogue.price(model)).flatten()
    }

    fn list(&self) -> Result<Arc<[Arc<ModelEntry>]>, CatalogueError> {
        let listed = self.panics.catch("list", || self.catalogue.list());
        listed.unwrap_or_else(|| Err(CatalogueError::new(PANICKED)))
    }

    fn select(&self, selector: &ModelSelector, needs: &Needs) -> Selection {
        let selected = self.panics.catch("select", || self.catalogue.select(selector, needs));
        selected.unwrap_or_else(|| select(&self.closed, selector, needs))
    }

    fn took(&self, provider: &str, ms: u64) {
        let _none = self.panics.catch("took", || self.catalogue.took(provider, ms));
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.panics.catch_in("settled", || self.catalogue.settled()).await.unwrap_or_default() })
    }

    fn refreshed_facts(&self) -> Option<&Arc<ModelFacts>> {
        self.panics.catch("refreshed_facts", || self.catalogue.refreshed_facts()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob_messages::models::Preference;

    struct Broken;

    impl ModelCatalogPort for Broken {
        fn book(&self) -> Arc<ModelBook> {
            panic!("no book")
        }

        fn resolve(&self, _: &ModelName) -> Resolution {
            panic!("no model")
        }

        fn price(&self, _: &ModelName) -> Option<ModelPrice> {
            panic!("no price")
        }

        fn took(&self, _: &str, _: u64) {
            panic!("no watch")
        }

        fn settled(&self) -> BoxFuture<'_, ()> {
            panic!("no source")
        }

        fn refreshed_facts(&self) -> Option<&Arc<ModelFacts>> {
            panic!("no facts")
        }
    }

    #[tokio::test]
    async fn a_catalogue_that_panics_is_one_that_is_closed() {
        let (catalogue, model) = (caught(Arc::new(Broken)), ModelName::parse("a:b").unwrap());
        assert_eq!(*catalogue.book(), ModelBook::closed(PANICKED));
        assert!(Arc::ptr_eq(&catalogue.book(), &catalogue.book()));
        assert!(matches!(catalogue.resolve(&model), Resolution::Unmapped { why, .. } if why == PANICKED));
        assert_eq!((catalogue.price(&model), catalogue.list().is_err()), (None, true));
        let selection = catalogue.select(&ModelSelector::new(Preference::CostFirst), &Needs::default());
        assert!(selection.model.is_none() && selection.why.contains("panicked"), "{selection:?}");
        catalogue.took("a", 1);
        catalogue.settled().await;
        assert!(catalogue.refreshed_facts().is_none());
    }
}
