//! The keys about the choice of models: the catalogue, and selectors with a name.

use std::collections::BTreeMap;

use bob::model::catalogue::{Cost, LatencyClass, Preference, Requirement};

use super::keys::Rule::{Model, Text, Whole};
use super::keys::{PRICE, TIME};
use super::read::{Read, Reader};
use super::table::section;
use super::tree::Item;

section! {
    /// `[models.<name>]`: a selector, which is named `select:<name>` wherever a model is named.
    pub struct Selector {
        /// This `provider:model`, whatever else is said.
        pub explicit: Option<String> = None => Model,
        /// What the model must be able to do.
        pub require: Vec<Requirement> = Vec::new(),
        /// The most a million tokens of prompts may cost, US dollars.
        pub max_input_price_per_mtok: Option<f64> = None => PRICE,
        /// The most a million tokens of answers may cost, US dollars.
        pub max_output_price_per_mtok: Option<f64> = None => PRICE,
        /// The least its context must hold, tokens.
        pub min_context_tokens: Option<u32> = None => Whole(1, 1_000_000_000),
        /// By what the models that fit are ranked.
        pub preference: Preference = Preference::CostFirst,
    }
}

section! {
    /// `[models_catalog]`: where the catalogue of models comes from.
    pub struct ModelsCatalog {
        /// A file relative to the configuration, or an address; what is built in if not set.
        pub source: Option<String> = None => Text,
        /// How often the source is asked again, milliseconds.
        pub refresh_interval_ms: u64 = 6 * 3_600_000 => TIME,
        /// How old an answer of the source may be, milliseconds.
        pub cache_ttl_ms: u64 = 24 * 3_600_000 => TIME,
        /// Names of models, or their beginnings with `*` at the end, in tiers of quality, the best first.
        pub quality_tiers: Vec<Vec<String>> = Vec::new(),
        /// How fast providers are taken to be before they were measured.
        pub latency_class: BTreeMap<String, LatencyClass> = BTreeMap::new(),
    }
}

impl ModelsCatalog {
    /// The address of the source, if it is one.
    pub fn address(&self) -> Option<&str> {
        self.source.as_deref().filter(|source| source.starts_with("http://") || source.starts_with("https://"))
    }
}

impl Read for Requirement {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(item, &Self::ALL.map(|requirement| (requirement.as_str(), requirement)))
    }
}

impl Read for Preference {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(item, &Self::ALL.map(|preference| (preference.as_str(), preference)))
    }
}

impl Read for LatencyClass {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(item, &[("low", Self::Low), ("medium", Self::Medium), ("high", Self::High)])
    }
}

impl Read for Cost {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        f64::read(item, reader).map(Self::from_amount)
    }
}
