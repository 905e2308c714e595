//! The OpenAI chat completions format: the plain body, the chunks of a stream, and error bodies.

use serde_json::{Value, json};

use super::plan::{Asked, Finish, Said, deltas};

/// Seconds since 1970 of every answer; fixed so that answers can be compared.
const CREATED: u64 = 1_760_000_000;

/// Providers answer with a dated snapshot of the requested model; clients must not compare the names.
pub(crate) fn answering_model(asked: &str) -> String {
    format!("{asked}-2024-07-18")
}

/// The body of an answer that is not streamed.
pub(crate) fn body(said: &Said, asked: &Asked) -> String {
    let mut message = json!({
        "role": "assistant",
        "content": or_null(&said.text),
        "refusal": or_null(&said.refusal),
        "annotations": [],
    });
    if !said.thought.is_empty() {
        message["reasoning_content"] = json!(said.thought);
    }
    if !said.calls.is_empty() {
        let calls = said.calls.iter().map(|(id, name, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(said)});
    let mut answer = envelope("chat.completion", asked);
    answer["choices"] = if said.nothing { json!([]) } else { json!([choice]) };
    answer["usage"] = usage(asked);
    answer.to_string()
}

/// The events of a streamed answer, `[DONE]` included, one piece each.
pub(crate) fn events(said: &Said, asked: &Asked) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let mut send = |choices: Value| {
        let mut chunk = envelope("chat.completion.chunk", asked);
        chunk["choices"] = choices;
        if asked.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunks.push(chunk);
    };
    let choice =
        |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);

    if said.nothing {
        send(json!([]));
    } else {
        let content = if said.text.is_empty() { Value::Null } else { json!("") };
        send(choice(json!({"role": "assistant", "content": content, "refusal": null}), Value::Null));
        for (field, text) in [("reasoning_content", &said.thought), ("content", &said.text), ("refusal", &said.refusal)]
        {
            for piece in deltas(text) {
                send(choice(json!({field: piece}), Value::Null));
            }
        }
        for (index, (id, name, arguments)) in said.calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": ""});
            let opening = json!({"index": index, "id": id, "type": "function", "function": function});
            send(choice(json!({"tool_calls": [opening]}), Value::Null));
            for piece in deltas(arguments) {
                let more = json!({"index": index, "function": {"arguments": piece}});
                send(choice(json!({"tool_calls": [more]}), Value::Null));
            }
        }
        send(choice(json!({}), json!(finish_reason(said))));
    }
    if asked.include_usage {
        let mut last = envelope("chat.completion.chunk", asked);
        last["choices"] = json!([]);
        last["usage"] = usage(asked);
        chunks.push(last);
    }
    chunks.iter().map(|chunk| event(&chunk.to_string())).chain([event("[DONE]")]).collect()
}

/// A stream that opens with status 200 and then reports an error.
pub(crate) fn error_events() -> Vec<Vec<u8>> {
    vec![event(&error_body(500, "the fake provider was told to fail")), event("[DONE]")]
}

pub(crate) fn error_body(code: u16, message: &str) -> String {
    let (kind, name) = match code {
        400 => ("invalid_request_error", Value::Null),
        401 => ("invalid_request_error", json!("invalid_api_key")),
        404 => ("invalid_request_error", json!("model_not_found")),
        429 => ("requests", json!("rate_limit_exceeded")),
        _ => ("server_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": name}}).to_string()
}

fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn envelope(object: &str, asked: &Asked) -> Value {
    json!({
        "id": format!("chatcmpl-fake-{}", asked.number),
        "object": object,
        "created": CREATED,
        "model": answering_model(&asked.model),
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    })
}

fn usage(asked: &Asked) -> Value {
    let (input, output) = asked.usage;
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn finish_reason(said: &Said) -> &'static str {
    match said.finish {
        Finish::Natural if !said.calls.is_empty() => "tool_calls",
        Finish::Natural | Finish::Refusal => "stop",
        Finish::MaxTokens => "length",
        Finish::ContentFilter => "content_filter",
    }
}

fn or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}
