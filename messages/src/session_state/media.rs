//! What a live session keeps of images, sounds and files: so many bytes, the newest ones.
//!
//! A count of messages does not bound them, and all that is kept is in every prompt. The journal has everything. What is
//! left out is named by a text in its place, so that the model knows of it.

use super::Session;
use crate::chat::{ContentPart, Message, ToolResult};
use crate::store::{Fact, Record};
use std::sync::Arc;

/// How many bytes of media, in Base64, a live session and its prompts have at most. The message that the open turn is
/// about is counted first and always stays; an input brings less than half as much.
pub const MOST_MEDIA_BYTES: usize = 32 * 1024 * 1024;

impl Session {
    /// Lets go of the media of old messages when a record has brought more than may be kept.
    pub(super) fn lighten(&mut self, record: &Record) {
        self.keep.has_media |= brings_media(&record.fact);
        self.keep.has_artifacts |= record.fact.artifacts().any(|artifact| artifact.is_text());
        if !self.keep.has_media || !self.keep.is_live() {
            return;
        }
        let own = self.open.as_ref().map(|turn| turn.message_at);
        let mut room = MOST_MEDIA_BYTES;
        if let Some(message) = own.and_then(|own| self.history.get(own)) {
            room = room.saturating_sub(message.parts().iter().map(weight).sum());
        }
        for (_, message) in self.history.iter_mut().enumerate().rev().filter(|(at, _)| Some(*at) != own) {
            let bytes: usize = message.parts().iter().map(weight).sum();
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => *message = Arc::new(lighter(message, &mut room)),
            }
        }
    }
}

/// A result without its media, as the transcript of its turn needs it.
pub(super) fn emptied(result: &Arc<ToolResult>) -> Arc<ToolResult> {
    if result.output.parts.iter().all(|part| weight(part) == 0) {
        return Arc::clone(result);
    }
    let mut emptied = (**result).clone();
    for part in &mut emptied.output.parts {
        match part {
            ContentPart::Image { data, .. } | ContentPart::Audio { data, .. } => data.clear(),
            ContentPart::Resource { blob: Some(blob), .. } => blob.clear(),
            ContentPart::Text { .. }
            | ContentPart::Resource { .. }
            | ContentPart::ResourceLink { .. }
            | ContentPart::Artifact(_) => {}
        }
    }
    Arc::new(emptied)
}

/// Whether the session gets media by this record, now or when its turn begins.
fn brings_media(fact: &Fact) -> bool {
    let parts = match fact {
        Fact::Input(input) => &input.parts,
        Fact::Steered { parts, .. } => parts,
        Fact::Result(result) => &result.output.parts,
        _nothing_of_the_kind => return false,
    };
    parts.iter().any(|part| weight(part) > 0)
}

/// How many bytes of media a part has.
fn weight(part: &ContentPart) -> usize {
    match part {
        ContentPart::Image { data, .. } | ContentPart::Audio { data, .. } => data.len(),
        ContentPart::Resource { blob, .. } => blob.as_ref().map_or(0, String::len),
        ContentPart::Artifact(artifact) if !artifact.is_text() => artifact.inline_bytes(),
        ContentPart::Text { .. } | ContentPart::ResourceLink { .. } | ContentPart::Artifact(_) => 0,
    }
}

/// The message with as much of its media as there is room for, the last parts first.
fn lighter(message: &Message, room: &mut usize) -> Message {
    let keep = |parts: &[ContentPart], room: &mut usize| {
        let mut kept: Vec<_> = parts.iter().rev().map(|part| kept_or_named(part, room)).collect();
        kept.reverse();
        kept
    };
    match message {
        Message::User { parts } => Message::User { parts: keep(parts, room) },
        Message::Tool { result } => {
            let mut result = (**result).clone();
            result.output.parts = keep(&result.output.parts, room);
            Message::Tool { result: Arc::new(result) }
        }
        Message::Assistant { .. } => message.clone(),
    }
}

fn kept_or_named(part: &ContentPart, room: &mut usize) -> ContentPart {
    let bytes = weight(part);
    match room.checked_sub(bytes) {
        Some(left) => {
            *room = left;
            part.clone()
        }
        None => ContentPart::text(format!(
            "{} ({bytes} bytes in Base64) is left out here: a conversation keeps its newest {MOST_MEDIA_BYTES} bytes of \
             attachments",
            part.as_text()
        )),
    }
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
