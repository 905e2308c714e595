//! The compared part of a request.
//!
//! Ids, times, traces, callers and fallback models are excluded. The rest is made canonical and hashed; a request
//! matches an entry of the tape if the hashes are equal.

use super::redact::Redactor;
use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, ToolName};
use bob_messages::llm::{LlmRequest, ToolMode};
use bob_messages::tools::ToolDescriptor;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The hash of the compared part.
pub(super) type Key = blake3::Hash;

/// The compared part of a model request, in order of comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matter {
    pub(super) model: Value,
    pub(super) mode: Value,
    pub(super) system: Value,
    pub(super) tools: Value,
    pub(super) messages: Vec<Value>,
}

impl Matter {
    pub(super) fn of(request: &LlmRequest, model: &ModelName, redactor: &Redactor) -> Self {
        Self {
            model: clean(model, redactor),
            mode: mode(request.mode),
            system: clean(&*request.system, redactor),
            tools: tools(request.tools.tools(), redactor),
            messages: request.messages.iter().map(|one| message(one, redactor)).collect(),
        }
    }

    pub(super) fn key(&self) -> Key {
        let Self { model, mode, system, tools, messages } = self;
        hash(&json!([model, mode, system, tools, messages]))
    }

    /// The parts with their names, in the order in which they are compared.
    pub(super) fn parts(&self) -> [(&'static str, Value); 5] {
        let Self { model, mode, system, tools, messages } = self.clone();
        [("model", model), ("mode", mode), ("system", system), ("tools", tools), ("messages", Value::Array(messages))]
    }
}

pub(super) fn mode(mode: ToolMode) -> Value {
    serde_json::to_value(mode).unwrap_or_default()
}

/// A message without the ids of its calls and the time they took.
pub(super) fn message(message: &Message, redactor: &Redactor) -> Value {
    let mut value = clean(message, redactor);
    if let Some(calls) = value.get_mut("calls").and_then(Value::as_array_mut) {
        for call in calls {
            forget(call, &["id", "argument_bytes"]);
        }
    }
    if let Some(result) = value.get_mut("result") {
        forget(result, &["call", "duration_ms"]);
        forget_running_time(result);
    }
    value
}

/// The result of an interrupted call contains its run time, which is excluded like other times.
fn forget_running_time(result: &mut Value) {
    let is_interrupted = result.get("status").is_some_and(|status| status == "unknown" || status == "cancelled");
    let parts = result.pointer_mut("/output/parts").and_then(Value::as_array_mut).filter(|_| is_interrupted);
    for text in parts.into_iter().flatten().filter_map(|part| part.get_mut("text")) {
        let Some((before, rest)) = text.as_str().and_then(|text| text.split_once(", after ")) else { continue };
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if let Some(behind) = behind.strip_prefix(" s").filter(|_| behind.len() < rest.len()) {
            *text = Value::String(format!("{before}{behind}"));
        }
    }
}

/// Tools as a model sees them: in their order, by name, description and schema.
pub(super) fn tools(tools: &[Arc<ToolDescriptor>], redactor: &Redactor) -> Value {
    let seen = tools.iter().map(|tool| {
        let ToolDescriptor { id, description, schema, .. } = &**tool;
        clean(&json!({ "name": id, "description": description, "schema": schema }), redactor)
    });
    Value::Array(seen.collect())
}

pub(super) fn call(tool: &ToolName, arguments: &Value, redactor: &Redactor) -> Value {
    json!([clean(tool, redactor), clean(arguments, redactor)])
}

pub(super) fn clean(thing: &(impl Serialize + ?Sized), redactor: &Redactor) -> Value {
    let mut value = serde_json::to_value(thing).unwrap_or_default();
    redactor.value(&mut value);
    value
}

pub(super) fn hash(value: &Value) -> Key {
    // JSON has a canonical form except for numbers out of range, which are compared as written.
    let canonical = serde_jcs::to_vec(value).unwrap_or_else(|_beyond| value.to_string().into_bytes());
    blake3::hash(&canonical)
}

fn forget(value: &mut Value, names: &[&str]) {
    if let Some(fields) = value.as_object_mut() {
        names.iter().for_each(|name| drop(fields.shift_remove(*name)));
    }
}
