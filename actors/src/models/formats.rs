//! The formats a catalogue is read from, recognised by what is in them: models.dev's `api.json`, LiteLLM's map of prices,
//! and the table that is built in.

mod litellm;
mod models_dev;
mod table;

#[cfg(test)]
mod formats_tests;

use bob_messages::cause::Cause;
use bob_messages::ids::ModelName;
use bob_messages::models::{ModelEntry, ModelPrice, PriceTier, Rate};
use serde_json::{Map, Value};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a catalogue that are read.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The most models of a catalogue.
const MAX_MODELS: usize = 50_000;

/// The catalogue that is built in.
const BUILT_IN: &str = include_str!("snapshot.tsv");

/// Why a text is no catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    why: String,
    /// The error of the JSON.
    cause: Cause,
}

impl FormatError {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), cause: Cause::default() }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for FormatError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.error()
    }
}

/// The models of a catalogue, by name. Entries that cannot be used, such as models that only make pictures, are left out.
///
/// # Errors
/// When the text is in none of the formats, or has no model.
pub fn read(text: &str) -> Result<Arc<[Arc<ModelEntry>]>, FormatError> {
    if text.len() > MAX_BYTES {
        return Err(FormatError::new(format!("it has {} bytes; at most {MAX_BYTES} are taken", text.len())));
    }
    let mut entries = match text.trim_start().starts_with('{') {
        true => of_json(text)?,
        false => table::read(text)?,
    };
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries.dedup_by(|one, other| one.name == other.name);
    match entries.len() {
        0 => Err(FormatError::new("it has no model")),
        many if many > MAX_MODELS => {
            Err(FormatError::new(format!("it has {many} models; at most {MAX_MODELS} are taken")))
        }
        _ => Ok(entries.into_iter().map(Arc::new).collect()),
    }
}

/// The catalogue that is built in.
pub fn built_in() -> Arc<[Arc<ModelEntry>]> {
    read(BUILT_IN).unwrap_or_default()
}

/// The head of the catalogue that is built in: its source, version, date and licence.
pub fn about_built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
    let comments = BUILT_IN.lines().map_while(|line| line.strip_prefix("# "));
    comments.filter_map(|comment| comment.split_once(": "))
}

fn of_json(text: &str) -> Result<Vec<ModelEntry>, FormatError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| FormatError { why: format!("it is no JSON: {error}"), cause: Cause::of(error) })?;
    let Value::Object(all) = value else { return Err(unknown()) };
    let tables = || all.values().filter_map(Value::as_object);
    if tables().any(|provider| provider.get("models").is_some_and(Value::is_object)) {
        return Ok(models_dev::entries(&all).collect());
    }
    if tables().any(|model| model.contains_key("litellm_provider")) {
        return Ok(litellm::entries(&all).collect());
    }
    Err(unknown())
}

fn unknown() -> FormatError {
    FormatError::new("it is neither models.dev's api.json nor LiteLLM's map of prices")
}

/// What is called a provider elsewhere, and the name of ours.
fn provider(name: &str) -> &str {
    match name {
        "google" => "gemini",
        "together_ai" | "togetherai" => "together",
        "fireworks_ai" | "fireworks-ai" => "fireworks",
        "moonshotai" => "moonshot",
        other => other,
    }
}

/// A name without white space, of a provider that can be configured.
fn named(of: &str, model: &str) -> Option<ModelName> {
    let is_fine =
        !model.is_empty() && model.len() <= 200 && !model.contains(|c: char| c.is_whitespace() || c.is_control());
    let name = ModelName::parse(&format!("{}:{model}", provider(of))).ok()?;
    let is_id = of.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    Some(name).filter(|name| is_fine && is_id && !name.is_selector())
}

/// The rate of this key, which is one for so many tokens.
fn rate(table: &Map<String, Value>, key: &str, a_million: f64) -> Option<Rate> {
    let amount = table.get(key)?.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
    Some(Rate::from_amount(amount * a_million))
}

/// A price of both rates, of which each is one for so many tokens.
fn price(table: &Map<String, Value>, keys: [&str; 4], a_million: f64) -> Option<ModelPrice> {
    let rate = |key: &str| rate(table, key, a_million);
    let [input, output, cached, written] = keys;
    let price = ModelPrice::usd(rate(input)?, rate(output)?);
    Some(ModelPrice { cached_input: rate(cached), cache_write: rate(written), ..price })
}

/// A price of prompts above so many tokens. A rate of input or output that is missing is that of all prompts; one of a cache that
/// is missing stays so.
fn tier(
    above_tokens: u64,
    table: &Map<String, Value>,
    keys: [&str; 4],
    base: &ModelPrice,
    a_million: f64,
) -> PriceTier {
    let rate = |key: &str| rate(table, key, a_million);
    let [input, output, cached, written] = keys;
    PriceTier {
        above_tokens,
        input: rate(input).unwrap_or(base.input),
        output: rate(output).unwrap_or(base.output),
        cached_input: rate(cached),
        cache_write: rate(written),
    }
}

/// A size as the names of prices have it: `200k`.
fn size(text: &str) -> Option<u64> {
    let thousands = text.strip_suffix('k');
    thousands.unwrap_or(text).parse::<u64>().ok()?.checked_mul(if thousands.is_some() { 1_000 } else { 1 })
}

fn tokens(value: Option<&Value>) -> Option<u32> {
    let tokens = value?.as_f64().filter(|tokens| *tokens >= 1.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    Some(tokens.min(f64::from(u32::MAX)) as u32)
}
