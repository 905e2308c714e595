//! Shows the `content` of a final envelope while it grows.
//!
//! In JSON mode a model says `{"type":"final","content":"…"}`; people shall see the
//! decoded content and nothing of the envelope, and nothing at all of a call.

use jiter::{JsonObject, JsonValue, PartialMode};

/// As much of an envelope as is kept for showing, in bytes; what follows is not shown.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// An envelope as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct GrowingEnvelope {
    text: String,
    /// How long the text must be before it is read again. It grows by a part of the
    /// length, so that all readings together cost a small multiple of one.
    next: usize,
    /// How many bytes of the content were shown.
    shown: usize,
}

impl GrowingEnvelope {
    /// Takes a piece in; the part of the content to show now, if there is one.
    pub(super) fn push(&mut self, piece: &str) -> Option<String> {
        if self.text.len() + piece.len() > MOST_BYTES {
            return None;
        }
        self.text.push_str(piece);
        if self.text.len() < self.next { None } else { self.read() }
    }

    /// What is left to show once everything has arrived.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.read()
    }

    fn read(&mut self) -> Option<String> {
        self.next = self.text.len() + self.text.len() / 64 + 1;
        let json = unfenced(&self.text)?.as_bytes();
        let value = JsonValue::parse_with_config(json, false, PartialMode::TrailingStrings);
        let Ok(JsonValue::Object(envelope)) = value else { return None };
        if string(&envelope, "type")? != "final" {
            return None;
        }
        let content = string(&envelope, "content")?;
        let new = content.get(self.shown..).filter(|new| !new.is_empty())?.to_owned();
        self.shown = content.len();
        Some(new)
    }
}

/// The text from its object on, where nothing but a Markdown fence stands before it;
/// without the fence's end, which the reader would stumble over.
fn unfenced(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let (before, object) = text.split_at(start);
    match before.trim() {
        "" => Some(object),
        "```" | "```json" | "```JSON" => Some(object.trim_end_matches(['`', '\n', '\r', ' '])),
        _other_text => None,
    }
}

fn string<'a>(object: &'a JsonObject<'_>, key: &str) -> Option<&'a str> {
    object.iter().find_map(|(name, value)| match value {
        JsonValue::Str(text) if name == key => Some(&**text),
        _not_this_one => None,
    })
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
