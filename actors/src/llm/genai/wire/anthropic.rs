//! Frames of the Anthropic messages format. Its blocks have an index each, and their pieces may be mixed.

use super::index::Index;
use super::json::Json;
use super::{Fault, MOST_COPIED_BYTES, Wire, json, usage, words};
use crate::llm::genai::render;
use serde_json::Value;
use std::borrow::Cow;

/// The most blocks that may be open at once.
const MOST_OPEN: usize = 1_024;

#[derive(Debug)]
pub(super) enum Block {
    Text,
    Thinking {
        thought: String,
        signature: String,
    },
    Call {
        place: usize,
        /// The arguments, where they came whole with the beginning.
        input: Option<String>,
    },
    /// One that is no concern of ours; its pieces are passed over.
    Other,
}

pub(super) fn read(wire: &mut Wire, event: Option<&str>, data: &str) -> Result<(), Fault> {
    // All frames have a name and data. genai takes a CR at the end of one read and the LF at the beginning of the
    // next for the end of a frame; where name and data go apart by that, it drops the data without a word.
    let name = match (event, data.is_empty()) {
        (None, true) => return Ok(()),
        (Some(name), false) => name,
        (None, false) | (Some(_), true) => return Err(Fault::Unreadable),
    };
    match name {
        "message_start" => {
            let frame = json(data)?;
            wire.headlines(frame.at(&["message", "id"]), frame.at(&["message", "model"]));
            wire.usage = frame.at(&["message", "usage"]).map_or(wire.usage, |said| usage::anthropic(said, wire.usage));
        }
        "message_delta" => {
            let frame = json(data)?;
            wire.stop(frame.at(&["delta", "stop_reason"]));
            wire.usage = frame.get("usage").map_or(wire.usage, |said| usage::anthropic(said, wire.usage));
        }
        "message_stop" => close_all(wire),
        "content_block_start" => return start(wire, &json(data)?),
        "content_block_delta" => return delta(wire, &json(data)?),
        "content_block_stop" => return stop(wire, &json(data)?),
        "error" => {
            let said = json(data).map(|frame| frame.to_value());
            return Err(Fault::Reported(said.unwrap_or_else(|_| Value::String(data.to_owned()))));
        }
        _says_nothing => {}
    }
    Ok(())
}

fn start(wire: &mut Wire, data: &Json<'_>) -> Result<(), Fault> {
    let index = Index::read(data.get("index")).unwrap_or(Index::Number(-1));
    let field = |name: &str| words(data.get("content_block").and_then(|block| block.get(name)));
    wire.load.open = 0;
    let block = match field("type") {
        "text" => Block::Text,
        "thinking" => {
            wire.reasoning(field("thinking"))?;
            wire.load.add(field("signature").len())?;
            Block::Thinking { thought: field("thinking").to_owned(), signature: field("signature").to_owned() }
        }
        "tool_use" => {
            let (id, name) = (field("id"), field("name"));
            if let Some(Block::Call { place, .. }) = wire.blocks.get(&index)
                && !id.is_empty()
                && wire.said.calls.id(*place) == id
            {
                wire.last_block = Some(index);
                return Ok(());
            }
            let input = data.at(&["content_block", "input"]);
            let input = input.filter(|input| matches!(input, Json::Object(fields) if !fields.is_empty()));
            let input = input.map(|input| input.to_value().to_string());
            wire.load.add(id.len() + name.len() + input.as_ref().map_or(0, String::len))?;
            Block::Call { place: wire.said.calls.named(id, name)?, input }
        }
        _another_kind => Block::Other,
    };
    // A block that was never stopped ends where another one takes its number.
    if let Some(before) = wire.blocks.insert(index.clone(), block) {
        close(wire, before, false);
    }
    wire.last_block = Some(index);
    if wire.blocks.len() > MOST_OPEN { Err(Fault::AnswerTooLarge) } else { Ok(()) }
}

fn delta(wire: &mut Wire, data: &Json<'_>) -> Result<(), Fault> {
    let field = |name: &str| data.get("delta").and_then(|delta| delta.get(name));
    wire.text(words(field("text")))?;
    let (thought, signature) = (words(field("thinking")), words(field("signature")));
    wire.reasoning(thought)?;
    wire.load.add(signature.len())?;
    let piece = match field("partial_json") {
        None | Some(Json::Null) => None,
        Some(Json::Text(text)) => Some(Cow::Borrowed(&**text)),
        Some(value) => Some(Cow::Owned(value.to_value().to_string())),
    };
    let index = Index::read(data.get("index")).or_else(|| wire.last_block.clone());
    match (index.and_then(|index| wire.blocks.get_mut(&index)), piece) {
        (Some(Block::Call { place, .. }), Some(piece)) => {
            wire.load.add(piece.len())?;
            wire.load.open += piece.len() as u64;
            wire.load.copied += wire.load.open;
            if wire.load.copied > MOST_COPIED_BYTES {
                return Err(Fault::AnswerTooLarge);
            }
            if let Some(call) = wire.said.calls.get_mut(*place) {
                call.arguments.push_str(&piece);
            }
        }
        (Some(Block::Thinking { thought: known, signature: signed }), _) => {
            known.push_str(thought);
            signed.push_str(signature);
        }
        // Some call would lack these arguments.
        (None | Some(Block::Text), Some(piece)) if !piece.trim().is_empty() => return Err(Fault::Unreadable),
        (None | Some(Block::Text | Block::Call { .. } | Block::Other), _) => {}
    }
    Ok(())
}

fn stop(wire: &mut Wire, data: &Json<'_>) -> Result<(), Fault> {
    wire.load.open = 0;
    let index = Index::read(data.get("index")).or_else(|| wire.last_block.clone());
    if let Some(block) = index.and_then(|index| wire.blocks.remove(&index)) {
        close(wire, block, true);
    }
    Ok(())
}

/// What is known of a block only at its end. One that is cut off has its arguments as far as they got.
fn close(wire: &mut Wire, block: Block, is_whole: bool) {
    match block {
        Block::Thinking { thought, signature } if !signature.is_empty() => {
            wire.said.signatures.push(render::sign(&signature, &thought));
        }
        Block::Call { place, input } => {
            let whole = input.or_else(|| is_whole.then(|| "{}".to_owned()));
            if let (Some(call), Some(whole)) = (wire.said.calls.get_mut(place), whole)
                && call.arguments.is_empty()
            {
                call.arguments = whole;
            }
        }
        Block::Thinking { .. } | Block::Text | Block::Other => {}
    }
}

/// The end of the message, and of what is still open.
fn close_all(wire: &mut Wire) {
    wire.has_ended = true;
    let open = std::mem::take(&mut wire.blocks);
    for block in open.into_values().filter(|block| matches!(block, Block::Call { .. })) {
        close(wire, block, false);
    }
}
