use super::*;
use crate::llm::providers::KNOWN;
use bob_messages::models::Requirement::{Audio, JsonMode, Reasoning, ToolUse, Vision};
use std::collections::BTreeSet;

/// An excerpt in the form of models.dev's `api.json`.
const MODELS_DEV: &str = r#"{
  "openai": {"id": "openai", "env": ["OPENAI_API_KEY"], "name": "OpenAI", "models": {
    "gpt-4o-mini": {"id": "gpt-4o-mini", "attachment": true, "reasoning": false, "tool_call": true, "structured_output": true,
      "modalities": {"input": ["text", "image"], "output": ["text"]},
      "cost": {"input": 0.15, "output": 0.6, "cache_read": 0.08}, "limit": {"context": 128000, "output": 16384}},
    "gpt-image-1": {"id": "gpt-image-1", "modalities": {"input": ["text"], "output": ["image"]}},
    "gpt-3": {"id": "gpt-3", "status": "deprecated", "cost": {"input": 1, "output": 1}}}},
  "google": {"id": "google", "models": {
    "gemini-2.5-pro": {"id": "gemini-2.5-pro", "reasoning": true, "tool_call": true,
      "modalities": {"input": ["text", "image", "audio", "video"], "output": ["text"]},
      "limit": {"context": 1048576, "output": 65536}}}}}"#;

/// An excerpt in the form of LiteLLM's map.
const LITELLM: &str = r#"{
  "sample_spec": {"litellm_provider": "one of https://docs.litellm.ai/docs/providers", "mode": "one of: chat, embedding"},
  "gpt-4o-mini": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 128000, "max_output_tokens": 16384,
    "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "cache_read_input_token_cost": 8e-08,
    "supports_function_calling": true, "supports_vision": true, "supports_response_schema": true},
  "gemini/gemini-2.5-pro": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 1048576,
    "max_output_tokens": 65536, "supports_function_calling": true, "supports_vision": true, "supports_audio_input": true,
    "supports_reasoning": true},
  "text-embedding-3-small": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 2e-08},
  "together_ai/meta/llama": {"litellm_provider": "together_ai", "mode": "chat", "max_tokens": 4096}}"#;

fn entry<'a>(entries: &'a [Arc<ModelEntry>], name: &str) -> &'a ModelEntry {
    entries.iter().find(|entry| entry.name.as_str() == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn both_formats_say_the_same_of_the_same_model() {
    let (dev, lite) = (read(MODELS_DEV).unwrap(), read(LITELLM).unwrap());
    for name in ["openai:gpt-4o-mini", "gemini:gemini-2.5-pro"] {
        assert_eq!(entry(&dev, name), entry(&lite, name));
    }
    let mini = entry(&dev, "openai:gpt-4o-mini");
    assert_eq!(mini.abilities, BTreeSet::from([ToolUse, Vision, JsonMode]));
    assert_eq!(mini.price.as_ref().map(|price| price.input.amount()), Some(0.15));
    assert_eq!(entry(&lite, "gemini:gemini-2.5-pro").abilities, BTreeSet::from([ToolUse, Vision, Audio, Reasoning]));
    let names = |entries: &[Arc<ModelEntry>]| entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        names(&dev),
        ["gemini:gemini-2.5-pro", "openai:gpt-4o-mini"],
        "no pictures, and nothing that was retired"
    );
    assert_eq!(names(&lite), ["gemini:gemini-2.5-pro", "openai:gpt-4o-mini", "together:meta/llama"]);
}

#[test]
fn the_prices_of_long_prompts_are_read_from_each_format() {
    let dev = r#"{"google": {"models": {
        "one": {"cost": {"input": 1.25, "output": 10, "cache_read": 0.125,
            "context_over_200k": {"input": 2.5, "output": 15, "cache_read": 0.25}}},
        "two": {"cost": {"input": 1.25, "output": 10, "cache_read": 0.125,
            "tiers": [{"input": 2.5, "output": 15, "cache_read": 0.25, "tier": {"type": "context", "size": 200000}}]}}}}}"#;
    let lite = r#"{
      "gemini/one": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "cache_read_input_token_cost_above_200k_tokens": 2.5e-07, "input_cost_per_token_above_200k_tokens_priority": 9,
        "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 9},
      "gemini/two": {"litellm_provider": "gemini", "mode": "chat", "tiered_pricing": [
        {"range": [0, 200000], "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05,
          "cache_read_input_token_cost": 1.25e-07},
        {"range": [200000, 1e6], "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1.5e-05,
          "cache_read_input_token_cost": 2.5e-07}]}}"#;
    let table = "# bob-models 1\ngemini:one\t\t\t1.25\t10\t0.125\t\t\t200000:2.5,15,0.25,\n\
        gemini:two\t\t\t1.25\t10\t0.125\t\t\t200000:2.5,15,0.25,\n";
    let rate = Rate::from_amount;
    let tier = PriceTier {
        above_tokens: 200_000,
        input: rate(2.5),
        output: rate(15.0),
        cached_input: Some(rate(0.25)),
        cache_write: None,
    };
    let price = ModelPrice {
        cached_input: Some(rate(0.125)),
        tiers: Arc::new([tier]),
        ..ModelPrice::usd(rate(1.25), rate(10.0))
    };
    for text in [dev, lite, table] {
        let entries = read(text).unwrap();
        for name in ["gemini:one", "gemini:two"] {
            assert_eq!(entry(&entries, name).price.as_ref(), Some(&price), "{name} in {text}");
        }
    }
    // What a tier does not say is as for all prompts.
    let partly = r#"{"a": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 1e-06,
        "output_cost_per_token": 4e-06, "input_cost_per_token_above_128k_tokens": 2e-06}}"#;
    let tiers = read(partly).unwrap()[0].price.clone().unwrap().tiers;
    assert_eq!((tiers[0].above_tokens, tiers[0].input, tiers[0].output), (128_000, rate(2.0), rate(4.0)));
    let broken = "# bob-models 1\ngemini:one\t\t\t1.25\t10\t\t\t\t200000:2.5\n";
    assert!(read(broken).is_err());
}

#[test]
fn what_is_no_catalogue_is_refused() {
    let texts = ["", "{", "[]", "{}", r#"{"a": 1}"#, r#"{"a": {"models": {}}}"#, "# bob-models 1\nno model", "<html>"];
    for text in texts {
        let error = read(text).unwrap_err().to_string();
        assert!(!error.is_empty(), "{text}");
    }
    assert_eq!(read("<html>").unwrap_err(), unknown());
}

#[test]
fn hostile_values_are_left_out() {
    let text = r#"{"x": {"models": {
        "fine": {"cost": {"input": -1, "output": 1}, "limit": {"context": 1e300, "output": -5}},
        "a b": {}, "": {}, "list": [], "tab\t": {}}},
      "select": {"models": {"all": {}}}, "b:c": {"models": {"d": {}}}, "n": {"models": 3}}"#;
    let entries = read(text).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].price.as_ref(), entries[0].context_tokens), (None, Some(u32::MAX)));
}

#[test]
fn the_built_in_catalogue_is_small_says_where_it_is_from_and_holds_what_can_be_run() {
    assert!(BUILT_IN.len() < 300_000, "{}", BUILT_IN.len());
    let about: Vec<_> = about_built_in().map(|(key, _)| key).collect();
    assert_eq!(about, ["source", "date", "licence"]);
    assert!(BUILT_IN.contains("# licence: MIT"));
    let entries = built_in();
    assert!(entries.len() > 100, "{}", entries.len());
    for entry in entries.iter() {
        let known = KNOWN.iter().any(|known| known.name == entry.name.provider());
        assert!(known && entry.price.is_some(), "{}", entry.name);
    }
    let mini = entry(&entries, "openai:gpt-4o-mini");
    assert!(mini.abilities.contains(&ToolUse) && mini.context_tokens == Some(128_000), "{mini:?}");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_much_to_read(text in "[\\{\\}\\[\\]\":,a-z0-9\\t\\n# ]{0,200}") {
        let _read_or_refused = read(&text);
    }
}
