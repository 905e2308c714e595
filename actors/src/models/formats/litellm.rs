//! LiteLLM's map of prices: models by name, each with its provider; prices for a token.

use super::{named, price, tokens};
use bob_messages::models::{ModelEntry, Requirement};
use serde_json::{Map, Value};

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
        price: price(model, COSTS, 1e6),
        abilities: abilities.into_iter().filter_map(|(key, ability)| can(key).then_some(ability)).collect(),
    })
}
