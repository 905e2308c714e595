//! The output of a tool, and its rendering for a model.

use super::content::ContentPart;
use super::delegated::Delegated;
use super::encoding::TextEncoding;
use crate::artifact::Artifact;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// How much of one result a model is shown, in bytes; the journal keeps it whole.
pub const MODEL_RESULT_BYTES: usize = 64 * 1024;

/// A place a tool looked at or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The file, as the tool was given it.
    pub path: String,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// A change a tool made to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// Its text before; `None` when it did not exist.
    pub before: Option<String>,
    /// Its text after; `None` if it was deleted.
    pub after: Option<String>,
    /// How its text before was encoded in the file.
    #[serde(default, skip_serializing_if = "TextEncoding::is_utf8")]
    pub encoding_before: TextEncoding,
    /// How its text after is.
    #[serde(default, skip_serializing_if = "TextEncoding::is_utf8")]
    pub encoding_after: TextEncoding,
    /// Whether `before` is not what the file held exactly: it was larger than 1 MiB, or not text. Such a change is shown, and
    /// undone from its original.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rough: bool,
    /// What the file held before such a change, in the artifact store; `None` when it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Box<Artifact>>,
    /// The content of the original on its way from the tool into the artifact store. It is in no record.
    #[serde(skip)]
    pub found: Option<Arc<Vec<u8>>>,
}

impl FileChange {
    /// What the file held before, if it was there and `before` is exactly that.
    ///
    /// # Errors
    /// A character that its encoding does not have: the change was not made by a tool.
    pub fn content_before(&self) -> Result<Option<Cow<'_, [u8]>>, char> {
        self.before.as_deref().map(|text| self.encoding_before.encode(text)).transpose()
    }

    /// What the file held after, if it was there.
    ///
    /// # Errors
    /// As [`content_before`](Self::content_before).
    pub fn content_after(&self) -> Result<Option<Cow<'_, [u8]>>, char> {
        self.after.as_deref().map(|text| self.encoding_after.encode(text)).transpose()
    }

    fn bytes(&self) -> usize {
        [&self.before, &self.after].into_iter().flatten().map(String::len).sum()
    }
}

/// The output of a tool. The journal keeps all of it, and what is large in the artifact store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Content, in order.
    pub parts: Vec<ContentPart>,
    /// Structured content, when the tool gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Structured content that was too large for a record, in the artifact store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_artifact: Option<Box<Artifact>>,
    /// Where it looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// The files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// Set if the result comes later from outside: a description of the wait. The turn is suspended when nothing else
    /// of its step is left to do, and the reply to its token becomes the call's result; the rest of this output is
    /// then dropped. Ignored for a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What other sessions used for the call: it counts as used by the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<Box<Delegated>>,
}

impl ToolOutput {
    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ContentPart::text(text)], ..Self::default() }
    }

    /// One text that reports a failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// No result yet: it comes from outside, as the reply to the suspended turn's token.
    pub fn waits_for(what: impl Into<String>) -> Self {
        Self { waits_for: Some(what.into()), ..Self::default() }
    }

    /// The output as one text, whole.
    pub fn plain(&self) -> String {
        match self.parts.as_slice() {
            [ContentPart::Text { text }] => text.clone(),
            [] => self.structured.as_ref().map(Value::to_string).unwrap_or_default(),
            parts => parts.iter().map(ContentPart::as_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// How many bytes its parts and changes carry, about.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let changes = self.changes.iter().map(|change| text(&change.before) + text(&change.after));
        self.parts.iter().map(ContentPart::bytes).sum::<usize>() + changes.sum::<usize>()
    }

    /// How many bytes of it a model is shown, about.
    pub fn model_bytes(&self) -> usize {
        let whole = match self.parts.as_slice() {
            [] => self.structured.as_ref().map_or(0, |_| 64),
            parts => parts.iter().map(ContentPart::weight).sum(),
        };
        whole.min(MODEL_RESULT_BYTES)
    }

    /// Returns the output as a model sees it, if that is less: text truncated like [`for_model`](Self::for_model),
    /// other content unchanged, and nothing that is only for users.
    pub fn as_seen(&self) -> Option<Self> {
        let size = |value: &Value| value.to_string().len();
        let beside =
            self.structured.as_ref().map_or(0, size) + self.changes.iter().map(|change| change.bytes()).sum::<usize>();
        let text: usize = self.parts.iter().filter(|part| part.is_text()).map(ContentPart::bytes).sum();
        if text + beside <= MODEL_RESULT_BYTES {
            return None;
        }
        let media = self.parts.iter().filter(|part| !part.is_text()).cloned();
        let words = Self {
            parts: self.parts.iter().filter(|part| part.is_text()).cloned().collect(),
            structured: self.structured.clone().filter(|_| self.parts.is_empty()),
            ..Self::default()
        };
        let parts = std::iter::once(ContentPart::text(words.for_model())).chain(media).collect();
        Some(Self { parts, is_error: self.is_error, ..Self::default() })
    }

    /// Returns the text for the model: all of it, or its head and tail around a notice if it is longer than
    /// [`MODEL_RESULT_BYTES`].
    pub fn for_model(&self) -> String {
        let whole = self.plain();
        if whole.len() <= MODEL_RESULT_BYTES {
            return whole;
        }
        let notice_room = 128;
        let half = (MODEL_RESULT_BYTES - notice_room) / 2;
        let head = &whole[..whole.floor_char_boundary(half)];
        let tail = &whole[whole.ceil_char_boundary(whole.len() - half)..];
        let dropped = whole.len() - head.len() - tail.len();
        format!("{head}\n[… {dropped} of {} bytes are not shown …]\n{tail}", whole.len())
    }
}
