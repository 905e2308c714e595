//! Frames of the OpenAI chat completions format, as its many servers send them.

use super::calls::Piece;
use super::index::Index;
use super::{Fault, Wire, json, words};
use serde_json::Value;
use std::borrow::Cow;

pub(super) fn read(wire: &mut Wire, data: &str) -> Result<(), Fault> {
    match data {
        "" => return Ok(()),
        "[DONE]" => {
            wire.has_ended = true;
            return wire.said.calls.settle();
        }
        _frame => {}
    }
    let mut frame = json(data)?;
    if let Some(error) = frame.get_mut("error").map(Value::take).filter(|error| !error.is_null()) {
        return Err(Fault::Reported(error));
    }
    wire.headlines(&frame, "/id", "/model");
    let Some(choice) = wire.chosen(frame.get_mut("choices")) else { return Ok(()) };
    wire.stop(choice.get("finish_reason"));
    match choice.get("delta") {
        Some(delta) => read_delta(wire, delta),
        None => Ok(()),
    }
}

fn read_delta(wire: &mut Wire, delta: &Value) -> Result<(), Fault> {
    let thought = ["reasoning_content", "reasoning"].map(|field| words(delta.get(field)));
    let thought = thought.into_iter().find(|thought| !thought.is_empty()).unwrap_or_default();
    match delta.get("content") {
        // Mistral's models that think send a list of parts.
        Some(Value::Array(parts)) => {
            let before = wire.said.reasoning.len();
            parts.iter().try_for_each(|part| read_part(wire, part))?;
            if wire.said.reasoning.len() == before {
                wire.reasoning(thought)?;
            }
        }
        content => {
            wire.reasoning(thought)?;
            wire.text(words(content))?;
        }
    }
    let refusal = words(delta.get("refusal"));
    wire.said.refusal.push_str(refusal);
    wire.load.add(refusal.len())?;
    match delta.get("tool_calls") {
        Some(Value::Array(pieces)) => pieces.iter().try_for_each(|piece| read_call(wire, piece)),
        Some(piece) => read_call(wire, piece),
        None => Ok(()),
    }
}

fn read_part(wire: &mut Wire, part: &Value) -> Result<(), Fault> {
    match words(part.get("type")) {
        "text" => wire.text(words(part.get("text"))),
        "thinking" => match part.get("thinking") {
            Some(Value::Array(inner)) => inner.iter().try_for_each(|part| wire.reasoning(words(part.get("text")))),
            thought => wire.reasoning(words(thought)),
        },
        _no_words => Ok(()),
    }
}

fn read_call(wire: &mut Wire, piece: &Value) -> Result<(), Fault> {
    if !piece.is_object() {
        return Ok(());
    }
    let arguments = match piece.pointer("/function/arguments") {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
        Some(value) => Cow::Owned(value.to_string()),
    };
    let (id, name) = (words(piece.get("id")), words(piece.pointer("/function/name")));
    wire.load.add(id.len() + name.len() + arguments.len())?;
    let index = Index::read(piece.get("index"));
    wire.said.calls.take_in(Piece { index, id, name, arguments: &arguments })
}
