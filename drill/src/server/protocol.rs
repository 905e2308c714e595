//! Parsing of incoming lines, and formatting of responses, notifications and requests.
//!
//! Results are passed around as JSON text, because some drills need results that no JSON library would build.

use serde_json::{Value, json};

/// The revision this server speaks.
pub(super) const LATEST: &str = "2025-11-25";

/// The revisions it agrees to.
pub(super) const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", LATEST];

/// No such method.
pub(super) const METHOD_NOT_FOUND: i64 = -32_601;
/// The parameters are wrong.
pub(super) const INVALID_PARAMS: i64 = -32_602;
/// That line was no JSON.
pub(super) const PARSE_ERROR: i64 = -32_700;

#[derive(Clone, Debug)]
pub(super) struct Request {
    /// As the client wrote it: a number or a text.
    pub(super) id: Value,
    pub(super) method: String,
    /// The parameters; `null` if absent.
    pub(super) params: Value,
}

pub(super) enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification { method: String, params: Value },
    /// Answers a question of this server.
    Answer {
        id: Value,
        /// The whole object, with `result` or `error`.
        answer: Value,
    },
    /// Nothing of the above.
    Junk,
    /// A line without anything.
    Blank,
}

pub(super) fn read(line: &[u8]) -> Incoming {
    if line.trim_ascii().is_empty() {
        return Incoming::Blank;
    }
    let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(line) else { return Incoming::Junk };
    let id = object.get("id").cloned();
    let method = object.get("method").and_then(Value::as_str).map(str::to_owned);
    let params = object.remove("params").unwrap_or(Value::Null);
    match (id, method) {
        (Some(id), Some(method)) => Incoming::Request(Request { id, method, params }),
        (None, Some(method)) => Incoming::Notification { method, params },
        (Some(id), None) => Incoming::Answer { id, answer: Value::Object(object) },
        (None, None) => Incoming::Junk,
    }
}

/// An answer; `result` is JSON text.
pub(super) fn result(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

pub(super) fn request(id: &str, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Result of `initialize` for this revision.
pub(super) fn initialized(revision: &str) -> String {
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "drill", "version": env!("CARGO_PKG_VERSION") },
    })
    .to_string()
}

pub(super) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub(super) fn failure(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}
