//! Large content that is kept beside the journal: its name, and what stands for it in a record.
//!
//! A part of a message or of a tool's output with more than [`LARGE_PART_BYTES`] is put into the artifact store of its
//! session, and its record has an [`Artifact`] in its place: the hash, the size, and of text the beginning and the end. So
//! records, snapshots and prompts are bounded, whatever a tool returns.

use crate::ids::InvalidId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A part with more bytes than this is an artifact. Media count as they are written, in Base64.
pub const LARGE_PART_BYTES: usize = 256 * 1024;

/// How many digits of an id are shown to a model; any beginning that only one artifact of the session has is understood.
const SHOWN_DIGITS: usize = 16;

/// How many bytes the notice between the beginning and the end of a text has at most.
pub const NOTICE_BYTES: usize = 256;

/// The name of an artifact: the BLAKE3 hash of its content, as 64 hexadecimal digits in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactId(Arc<str>);

impl ArtifactId {
    /// How many bytes its text has.
    pub const BYTES: usize = 64;

    /// The name of this content. It takes about a millisecond for a megabyte, so it is not for a handler of an actor.
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).to_hex().as_str().into())
    }

    /// Reads a name.
    ///
    /// # Errors
    /// When the text does not have 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == Self::BYTES && text.bytes().all(is_digit) {
            true => Ok(Self(text.into())),
            false => Err(InvalidId(format!("an artifact is named by {} hexadecimal digits", Self::BYTES))),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The beginning of the name, as a model is shown it.
    pub fn short(&self) -> &str {
        &self.0[..SHOWN_DIGITS]
    }
}

impl TryFrom<String> for ArtifactId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        Self::parse(&text)
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// What the content of an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// Text.
    Text,
    /// Structured content of a tool, as JSON text.
    Json,
    /// A picture; its bytes, not Base64.
    Image,
    /// A sound; its bytes, not Base64.
    Audio,
    /// The text of a document.
    Document,
    /// The bytes of a document that is no text.
    Blob,
}

/// What stands in a record for content that is in the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its name.
    pub id: ArtifactId,
    /// What it is.
    pub kind: ArtifactKind,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Its MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Where it is from, of a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Whether a model is sent all of it: a picture, a sound, and what a person wrote. Otherwise it is shown the head and
    /// the tail, and reads on by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
    /// The beginning of a text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// The end of a text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl Artifact {
    /// What stands for this text: at most `room` bytes of it, half from its beginning and half from its end.
    pub fn of_text(id: ArtifactId, kind: ArtifactKind, text: &str, room: usize) -> Self {
        let half = (room / 2).min(text.len() / 2);
        let head = text[..text.floor_char_boundary(half)].to_owned();
        let tail = text[text.ceil_char_boundary(text.len() - half)..].to_owned();
        Self { head, tail, ..Self::of_bytes(id, kind, text.len()) }
    }

    /// What stands for content of this size that is shown as nothing.
    pub fn of_bytes(id: ArtifactId, kind: ArtifactKind, bytes: usize) -> Self {
        let (head, tail) = (String::new(), String::new());
        Self { id, kind, bytes: bytes as u64, mime_type: None, uri: None, is_whole: false, head, tail }
    }

    /// Whether it is text.
    pub fn is_text(&self) -> bool {
        match self.kind {
            ArtifactKind::Text | ArtifactKind::Json | ArtifactKind::Document => true,
            ArtifactKind::Image | ArtifactKind::Audio | ArtifactKind::Blob => false,
        }
    }

    /// How many bytes it would have in a record; media are Base64 there.
    pub fn inline_bytes(&self) -> usize {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        if self.is_text() { bytes } else { bytes.div_ceil(3).saturating_mul(4) }
    }

    /// The text that a model is shown for it, or a person who reads the conversation.
    pub fn as_text(&self) -> String {
        let Self { id, bytes, uri, head, tail, .. } = self;
        let mime_type = self.mime_type.as_deref().unwrap_or_default();
        match self.kind {
            ArtifactKind::Image => format!("[image {mime_type}]"),
            ArtifactKind::Audio => format!("[audio {mime_type}]"),
            ArtifactKind::Blob => format!("[resource {}]", uri.as_deref().unwrap_or_default()),
            ArtifactKind::Text | ArtifactKind::Json | ArtifactKind::Document => {
                let named = uri.as_ref().map(|uri| format!("[{uri}]\n")).unwrap_or_default();
                let (shown, short) = (head.len() + tail.len(), id.short());
                let (left, from) = (bytes.saturating_sub(shown as u64), head.len());
                let read_on = format!("local/read_artifact {{\"id\": \"{short}\", \"offset\": {from}}} reads on");
                format!("{named}{head}\n[… {left} of {bytes} bytes are not shown; {read_on} …]\n{tail}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_its_content_and_nothing_else_is_a_name() {
        let id = ArtifactId::of(b"hello");
        assert_eq!(id, ArtifactId::of(b"hello"));
        assert_ne!(id, ArtifactId::of(b"hello "));
        assert_eq!(ArtifactId::parse(id.as_str()), Ok(id.clone()));
        for other in ["", "../../etc/passwd", &id.as_str()[1..], &id.as_str().to_uppercase(), &format!("{id}0")] {
            assert!(ArtifactId::parse(other).is_err(), "{other}");
            assert!(serde_json::from_value::<ArtifactId>(serde_json::json!(other)).is_err(), "{other}");
        }
    }

    #[test]
    fn a_text_is_shown_by_its_head_and_tail_with_its_size_and_where_to_read_on() {
        let text = format!("ä{}ö", "x".repeat(99_996));
        let artifact = Artifact::of_text(ArtifactId::of(text.as_bytes()), ArtifactKind::Text, &text, 11);
        assert_eq!((artifact.head.as_str(), artifact.tail.as_str()), ("äxxx", "xxxö"), "no character is cut");
        let shown = artifact.as_text();
        let (short, bytes) = (artifact.id.short(), text.len());
        assert!(shown.starts_with("äxxx\n[… ") && shown.ends_with("…]\nxxxö"), "{shown}");
        let notice = format!(
            "{} of {bytes} bytes are not shown; local/read_artifact {{\"id\": \"{short}\", \"offset\": 5}}",
            bytes - 10
        );
        assert!(shown.contains(&notice), "{shown}");
        assert!(shown.len() <= 11 + NOTICE_BYTES, "{}", shown.len());
    }

    #[test]
    fn a_head_and_a_tail_do_not_overlap() {
        for room in 0..=30 {
            let artifact = Artifact::of_text(ArtifactId::of(b""), ArtifactKind::Text, "0123456789äöü", room);
            assert!(artifact.head.len() + artifact.tail.len() <= 16, "{room}: {artifact:?}");
        }
    }
}
