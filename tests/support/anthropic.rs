//! The Anthropic messages format: the plain body, the events of a stream, and error bodies.

use serde_json::{Value, json};

use super::plan::{Asked, Finish, Said, deltas};

/// The signature of every thinking block; a client must send it back unchanged.
pub(crate) const SIGNATURE: &str = "ZmFrZS1zaWduYXR1cmU=";

/// The body of an answer that is not streamed.
pub(crate) fn body(said: &Said, asked: &Asked) -> String {
    let content: Vec<Value> = blocks(said).iter().map(Block::whole).collect();
    let mut message = message(asked);
    message["content"] = json!(content);
    message["stop_reason"] = json!(stop_reason(said));
    message["usage"] = usage(asked, asked.usage.1);
    message.to_string()
}

/// The events of a streamed answer, `message_stop` included, one piece each.
pub(crate) fn events(said: &Said, asked: &Asked) -> Vec<Vec<u8>> {
    let mut start = message(asked);
    start["usage"] = usage(asked, 1);
    let mut events = vec![event("message_start", json!({"message": start}))];
    for (index, block) in blocks(said).iter().enumerate() {
        events.push(event("content_block_start", json!({"index": index, "content_block": block.empty()})));
        if index == 0 {
            events.push(event("ping", json!({})));
        }
        for delta in block.deltas() {
            events.push(event("content_block_delta", json!({"index": index, "delta": delta})));
        }
        events.push(event("content_block_stop", json!({"index": index})));
    }
    let delta = json!({"stop_reason": stop_reason(said), "stop_sequence": null});
    events.push(event("message_delta", json!({"delta": delta, "usage": {"output_tokens": asked.usage.1}})));
    events.push(event("message_stop", json!({})));
    events
}

/// A stream that opens with status 200 and then reports an error.
pub(crate) fn error_events() -> Vec<Vec<u8>> {
    vec![event("error", json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}))]
}

pub(crate) fn error_body(code: u16, message: &str) -> String {
    let kind = match code {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}).to_string()
}

/// One content block of a message.
enum Block<'a> {
    Thinking(&'a str),
    Text(&'a str),
    ToolUse { id: &'a str, name: &'a str, arguments: &'a str },
}

impl Block<'_> {
    fn whole(&self) -> Value {
        match *self {
            Self::Thinking(thought) => json!({"type": "thinking", "thinking": thought, "signature": SIGNATURE}),
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::ToolUse { id, name, arguments } => {
                // A plain answer cannot carry broken JSON here; arguments that do not parse arrive as a string.
                let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }

    fn empty(&self) -> Value {
        match *self {
            Self::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::ToolUse { id, name, .. } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
        }
    }

    fn deltas(&self) -> Vec<Value> {
        match *self {
            Self::Thinking(thought) => {
                let pieces =
                    deltas(thought).into_iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
                pieces.chain([json!({"type": "signature_delta", "signature": SIGNATURE})]).collect()
            }
            Self::Text(text) => {
                deltas(text).into_iter().map(|text| json!({"type": "text_delta", "text": text})).collect()
            }
            // The first piece of the arguments is always empty, and it is the only one when there are none.
            Self::ToolUse { arguments, .. } => [String::new()]
                .into_iter()
                .chain(deltas(arguments))
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        }
    }
}

fn blocks(said: &Said) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    if !said.thought.is_empty() {
        blocks.push(Block::Thinking(&said.thought));
    }
    blocks
        .extend([&said.text, &said.refusal].into_iter().filter(|text| !text.is_empty()).map(|text| Block::Text(text)));
    blocks.extend(said.calls.iter().map(|(id, name, arguments)| Block::ToolUse { id, name, arguments }));
    blocks
}

/// An event carries its name twice: in the `event` line and as `type` in the data.
fn event(name: &str, mut data: Value) -> Vec<u8> {
    data["type"] = json!(name);
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

fn message(asked: &Asked) -> Value {
    json!({
        "id": format!("msg_fake_{}", asked.number),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn usage(asked: &Asked, output: u64) -> Value {
    json!({
        "input_tokens": asked.usage.0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
    })
}

fn stop_reason(said: &Said) -> &'static str {
    match said.finish {
        Finish::Natural if !said.calls.is_empty() => "tool_use",
        Finish::Natural => "end_turn",
        Finish::MaxTokens => "max_tokens",
        Finish::Refusal | Finish::ContentFilter => "refusal",
    }
}
