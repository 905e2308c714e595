//! Frames of the Gemini format, in which a call comes whole.

use super::calls::Begun;
use super::{Fault, Wire, json, words};
use serde_json::Value;

pub(super) fn read(wire: &mut Wire, data: &str) -> Result<(), Fault> {
    if data.is_empty() {
        return Ok(());
    }
    let mut frame = json(data)?;
    if frame.get("error").is_some_and(|error| !error.is_null()) {
        return Err(Fault::Reported(frame));
    }
    wire.headlines(&frame, "/responseId", "/modelVersion");
    wire.is_blocked |= frame.pointer("/promptFeedback/blockReason").is_some_and(Value::is_string);
    let Some(mut candidate) = wire.chosen(frame.get_mut("candidates")) else { return Ok(()) };
    if let Some(Value::Array(parts)) = candidate.pointer_mut("/content/parts") {
        parts.iter().try_for_each(|part| read_part(wire, part))?;
    }
    wire.stop(candidate.get("finishReason"));
    wire.has_ended = candidate.get("finishReason").is_some_and(Value::is_string);
    Ok(())
}

fn read_part(wire: &mut Wire, part: &Value) -> Result<(), Fault> {
    let signature = words(part.get("thoughtSignature"));
    wire.load.add(signature.len())?;
    let signatures = if signature.is_empty() { Vec::new() } else { vec![signature.to_owned()] };
    match part.get("functionCall") {
        Some(call) => {
            let name = words(call.get("name"));
            let arguments = call.get("args").filter(|args| !args.is_null()).map(Value::to_string).unwrap_or_default();
            wire.load.add(name.len() + arguments.len())?;
            let name = name.to_owned();
            wire.said.calls.begin(Begun { name, arguments, signatures, ..Begun::default() })?;
            Ok(())
        }
        None => {
            wire.said.signatures.extend(signatures);
            let text = words(part.get("text"));
            if part.get("thought") == Some(&Value::Bool(true)) { wire.reasoning(text) } else { wire.text(text) }
        }
    }
}
