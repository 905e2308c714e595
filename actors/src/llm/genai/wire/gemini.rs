//! Frames of the Gemini format, in which a call comes whole.

use super::calls::Begun;
use super::json::Json;
use super::{Fault, Wire, json, usage, words};

pub(super) fn read(wire: &mut Wire, data: &str) -> Result<(), Fault> {
    if data.is_empty() {
        return Ok(());
    }
    let frame = json(data)?;
    if frame.get("error").is_some_and(|error| !error.is_null()) {
        return Err(Fault::Reported(frame.to_value()));
    }
    wire.headlines(frame.get("responseId"), frame.get("modelVersion"));
    wire.usage = frame.get("usageMetadata").and_then(usage::gemini).or(wire.usage);
    wire.is_blocked |= frame.at(&["promptFeedback", "blockReason"]).and_then(Json::text).is_some();
    let Some(candidate) = wire.chosen(frame.get("candidates")) else { return Ok(()) };
    if let Some(Json::List(parts)) = candidate.at(&["content", "parts"]) {
        parts.iter().try_for_each(|part| read_part(wire, part))?;
    }
    wire.stop(candidate.get("finishReason"));
    wire.has_ended = candidate.get("finishReason").and_then(Json::text).is_some();
    Ok(())
}

fn read_part(wire: &mut Wire, part: &Json<'_>) -> Result<(), Fault> {
    let signature = words(part.get("thoughtSignature"));
    wire.load.add(signature.len())?;
    let signatures = if signature.is_empty() { Vec::new() } else { vec![signature.to_owned()] };
    match part.get("functionCall") {
        Some(call) => {
            let name = words(call.get("name"));
            let arguments = call.get("args").filter(|args| !args.is_null());
            let arguments = arguments.map(|args| args.to_value().to_string()).unwrap_or_default();
            wire.load.add(name.len() + arguments.len())?;
            let name = name.to_owned();
            wire.said.calls.begin(Begun { name, arguments, signatures, ..Begun::default() })?;
            Ok(())
        }
        None => {
            wire.said.signatures.extend(signatures);
            let text = words(part.get("text"));
            if matches!(part.get("thought"), Some(Json::Bool(true))) { wire.reasoning(text) } else { wire.text(text) }
        }
    }
}
