//! Requests that real providers reject with status 400, as far as a client could send them.
//!
//! A fake that accepts everything would hide an invalid history, so these rules are checked before the script is
//! used.

use std::collections::BTreeSet;

use serde_json::Value;

use super::plan::Wire;

/// Why a real provider would refuse this request, if it would.
pub(crate) fn broken(wire: Wire, headers: &[(String, String)], body: &Value) -> Option<String> {
    if wire == Wire::Gemini {
        return gemini_pairing(body);
    }
    if !body["model"].is_string() {
        return Some("you must provide a model parameter".into());
    }
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        return Some("messages: at least one message is required".into());
    };
    match wire {
        Wire::OpenAi => openai_pairing(messages),
        Wire::Anthropic if !headers.iter().any(|(name, _)| name == "anthropic-version") => {
            Some("anthropic-version: header is required".into())
        }
        Wire::Anthropic if !body["max_tokens"].is_u64() => Some("max_tokens: Field required".into()),
        Wire::Anthropic => anthropic_pairing(messages),
        Wire::Gemini => None,
    }
}

/// Roles alternate, and every content with calls is followed by one with as many responses of equal names.
fn gemini_pairing(body: &Value) -> Option<String> {
    let contents = body["contents"].as_array().filter(|contents| !contents.is_empty());
    let Some(contents) = contents else {
        return Some("* GenerateContentRequest.contents: contents is not specified".into());
    };
    let names = |content: &Value, part: &str| -> Vec<String> {
        let parts = content["parts"].as_array().into_iter().flatten();
        parts.filter_map(|one| one[part]["name"].as_str()).map(str::to_owned).collect()
    };
    let mut open = Vec::new();
    for content in contents {
        if !matches!(content["role"].as_str(), Some("user" | "model" | "function")) {
            return Some("Please use a valid role: user, model.".into());
        }
        if names(content, "functionResponse") != open {
            return Some("the number of function response parts is not that of the function call parts".into());
        }
        open = names(content, "functionCall");
    }
    (!open.is_empty()).then(|| "function calls without a response".to_owned())
}

/// Every tool call is answered by exactly one `tool` message before any other message.
fn openai_pairing(messages: &[Value]) -> Option<String> {
    let mut open = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!("messages[{index}]: tool message answers no open tool call (`{id}`)"));
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("messages[{index}]: tool calls {open:?} have no tool message"));
        }
        open.extend(message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str()));
    }
    (!open.is_empty()).then(|| format!("tool calls {open:?} have no tool message"))
}

/// Every `tool_use` block is answered by a `tool_result` block in the very next message, which the user sends.
fn anthropic_pairing(messages: &[Value]) -> Option<String> {
    let mut open = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
            return Some(format!("messages.{index}: role must be user or assistant"));
        }
        let mut asked = BTreeSet::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => asked.extend(block["id"].as_str()),
                Some("tool_result") => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    if !open.remove(id) {
                        return Some(format!("messages.{index}: unexpected tool_use_id `{id}` in a tool_result block"));
                    }
                }
                _ => {}
            }
        }
        if !open.is_empty() {
            return Some(format!("messages.{index}: tool_use ids {open:?} have no tool_result block"));
        }
        open = asked;
    }
    (!open.is_empty()).then(|| format!("tool_use ids {open:?} have no tool_result block"))
}
