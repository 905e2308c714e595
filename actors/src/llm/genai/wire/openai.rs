//! Frames of the OpenAI chat completions format, as its many servers send them.

use super::calls::Piece;
use super::index::Index;
use super::json::Json;
use super::{Fault, Wire, json, usage, words};
use crate::llm::providers::ProviderKind;
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
    let frame = json(data)?;
    if let Some(error) = frame.get("error").filter(|error| !error.is_null()) {
        return Err(Fault::Reported(error.to_value()));
    }
    wire.headlines(frame.get("id"), frame.get("model"));
    // Groq puts it under a name of its own.
    let reasons_beside = wire.kind == ProviderKind::Xai;
    let said = [frame.get("usage"), frame.at(&["x_groq", "usage"])].into_iter().flatten();
    wire.usage = said.filter_map(|said| usage::openai(said, reasons_beside)).next_back().or(wire.usage);
    let Some(choice) = wire.chosen(frame.get("choices")) else { return Ok(()) };
    wire.stop(choice.get("finish_reason"));
    match choice.get("delta") {
        Some(delta) => read_delta(wire, delta),
        None => Ok(()),
    }
}

fn read_delta(wire: &mut Wire, delta: &Json<'_>) -> Result<(), Fault> {
    let thought = ["reasoning_content", "reasoning"].map(|field| words(delta.get(field)));
    let thought = thought.into_iter().find(|thought| !thought.is_empty()).unwrap_or_default();
    match delta.get("content") {
        // Mistral's models that think send a list of parts.
        Some(Json::List(parts)) => {
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
    wire.said.calls.next_frame();
    match delta.get("tool_calls") {
        Some(Json::List(pieces)) => pieces.iter().try_for_each(|piece| read_call(wire, piece)),
        Some(piece) => read_call(wire, piece),
        None => Ok(()),
    }
}

fn read_part(wire: &mut Wire, part: &Json<'_>) -> Result<(), Fault> {
    match words(part.get("type")) {
        "text" => wire.text(words(part.get("text"))),
        "thinking" => match part.get("thinking") {
            Some(Json::List(inner)) => inner.iter().try_for_each(|part| wire.reasoning(words(part.get("text")))),
            thought => wire.reasoning(words(thought)),
        },
        _no_words => Ok(()),
    }
}

fn read_call(wire: &mut Wire, piece: &Json<'_>) -> Result<(), Fault> {
    if !piece.is_object() {
        return Ok(());
    }
    let arguments = match piece.at(&["function", "arguments"]) {
        None | Some(Json::Null) => Cow::Borrowed(""),
        Some(Json::Text(text)) => Cow::Borrowed(&**text),
        Some(value) => Cow::Owned(value.to_value().to_string()),
    };
    let (id, name) = (words(piece.get("id")), words(piece.at(&["function", "name"])));
    wire.load.add(id.len() + name.len() + arguments.len())?;
    let index = Index::read(piece.get("index"));
    wire.said.calls.take_in(Piece { index, id, name, arguments: &arguments })
}
