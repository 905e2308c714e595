//! The selection of a model: the constraints, then the rank, then the name.

use super::book::{Listing, ModelBook, ModelEntry, ProviderStanding};
use super::price::Rate;
use super::selector::{ModelSelector, Preference, Requirement};
use crate::cost::Cost;
use crate::ids::ModelName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How many tokens an answer is taken to have when its cost is estimated.
pub const EXPECTED_OUTPUT_TOKENS: u64 = 1_000;

/// How many candidates, and how many models of a refusal, an explanation names.
pub const NAMED: usize = 20;

/// What a request needs, whatever its selector says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// About how many tokens its prompt has.
    pub input_tokens: u64,
    /// What a model must take, since it is in the request.
    pub require: BTreeSet<Requirement>,
}

/// Why a model is no candidate; the first of these that holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No provider of this name is built in or configured.
    NoProvider(String),
    /// The key of its provider is missing: the variable.
    NoKey(String),
    /// It lacks an ability.
    Lacks(Requirement),
    /// Its context is smaller than is required, or not known.
    SmallContext(u32),
    /// The request has more tokens than its context.
    TooLong(u64),
    /// It has no known price in US dollars.
    NoPrice,
    /// Its prompts cost more than allowed.
    InputPrice(Rate),
    /// Its answers cost more than allowed.
    OutputPrice(Rate),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProvider(provider) => write!(f, "no provider {provider}"),
            Self::NoKey(variable) => write!(f, "no key: {variable} is not set"),
            Self::Lacks(required) => write!(f, "lacks {}", required.as_str()),
            Self::SmallContext(tokens) => write!(f, "context below {tokens} tokens or unknown"),
            Self::TooLong(tokens) => write!(f, "context below the {tokens} tokens of the request"),
            Self::NoPrice => write!(f, "no price in USD"),
            Self::InputPrice(most) => write!(f, "prompts above {most} USD per million tokens"),
            Self::OutputPrice(most) => write!(f, "answers above {most} USD per million tokens"),
        }
    }
}

/// A candidate and what it is ranked by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// The model.
    pub model: ModelName,
    /// What it is ranked by, in words.
    pub rank: String,
}

/// Models that are no candidates, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason, in words.
    pub why: String,
    /// How many there are.
    pub count: usize,
    /// Their names; the first of many.
    pub models: Vec<ModelName>,
}

/// A selection with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The model; `None` when no model fits.
    pub model: Option<ModelName>,
    /// Why, in a sentence.
    pub why: String,
    /// How many candidates there were.
    pub candidates: usize,
    /// The best of them, the first one selected.
    pub ranked: Vec<Ranked>,
    /// What refused the others.
    pub refused: Vec<Refused>,
}

impl Selection {
    fn only(model: Option<ModelName>, why: String) -> Self {
        Self { model, why, candidates: 0, ranked: Vec::new(), refused: Vec::new() }
    }
}

/// Selects a model. The same arguments select the same model.
pub fn select(book: &ModelBook, selector: &ModelSelector, needs: &Needs) -> Selection {
    if let Some(explicit) = &selector.explicit {
        return Selection::only(Some(explicit.clone()), "named explicitly".to_owned());
    }
    let entries = match &book.listing {
        Listing::Open(entries) => entries,
        Listing::Closed(why) => {
            return Selection::only(None, format!("the catalogue of models is not available: {why}"));
        }
    };
    if selector.preference == Preference::QualityFirst && book.quality_tiers.is_empty() {
        let why = "quality_first needs tiers of quality: set models_catalog.quality_tiers";
        return Selection::only(None, why.to_owned());
    }
    let mut ranked: Vec<(u64, &ModelEntry)> = Vec::new();
    let mut refused: BTreeMap<Refusal, Vec<&ModelName>> = BTreeMap::new();
    for entry in entries.iter() {
        match refusal(book, selector, needs, entry) {
            Some(why) => refused.entry(why).or_default().push(&entry.name),
            None => ranked.push((rank(book, selector, needs, entry), entry)),
        }
    }
    ranked.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.name.cmp(&b.name)));
    let in_words = |(rank, entry): &(u64, &ModelEntry)| Ranked {
        model: entry.name.clone(),
        rank: in_words(book, selector, *rank, entry),
    };
    let candidates = ranked.len();
    let ranked: Vec<Ranked> = ranked.iter().take(NAMED).map(in_words).collect();
    let why = match ranked.first() {
        Some(first) => {
            let of = if candidates == 1 {
                "the only candidate".to_owned()
            } else {
                format!("first of {candidates} candidates")
            };
            format!("{of} by {}: {}", selector.preference.as_str(), first.rank)
        }
        None => format!("no model fits{}", most_frequent(&refused)),
    };
    Selection {
        model: ranked.first().map(|first| first.model.clone()),
        why,
        candidates,
        ranked,
        refused: refused.into_iter().map(|(why, models)| named(&why, &models)).collect(),
    }
}

fn refusal(book: &ModelBook, selector: &ModelSelector, needs: &Needs, entry: &ModelEntry) -> Option<Refusal> {
    let provider = entry.name.provider();
    match book.standing(provider) {
        ProviderStanding::Ready => {}
        ProviderStanding::NoKey { variable } => return Some(Refusal::NoKey(variable.clone())),
        ProviderStanding::Unknown => return Some(Refusal::NoProvider(provider.to_owned())),
    }
    let mut required = selector.require.union(&needs.require);
    if let Some(lacks) = required.find(|required| !entry.abilities.contains(required)) {
        return Some(Refusal::Lacks(*lacks));
    }
    if let Some(least) = selector.min_context_tokens.filter(|least| entry.context_tokens.is_none_or(|has| has < *least))
    {
        return Some(Refusal::SmallContext(least));
    }
    if entry.context_tokens.is_some_and(|has| u64::from(has) < needs.input_tokens) {
        return Some(Refusal::TooLong(needs.input_tokens));
    }
    let price = entry.price.as_ref().filter(|price| price.is_in_usd());
    let bounds = (selector.max_input_price_per_mtok, selector.max_output_price_per_mtok);
    let Some(price) = price else {
        let needs_one = selector.preference == Preference::CostFirst || bounds != (None, None);
        return needs_one.then_some(Refusal::NoPrice);
    };
    let price = price.for_prompt(needs.input_tokens);
    match bounds {
        (Some(most), _) if price.input > most => Some(Refusal::InputPrice(most)),
        (_, Some(most)) if price.output > most => Some(Refusal::OutputPrice(most)),
        _ => None,
    }
}

/// What a candidate is ranked by; less is better.
fn rank(book: &ModelBook, selector: &ModelSelector, needs: &Needs, entry: &ModelEntry) -> u64 {
    match selector.preference {
        Preference::CostFirst => {
            let price = entry.price.as_ref();
            price.map_or(u64::MAX, |price| price.expected(needs.input_tokens, EXPECTED_OUTPUT_TOKENS).nanos())
        }
        Preference::LatencyFirst => book.latency(entry.name.provider()).0,
        Preference::QualityFirst => book.tier(&entry.name) as u64,
    }
}

fn in_words(book: &ModelBook, selector: &ModelSelector, rank: u64, entry: &ModelEntry) -> String {
    let provider = entry.name.provider();
    match selector.preference {
        Preference::CostFirst => format!("about {} USD", Cost::from_nanos(rank)),
        Preference::LatencyFirst if book.latency(provider).1 => format!("{provider} answers in {rank} ms (median)"),
        Preference::LatencyFirst => format!("{provider} counts as {rank} ms, not measured yet"),
        Preference::QualityFirst if rank < book.quality_tiers.len() as u64 => format!("quality tier {}", rank + 1),
        Preference::QualityFirst => "in no quality tier".to_owned(),
    }
}

fn most_frequent(refused: &BTreeMap<Refusal, Vec<&ModelName>>) -> String {
    let mut reasons: Vec<_> = refused.iter().map(|(why, models)| (models.len(), why)).collect();
    reasons.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.cmp(b)));
    let reasons: Vec<String> = reasons.iter().take(5).map(|(count, why)| format!("{why} ({count})")).collect();
    if reasons.is_empty() { ": the catalogue is empty".to_owned() } else { format!(": {}", reasons.join("; ")) }
}

fn named(why: &Refusal, models: &[&ModelName]) -> Refused {
    let names = models.iter().take(NAMED).map(|name| (*name).clone()).collect();
    Refused { why: why.to_string(), count: models.len(), models: names }
}
