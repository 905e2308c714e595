//! One part of a message or of a tool's output: text, a picture, a sound, a document.

use crate::artifact::{Artifact, ArtifactKind, NOTICE_BYTES};
use serde::{Deserialize, Serialize};

/// Weight of an image in a prompt: about 1,600 tokens.
const IMAGE_WEIGHT: usize = 6_400;

/// How many bytes of a sound in Base64 weigh as much as one of text.
const AUDIO_SHARE: usize = 16;

/// One part of a message or of a tool's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture.
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A sound.
    Audio {
        /// For example `audio/wav`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A document with its content.
    Resource {
        /// Where it is from.
        uri: String,
        /// Its MIME type, if known.
        mime_type: Option<String>,
        /// Its text, when it is text.
        text: Option<String>,
        /// Its bytes in Base64, when it is not.
        blob: Option<String>,
    },
    /// A document by reference only.
    ResourceLink {
        /// Where it is.
        uri: String,
        /// Its display name.
        name: String,
        /// Its MIME type, if known.
        mime_type: Option<String>,
    },
    /// A part that was too large for a record: its content is in the artifact store.
    Artifact(Box<Artifact>),
}

impl ContentPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// What stands for its content, if that is in the artifact store.
    pub fn artifact(&self) -> Option<&Artifact> {
        match self {
            Self::Artifact(artifact) => Some(artifact),
            _inline => None,
        }
    }

    /// The name of the kind, as errors and capabilities say it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Audio { .. } => "audio",
            Self::Resource { .. } => "resource",
            Self::ResourceLink { .. } => "resource_link",
            Self::Artifact(artifact) => match artifact.kind {
                ArtifactKind::Text | ArtifactKind::Json => "text",
                ArtifactKind::Image => "image",
                ArtifactKind::Audio => "audio",
                ArtifactKind::Document | ArtifactKind::Blob => "resource",
            },
        }
    }

    /// How many bytes the part has in a record.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, .. } | Self::Audio { data, .. } => data.len(),
            Self::Resource { uri, text, blob, .. } => {
                uri.len() + text.as_ref().map_or(0, String::len) + blob.as_ref().map_or(0, String::len)
            }
            Self::ResourceLink { uri, name, .. } => uri.len() + name.len(),
            Self::Artifact(artifact) => artifact.head.len() + artifact.tail.len(),
        }
    }

    /// Approximate weight of the part in a prompt, in bytes of text. Images and sounds cost a model far less.
    pub fn weight(&self) -> usize {
        match self {
            Self::Image { .. } => IMAGE_WEIGHT,
            Self::Audio { data, .. } => data.len() / AUDIO_SHARE,
            Self::Text { .. } | Self::Resource { .. } | Self::ResourceLink { .. } => self.bytes(),
            Self::Artifact(artifact) => match artifact.kind {
                ArtifactKind::Image => IMAGE_WEIGHT,
                ArtifactKind::Audio => artifact.inline_bytes() / AUDIO_SHARE,
                ArtifactKind::Blob => self.bytes() + NOTICE_BYTES,
                ArtifactKind::Text | ArtifactKind::Json | ArtifactKind::Document => match artifact.is_whole {
                    true => artifact.inline_bytes(),
                    false => self.bytes() + NOTICE_BYTES,
                },
            },
        }
    }

    /// Whether the part can be rendered as text.
    pub fn is_text(&self) -> bool {
        match self {
            Self::Text { .. } | Self::Resource { .. } | Self::ResourceLink { .. } => true,
            Self::Image { .. } | Self::Audio { .. } => false,
            Self::Artifact(artifact) => !matches!(artifact.kind, ArtifactKind::Image | ArtifactKind::Audio),
        }
    }

    pub(crate) fn is_told_as_text(&self) -> bool {
        self.is_text() && !matches!(self, Self::Resource { text: None, .. })
    }

    /// The part as text for a reader that takes only text.
    pub fn as_text(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Resource { uri, text: Some(text), .. } => format!("[{uri}]\n{text}"),
            Self::Resource { uri, .. } => format!("[resource {uri}]"),
            Self::ResourceLink { uri, name, .. } => format!("[{name}: {uri}]"),
            Self::Image { mime_type, .. } => format!("[image {mime_type}]"),
            Self::Audio { mime_type, .. } => format!("[audio {mime_type}]"),
            Self::Artifact(artifact) => artifact.as_text(),
        }
    }
}
