//! LiteLLM's map of prices: models by name, each with its provider; prices for a token.

use super::{named, price, size, tier, tokens};
use bob_messages::models::{ModelEntry, ModelPrice, PriceTier, Requirement};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What is a price, in the order of [`price`].
const COSTS: [&str; 4] =
    ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost"];

pub(super) fn entries(all: &Map<String, Value>) -> impl Iterator<Item = ModelEntry> {
    all.iter().filter_map(|(key, model)| entry(key, model.as_object()?))
}

fn entry(key: &str, model: &Map<String, Value>) -> Option<ModelEntry> {
    let provider = model.get("litellm_provider")?.as_str()?;
    let is_chat = model.get("mode").and_then(Value::as_str).is_none_or(|mode| mode == "chat");
    if !is_chat || key.starts_with("ft:") || key == "sample_spec" {
        return None;
    }
    let name = key.strip_prefix(provider).and_then(|rest| rest.strip_prefix('/')).unwrap_or(key);
    let abilities = [
        ("supports_function_calling", Requirement::ToolUse),
        ("supports_vision", Requirement::Vision),
        ("supports_audio_input", Requirement::Audio),
        ("supports_reasoning", Requirement::Reasoning),
        ("supports_response_schema", Requirement::JsonMode),
    ];
    let can = |key: &str| model.get(key).and_then(Value::as_bool) == Some(true);
    Some(ModelEntry {
        name: named(provider, name)?,
        context_tokens: tokens(model.get("max_input_tokens")).or_else(|| tokens(model.get("max_tokens"))),
        max_output_tokens: tokens(model.get("max_output_tokens")),
        price: of(model),
        abilities: abilities.into_iter().filter_map(|(key, ability)| can(key).then_some(ability)).collect(),
    })
}

/// The price, with those above a size: `input_cost_per_token_above_200k_tokens`, or a list with ranges.
fn of(model: &Map<String, Value>) -> Option<ModelPrice> {
    let ranges = model.get("tiered_pricing").and_then(Value::as_array).into_iter().flatten().filter_map(|range| {
        let range = range.as_object()?;
        Some((tokens(range.get("range")?.as_array()?.first()).map_or(0, u64::from), range))
    });
    let ranges: Vec<_> = ranges.collect();
    let first = || ranges.iter().find(|(above, _)| *above == 0).and_then(|(_, range)| price(range, COSTS, 1e6));
    let base = price(model, COSTS, 1e6).or_else(first)?;
    let sizes: BTreeSet<(u64, &str)> = model.keys().filter_map(|key| above(key)).collect();
    let named = sizes.into_iter().map(|(above, suffix)| {
        let keys = COSTS.map(|cost| format!("{cost}{suffix}"));
        tier(above, model, keys.each_ref().map(String::as_str), &base, 1e6)
    });
    let ranges = ranges.iter().filter(|(above, _)| *above > 0);
    let ranges = ranges.map(|(above, range)| tier(*above, range, COSTS, &base, 1e6));
    let tiers: Vec<PriceTier> = named.chain(ranges).collect();
    Some(ModelPrice { tiers: tiers.into(), ..base })
}

/// The size above which the price of this key is one, and how the key ends.
fn above(key: &str) -> Option<(u64, &str)> {
    let suffix = COSTS.iter().find_map(|cost| key.strip_prefix(cost))?;
    Some((size(suffix.strip_prefix("_above_")?.strip_suffix("_tokens")?)?, suffix))
}
