//! models.dev's `api.json`: providers by id, each with its models by id; prices for a million tokens.

use super::{named, price, size, tier, tokens};
use bob_messages::models::{ModelEntry, ModelPrice, PriceTier, Requirement};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What is a price, in the order of [`price`].
const COSTS: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

pub(super) fn entries(all: &Map<String, Value>) -> impl Iterator<Item = ModelEntry> {
    let providers = all.iter().filter_map(|(id, provider)| Some((id, provider.get("models")?.as_object()?)));
    providers.flat_map(|(provider, models)| {
        models.iter().filter_map(move |(id, model)| entry(provider, id, model.as_object()?))
    })
}

fn entry(provider: &str, id: &str, model: &Map<String, Value>) -> Option<ModelEntry> {
    let modalities = |side: &str| -> Option<BTreeSet<&str>> {
        Some(model.get("modalities")?.get(side)?.as_array()?.iter().filter_map(Value::as_str).collect())
    };
    if modalities("output").is_some_and(|output| !output.contains("text")) {
        return None;
    }
    // Not offered any more.
    if model.get("status").and_then(Value::as_str) == Some("deprecated") {
        return None;
    }
    let is = |key: &str| model.get(key).and_then(Value::as_bool) == Some(true);
    let input = modalities("input").unwrap_or_default();
    let abilities = [
        (is("tool_call"), Requirement::ToolUse),
        (input.contains("image"), Requirement::Vision),
        (input.contains("audio"), Requirement::Audio),
        (is("reasoning"), Requirement::Reasoning),
        (is("structured_output"), Requirement::JsonMode),
    ];
    let limit = |key: &str| tokens(model.get("limit").and_then(|limit| limit.get(key)));
    let cost = model.get("cost").and_then(Value::as_object);
    Some(ModelEntry {
        name: named(provider, id)?,
        context_tokens: limit("input").or_else(|| limit("context")),
        max_output_tokens: limit("output"),
        price: cost.and_then(of),
        abilities: abilities.into_iter().filter_map(|(can, ability)| can.then_some(ability)).collect(),
    })
}

/// The price, with those above a size: `context_over_200k`, or a list of tiers by the size of the context.
fn of(cost: &Map<String, Value>) -> Option<ModelPrice> {
    let base = price(cost, COSTS, 1.0)?;
    let over =
        cost.iter().filter_map(|(key, rates)| Some((size(key.strip_prefix("context_over_")?)?, rates.as_object()?)));
    let listed = cost.get("tiers").and_then(Value::as_array).into_iter().flatten().filter_map(|rates| {
        let rates = rates.as_object()?;
        Some((u64::from(tokens(rates.get("tier")?.get("size"))?), rates))
    });
    let tiers: Vec<PriceTier> =
        over.chain(listed).map(|(above, rates)| tier(above, rates, COSTS, &base, 1.0)).collect();
    Some(ModelPrice { tiers: tiers.into(), ..base })
}
