//! Tools that only answer.

use serde_json::{Map, Value, json};

use super::{Call, Outcome};
use crate::server::protocol;

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The longest text in bytes: more than any client should accept, too little to harm the machine.
const MOST_BYTES: u64 = 1 << 30;
/// Blocks at most.
const MOST_BLOCKS: u64 = 1_000_000;

pub(super) fn echo(call: &Call<'_>) -> Result<Outcome, Outcome> {
    Ok(Outcome::text(call.text("text")?))
}

pub(super) fn add(call: &Call<'_>) -> Result<Outcome, Outcome> {
    let (a, b) = (call.argument("a"), call.argument("b"));
    let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b)).map(|sum| sum.to_string());
    let sum = whole.or_else(|| Some((a.as_f64()? + b.as_f64()?).to_string()));
    let sum = sum.ok_or_else(|| Outcome::Failed("`a` and `b` must be numbers".to_owned()))?;
    Ok(Outcome::text(&sum))
}

pub(super) fn big(call: &Call<'_>) -> Result<Outcome, Outcome> {
    let bytes = usize::try_from(call.number("bytes")?.min(MOST_BYTES)).unwrap_or(0);
    // Numbered lines, so that a cut can be recognised.
    let mut text = String::with_capacity(bytes + 16);
    let mut number = 0_u64;
    while text.len() < bytes {
        number += 1;
        text.push_str(&format!("line {number}\n"));
    }
    text.truncate(bytes);
    Ok(Outcome::text(&text))
}

pub(super) fn blocks(call: &Call<'_>) -> Result<Outcome, Outcome> {
    let count = call.number("n")?.min(MOST_BLOCKS);
    let blocks: Vec<Value> =
        (1..=count).map(|number| json!({ "type": "text", "text": format!("block {number}") })).collect();
    Ok(Outcome::Result(json!({ "content": blocks })))
}

pub(super) fn image(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    Ok(Outcome::Result(json!({ "content": [{ "type": "image", "data": PIXEL, "mimeType": "image/png" }] })))
}

pub(super) fn structured(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    let weather = json!({ "place": "Oslo", "degrees": -3.5, "signs": ["snow", "wind"] });
    let mut result = protocol::text(&weather.to_string());
    result["structuredContent"] = weather;
    Ok(Outcome::Result(result))
}

pub(super) fn structured_schema() -> Value {
    json!({
        "type": "object", "required": ["place", "degrees"],
        "properties": {
            "place": { "type": "string" }, "degrees": { "type": "number" },
            "signs": { "type": "array", "items": { "type": "string" } },
        },
    })
}

pub(super) fn resource(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    Ok(Outcome::Result(json!({ "content": [
        { "type": "resource", "resource": { "uri": "drill://note", "mimeType": "text/plain", "text": "a note" } },
        { "type": "resource_link", "uri": "drill://report", "name": "report", "mimeType": "text/plain" },
    ] })))
}

pub(super) fn fail(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    Err(Outcome::Failed("it failed, as it was asked to".to_owned()))
}

pub(super) fn env(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    let lossy = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let all: Map<String, Value> =
        std::env::vars_os().map(|(name, value)| (lossy(&name), Value::String(lossy(&value)))).collect();
    Ok(Outcome::text(&Value::Object(all).to_string()))
}

pub(super) fn pid(_call: &Call<'_>) -> Result<Outcome, Outcome> {
    Ok(Outcome::text(&std::process::id().to_string()))
}

pub(super) fn meta(call: &Call<'_>) -> Result<Outcome, Outcome> {
    Ok(Outcome::text(&call.meta().to_string()))
}
