use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bob::ModelName;
use bob::model::catalogue::{CatalogueSettings, ModelFacts, ModelPrice, ModelSelector, Rate, Source};
use bob::model::providers::CapabilityOverrides;

use crate::{Config, Price, Provider, Selector};

/// What is known of models: reads the source, if it is a file, or what is kept of its answer.
pub fn facts(config: &Config) -> Arc<ModelFacts> {
    ModelFacts::open(settings(config))
}

/// What is known of models without asking a source, however old that is: for a replay.
pub(super) fn kept(config: &Config) -> Arc<ModelFacts> {
    ModelFacts::open(CatalogueSettings { asks: false, ..settings(config) })
}

fn settings(config: &Config) -> CatalogueSettings {
    let catalog = &config.models_catalog;
    let priced = config.prices.iter().filter_map(|(name, of)| Some((ModelName::parse(name).ok()?, price(of))));
    let own = config.providers.iter().map(|(name, provider)| (name.clone(), own(provider)));
    CatalogueSettings {
        source: match (catalog.address(), &catalog.source) {
            (Some(address), _) => Source::Url(address.to_owned()),
            (None, Some(file)) => Source::File(config.resolve(file)),
            (None, None) => Source::BuiltIn,
        },
        refresh_every: Duration::from_millis(catalog.refresh_interval_ms),
        cache_ttl: Duration::from_millis(catalog.cache_ttl_ms),
        folder: config.files().cache.clone(),
        aliases: config.models.iter().map(|(name, of)| (name.clone(), selector(of))).collect(),
        prices: priced.collect(),
        overrides: own.filter(|(_, says)| !says.is_empty()).collect(),
        classes: catalog.latency_class.iter().map(|(name, class)| (name.clone(), *class)).collect::<BTreeMap<_, _>>(),
        quality_tiers: catalog.quality_tiers.clone(),
        ..CatalogueSettings::default()
    }
}

fn price(price: &Price) -> ModelPrice {
    ModelPrice {
        cached_input: price.cached_input.map(Rate::from_amount),
        cache_write: price.cache_write.map(Rate::from_amount),
        currency: price.currency.as_str().into(),
        ..ModelPrice::usd(Rate::from_amount(price.input), Rate::from_amount(price.output))
    }
}

fn selector(of: &Selector) -> ModelSelector {
    let Selector {
        explicit,
        require,
        max_input_price_per_mtok,
        max_output_price_per_mtok,
        min_context_tokens,
        preference,
    } = of;
    ModelSelector {
        explicit: explicit.as_deref().and_then(|model| ModelName::parse(model).ok()),
        require: require.iter().copied().collect(),
        max_input_price_per_mtok: max_input_price_per_mtok.map(Rate::from_amount),
        max_output_price_per_mtok: max_output_price_per_mtok.map(Rate::from_amount),
        min_context_tokens: *min_context_tokens,
        preference: *preference,
    }
}

/// What a provider's table says that the catalogue would say otherwise.
fn own(provider: &Provider) -> Vec<String> {
    let says = [
        (provider.base_url.is_some(), "address"),
        (provider.capabilities != CapabilityOverrides::default(), "capabilities"),
    ];
    says.into_iter().filter(|(says, _)| *says).map(|(_, what)| what.to_owned()).collect()
}
