//! Shows the `content` of a final envelope while it grows.
//!
//! In JSON mode a model says `{"type":"final","content":"…"}`; people shall see the
//! decoded content and nothing of the envelope, and nothing at all of a call.

use serde::Deserialize;
use std::borrow::Cow;

/// As much of an envelope as is kept for showing, in bytes; what follows is not shown.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A longer text grows by an eighth before it is read again, a shorter one by a 64th: all readings of the longest one take
/// about ten times as long as one.
const LONG: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct GrowingEnvelope {
    text: String,
    /// How long the text must be before it is read again. It grows by a part of the
    /// length, so that all readings together cost a small multiple of one.
    next: usize,
    /// How many bytes of the content were shown.
    shown: usize,
}

#[derive(Deserialize)]
struct Shown<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
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
        let (length, part) = (self.text.len(), if self.text.len() < LONG { 64 } else { 8 });
        self.next = length + length / part + 1;
        let text = closed(unfenced(&self.text)?);
        let Shown { kind, content } = serde_json::from_str(&text).ok()?;
        if kind != "final" {
            return None;
        }
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

/// The beginning of an object, made whole: a text among its own values ends where it has come to; any other unfinished
/// field is left out.
fn closed(text: &str) -> Cow<'_, str> {
    let mut depth = 0_usize;
    // Where the last field of the object itself that is whole ends, and whether a value of it comes next.
    let (mut whole, mut is_value) = (0, false);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    whole = at + 1;
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Cow::Borrowed(text);
                }
            }
            b',' if depth == 1 => (whole, is_value) = (at, false),
            b':' if depth == 1 => is_value = true,
            b'"' => {
                let mut is_escaped = false;
                let ends = |(_, byte): &(usize, u8)| {
                    let ends = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    ends
                };
                match bytes.find(ends) {
                    Some((end, _)) if depth == 1 && is_value => whole = end + 1,
                    Some(_) => {}
                    None if depth == 1 && is_value => {
                        return Cow::Owned(format!("{}\"}}", whole_letters(text, at + 1)));
                    }
                    None => break,
                }
            }
            _other => {}
        }
    }
    Cow::Owned(format!("{}}}", &text[..whole]))
}

/// The text without an escape at its end that is not whole, or is the first half of a letter. Its JSON text begins at
/// `start`.
fn whole_letters(text: &str, start: usize) -> &str {
    let inside = &text.as_bytes()[start..];
    let mut at = 0;
    while at < inside.len() {
        let length = match &inside[at..] {
            [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => 12,
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _letter => 1,
        };
        if at + length > inside.len() {
            return &text[..start + at];
        }
        at += length;
    }
    text
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
