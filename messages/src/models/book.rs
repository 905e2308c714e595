//! What is known of models at one moment: the input of a selection.

use super::price::ModelPrice;
use super::selector::{ModelSelector, Requirement};
use crate::ids::{InvalidId, ModelName, TurnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A model as the catalogue knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Its name.
    pub name: ModelName,
    /// How many tokens its context holds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u32>,
    /// How many tokens an answer has at most, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// What it costs, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
    /// What it can do.
    #[serde(default)]
    pub abilities: BTreeSet<Requirement>,
}

/// The models of a catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// It is known, by name.
    Open(Arc<[Arc<ModelEntry>]>),
    /// It is not known, or too old; the reason.
    Closed(Arc<str>),
}

/// Whether the models of a provider can be run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderStanding {
    /// They can.
    Ready,
    /// Its key is missing.
    NoKey {
        /// The environment variable it is looked for in.
        variable: String,
    },
    /// No provider of this name is built in or configured.
    Unknown,
}

/// How fast a provider is taken to be before it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyClass {
    /// As one second for a call.
    Low,
    /// As three seconds.
    #[default]
    Medium,
    /// As ten seconds.
    High,
}

impl LatencyClass {
    /// The latency it stands for, in milliseconds.
    pub fn nominal_ms(self) -> u64 {
        match self {
            Self::Low => 1_000,
            Self::Medium => 3_000,
            Self::High => 10_000,
        }
    }
}

/// What is known of models at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelBook {
    /// The catalogue.
    pub listing: Listing,
    /// The selectors with a name.
    pub aliases: BTreeMap<String, ModelSelector>,
    /// The providers of the catalogue; one that is not here is unknown.
    pub providers: BTreeMap<String, ProviderStanding>,
    /// The median latency of each provider that was measured, in milliseconds.
    pub p50_ms: BTreeMap<String, u64>,
    /// The classes of providers.
    pub classes: BTreeMap<String, LatencyClass>,
    /// The tiers of quality, the best first: names of models, or their beginnings with `*` at the end.
    pub quality_tiers: Vec<Vec<String>>,
    /// The selections that a journal has, by turn: a replay uses them as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded: BTreeMap<TurnId, Recorded>,
}

/// A selection, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selected {
    /// The selector's name.
    pub by: ModelName,
    /// Why the model was selected, or why none was.
    pub why: String,
}

/// A selection from a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The model the turn ran on.
    pub model: ModelName,
    /// Why.
    pub selected: Selected,
}

impl ModelBook {
    /// A book of these models, all of which can be run.
    pub fn of(entries: impl IntoIterator<Item = ModelEntry>) -> Self {
        let mut entries: Vec<Arc<ModelEntry>> = entries.into_iter().map(Arc::new).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let providers =
            entries.iter().map(|entry| (entry.name.provider().to_owned(), ProviderStanding::Ready)).collect();
        Self { providers, ..Self::with(Listing::Open(entries.into())) }
    }

    /// A book without a catalogue, and why there is none.
    pub fn closed(why: &str) -> Self {
        Self::with(Listing::Closed(why.into()))
    }

    fn with(listing: Listing) -> Self {
        Self {
            listing,
            aliases: BTreeMap::new(),
            providers: BTreeMap::new(),
            p50_ms: BTreeMap::new(),
            classes: BTreeMap::new(),
            quality_tiers: Vec::new(),
            recorded: BTreeMap::new(),
        }
    }

    /// The models, by name; none of a catalogue that is not known.
    pub fn entries(&self) -> &[Arc<ModelEntry>] {
        match &self.listing {
            Listing::Open(entries) => entries,
            Listing::Closed(_) => &[],
        }
    }

    /// The model of this name.
    pub fn get(&self, name: &ModelName) -> Option<&Arc<ModelEntry>> {
        let entries = self.entries();
        entries.binary_search_by(|entry| entry.name.cmp(name)).ok().map(|at| &entries[at])
    }

    /// Whether the models of a provider can be run here.
    pub fn standing(&self, provider: &str) -> &ProviderStanding {
        self.providers.get(provider).unwrap_or(&ProviderStanding::Unknown)
    }

    /// The selector of a name: that of the alias, or the conditions themselves.
    ///
    /// # Errors
    /// When there is no such alias, or the conditions cannot be read.
    pub fn selector(&self, name: &ModelName) -> Result<ModelSelector, InvalidId> {
        let conditions = name.model();
        if let Some(selector) = self.aliases.get(conditions) {
            return Ok(selector.clone());
        }
        if conditions.contains('=') {
            return ModelSelector::parse(conditions);
        }
        let known: Vec<&str> = self.aliases.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there is {}", known.join(", ")) };
        Err(InvalidId(format!("no [models.{conditions}] is configured for {name}; {known}")))
    }

    /// The latency a provider is ranked by, in milliseconds, and whether it was measured.
    pub fn latency(&self, provider: &str) -> (u64, bool) {
        match self.p50_ms.get(provider) {
            Some(p50_ms) => (*p50_ms, true),
            None => (self.classes.get(provider).copied().unwrap_or_default().nominal_ms(), false),
        }
    }

    /// The number of the tier a model is in, from 0; one behind the last for a model in none.
    pub fn tier(&self, name: &ModelName) -> usize {
        let is_in = |tier: &Vec<String>| tier.iter().any(|pattern| fits(pattern, name.as_str()));
        self.quality_tiers.iter().position(is_in).unwrap_or(self.quality_tiers.len())
    }
}

/// Whether a name is this one, or begins with what stands before the `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}
