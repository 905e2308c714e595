//! The Gemini `generateContent` format: the plain body, the events of a stream, and error bodies.

use serde_json::{Value, json};

use super::plan::{Asked, Finish, Said, deltas};

/// The signature of every call that comes after a thought; a client must send it back unchanged.
pub(crate) const THOUGHT_SIGNATURE: &str = "ZmFrZS10aG91Z2h0";

/// The body of an answer that is not streamed.
pub(crate) fn body(said: &Said, asked: &Asked) -> String {
    chunk(parts(said), Some(finish_reason(said)), said, asked).to_string()
}

/// The events of a streamed answer, one piece each. There is no end marker: the last one holds the finish reason.
pub(crate) fn events(said: &Said, asked: &Asked) -> Vec<Vec<u8>> {
    let mut parts: Vec<Value> = parts(said);
    let last = parts.pop().into_iter().collect();
    let earlier = parts.into_iter().map(|part| chunk(vec![part], None, said, asked));
    earlier.chain([chunk(last, Some(finish_reason(said)), said, asked)]).map(|chunk| event(&chunk)).collect()
}

/// A stream that opens with status 200 and then reports an error.
pub(crate) fn error_events() -> Vec<Vec<u8>> {
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    vec![event(&error)]
}

pub(crate) fn error_body(code: u16, message: &str) -> String {
    let status = match code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": code, "message": message, "status": status}}).to_string()
}

/// The model and whether a stream is wanted, out of a path like `/v1/models/m-1:streamGenerateContent`.
pub(crate) fn asked_for(route: &str) -> Option<(&str, bool)> {
    let (model, method) = route.rsplit('/').next()?.split_once(':')?;
    match method {
        "streamGenerateContent" => Some((model, true)),
        "generateContent" => Some((model, false)),
        _ => None,
    }
}

fn parts(said: &Said) -> Vec<Value> {
    let mut parts: Vec<Value> =
        deltas(&said.thought).into_iter().map(|text| json!({"text": text, "thought": true})).collect();
    parts.extend(
        [&said.text, &said.refusal].into_iter().flat_map(|text| deltas(text)).map(|text| json!({"text": text})),
    );
    parts.extend(said.calls.iter().enumerate().map(|(index, (_, name, arguments))| {
        // Arguments are an object here; those that do not parse cannot be carried.
        let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let mut part = json!({"functionCall": {"name": name, "args": args}});
        if index == 0 && !said.thought.is_empty() {
            part["thoughtSignature"] = json!(THOUGHT_SIGNATURE);
        }
        part
    }));
    parts
}

fn chunk(parts: Vec<Value>, finish: Option<&str>, said: &Said, asked: &Asked) -> Value {
    let mut candidate = json!({"content": {"role": "model"}, "index": 0});
    if !parts.is_empty() {
        candidate["content"]["parts"] = json!(parts);
    }
    if let Some(reason) = finish {
        candidate["finishReason"] = json!(reason);
    }
    let (input, output) = asked.usage;
    let candidates = if said.nothing { json!([]) } else { json!([candidate]) };
    json!({
        "candidates": candidates,
        "usageMetadata": {
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        },
        "modelVersion": asked.model,
        "responseId": format!("fake-{}", asked.number),
    })
}

fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\r\n\r\n").into_bytes()
}

fn finish_reason(said: &Said) -> &'static str {
    match said.finish {
        Finish::Natural => "STOP",
        Finish::MaxTokens => "MAX_TOKENS",
        Finish::Refusal | Finish::ContentFilter => "SAFETY",
    }
}
