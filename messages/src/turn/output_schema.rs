//! The schema of a final answer in the prompt: in words, or as a part of the envelope's.

use serde_json::{Map, Value};

/// The instruction for a model without an envelope.
pub(super) fn in_words(schema: &Value) -> String {
    format!(
        "Your final answer must be one JSON value that fits the JSON schema below, with no other text around it.\n{schema}"
    )
}

/// The instruction for a model with an envelope, beside the contract.
pub(super) fn in_words_of_content(schema: &Value) -> String {
    format!("The `content` of a final answer is JSON that fits this JSON schema:\n{schema}")
}

/// A schema as a part of another one: the part, and the definitions it refers to, which belong to the top. `None` for
/// one that refers to anything else, since that would mean something else there.
pub(super) fn as_a_part(schema: &Value) -> Option<(Value, Map<String, Value>)> {
    let mut part = schema.as_object()?.clone();
    part.shift_remove("$schema");
    let mut definitions = Map::new();
    for key in ["$defs", "definitions"] {
        definitions.extend(part.shift_remove_entry(key));
    }
    let part = Value::Object(part);
    let is_told = refers_to_definitions(&part) && definitions.values().all(refers_to_definitions);
    is_told.then_some((part, definitions))
}

fn refers_to_definitions(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, said)| match (key.as_str(), said) {
            ("$ref", Value::String(target)) => target.starts_with("#/$defs/") || target.starts_with("#/definitions/"),
            ("$id" | "$anchor" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => false,
            _ => refers_to_definitions(said),
        }),
        Value::Array(items) => items.iter().all(refers_to_definitions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
