//! The catalogue of one runtime: what is known of models, and what can be run of them.

use super::facts::{Known, ModelFacts};
use super::port::{ModelCatalogPort, Resolution};
use super::resolve;
use crate::llm::{LlmPort, caught};
use bob_messages::ids::ModelName;
use bob_messages::llm::LlmErrorKind;
use bob_messages::models::{Listing, ModelBook, ModelEntry, ModelPrice, ProviderStanding};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a book is used before newly measured latencies are looked at.
const BOOK_LASTS: Duration = Duration::from_secs(1);

/// The catalogue of one runtime: what is known of models, and the port that runs them.
pub struct Catalogue {
    facts: Arc<ModelFacts>,
    port: Arc<dyn LlmPort>,
    book: Mutex<Option<Made>>,
}

struct Made {
    generation: u64,
    closed: Option<String>,
    at: Instant,
    book: Arc<ModelBook>,
}

impl Catalogue {
    /// The catalogue of these facts; `port` says which models can be run.
    pub fn new(facts: Arc<ModelFacts>, port: Arc<dyn LlmPort>) -> Arc<Self> {
        Arc::new(Self { facts, port: caught(port), book: Mutex::new(None) })
    }

    /// What is known of models.
    pub fn facts(&self) -> &Arc<ModelFacts> {
        &self.facts
    }

    fn made(&self, known: Known, closed: Option<&str>) -> ModelBook {
        let Known { entries, .. } = known;
        let settings = &self.facts.settings;
        let mut providers: BTreeMap<String, ProviderStanding> = BTreeMap::new();
        let mut runnable = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let provider = entry.name.provider();
            let standing = match self.port.capabilities(&entry.name) {
                Ok(_can) => ProviderStanding::Ready,
                // A port that has its own models, such as a tape.
                Err(error) if error.kind == LlmErrorKind::UnknownModel => continue,
                Err(error) if error.kind == LlmErrorKind::MissingKey => {
                    ProviderStanding::NoKey { variable: self.port.key_variable(provider).unwrap_or_default() }
                }
                Err(_no_such_provider) => ProviderStanding::Unknown,
            };
            if !providers.contains_key(provider) {
                providers.insert(provider.to_owned(), standing);
            }
            runnable.push(match settings.prices.get(&entry.name) {
                Some(price) => Arc::new(ModelEntry { price: Some(price.clone()), ..(**entry).clone() }),
                None => Arc::clone(entry),
            });
        }
        ModelBook {
            listing: match closed {
                Some(why) => Listing::Closed(why.into()),
                None => Listing::Open(runnable.into()),
            },
            aliases: settings.aliases.clone(),
            providers,
            p50_ms: self.facts.latencies().p50_ms(),
            classes: settings.classes.clone(),
            quality_tiers: settings.quality_tiers.clone(),
            recorded: BTreeMap::new(),
        }
    }
}

impl ModelCatalogPort for Catalogue {
    fn book(&self) -> Arc<ModelBook> {
        let (known, closed) = (self.facts.known(), self.facts.closed());
        let mut kept = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &&mut Made| {
            made.generation == known.generation && made.closed == closed && made.at.elapsed() < BOOK_LASTS
        };
        if let Some(made) = kept.as_mut().filter(is_fresh) {
            return Arc::clone(&made.book);
        }
        let generation = known.generation;
        let book = self.made(known, closed.as_deref());
        // One that says the same is the same: what was made of it need not be made again.
        let book = match kept.take() {
            Some(made) if *made.book == book => made.book,
            _another => Arc::new(book),
        };
        *kept = Some(Made { generation, closed, at: Instant::now(), book: Arc::clone(&book) });
        book
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        resolve::resolve(&self.book(), &*self.port, &self.facts, model)
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.facts.price(model)
    }

    fn took(&self, provider: &str, ms: u64) {
        self.facts.took(provider, ms);
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.facts.settled())
    }

    fn refreshed_facts(&self) -> Option<&Arc<ModelFacts>> {
        Some(&self.facts)
    }
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue").field("source", self.facts.source()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
