//! Large parts go into the artifact store before their record is made: of what a tool returned, and of what a person sent;
//! so does what a file held before a change, where that is no text of a record.
//!
//! Everything that takes time with the content (decoding, hashing, writing) is done on blocking threads, in the task of the
//! call or of the request. A part that cannot be kept stays where it is.

use super::Artifacts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bob_messages::artifact::{Artifact, ArtifactId, ArtifactKind, LARGE_PART_BYTES, NOTICE_BYTES};
use bob_messages::chat::{ContentPart, MODEL_RESULT_BYTES, ToolOutput};
use bob_messages::ids::SessionId;
use serde_json::Value;
use std::sync::Arc;

/// The least that is shown of a text, in bytes, however many there are.
const LEAST_SHOWN: usize = 2 * 1024;

/// How much of what a person sent is kept in its record: for lists and titles, since a model is sent all of it.
const SHOWN_OF_INPUT: usize = 4 * 1024;

struct Ready {
    /// What is to stand for it; its name is not that of its content yet.
    artifact: Artifact,
    content: Vec<u8>,
    part: Origin,
}

/// How the part is made again when it cannot be kept.
enum Origin {
    Text,
    Structured,
    Part(ContentPart),
}

impl Artifacts {
    pub(crate) fn would_spill(&self, output: &ToolOutput) -> bool {
        let is_large = || {
            self.port().is_some()
                && (output.parts.iter().any(|part| part.bytes() > LARGE_PART_BYTES)
                    || output.structured.as_ref().is_some_and(|value| exceeds(value, LARGE_PART_BYTES)))
        };
        output.changes.iter().any(|change| change.found.is_some()) || is_large()
    }

    /// Puts the large parts of an output into the store, and what stands for them into their place.
    pub(crate) async fn spill(&self, session: &SessionId, mut output: ToolOutput) -> ToolOutput {
        let small = |part: &&ContentPart| part.is_text() && part.bytes() <= LARGE_PART_BYTES;
        let beside: usize = output.parts.iter().filter(small).map(ContentPart::bytes).sum();
        let texts = output.parts.iter().filter(|part| part.is_text() && part.bytes() > LARGE_PART_BYTES).count().max(1);
        let notices = (texts + 1) * NOTICE_BYTES;
        let shown = MODEL_RESULT_BYTES.saturating_sub(beside + notices).div_euclid(texts).max(LEAST_SHOWN);
        for part in &mut output.parts {
            if part.bytes() > LARGE_PART_BYTES {
                *part = self.keep(session, taken(part), shown, false).await;
            }
        }
        if let Some(structured) = output.structured.take_if(|value| exceeds(value, LARGE_PART_BYTES)) {
            self.keep_structured(session, &mut output, structured, shown).await;
        }
        for change in &mut output.changes {
            if let Some(found) = change.found.take() {
                change.original = self.keep_original(session, &change.path, found).await;
            }
        }
        output
    }

    /// What a file held before a change. A change whose original is not kept is no less made.
    async fn keep_original(&self, session: &SessionId, path: &str, found: Arc<Vec<u8>>) -> Option<Box<Artifact>> {
        let bytes = found.len();
        match self.port()?.put(session, found).await {
            Ok(id) => {
                let uri = Some(path.to_owned());
                Some(Box::new(Artifact { uri, ..Artifact::of_bytes(id, ArtifactKind::Blob, bytes) }))
            }
            Err(error) => {
                tracing::warn!(%session, %error, "a change of a file cannot be undone: the artifact store did not take what the file held before");
                None
            }
        }
    }

    /// A text as an artifact, of which this much is shown; `None` if it is not kept.
    #[cfg(feature = "local-tools")]
    pub(crate) async fn keep_text(&self, session: &SessionId, text: String, shown: usize) -> Option<ContentPart> {
        self.port()?;
        Some(self.keep(session, ContentPart::text(text), shown, false).await).filter(|part| part.artifact().is_some())
    }

    /// Puts the large parts of what a person sent into the store. A model is sent all of them.
    pub async fn spill_input(&self, session: &SessionId, parts: &mut [ContentPart]) {
        if self.port().is_none() {
            return;
        }
        for part in parts.iter_mut().filter(|part| part.bytes() > LARGE_PART_BYTES) {
            *part = self.keep(session, taken(part), SHOWN_OF_INPUT, true).await;
        }
    }

    async fn keep_structured(&self, session: &SessionId, output: &mut ToolOutput, structured: Value, shown: usize) {
        let shared = Arc::new(structured);
        let value = Arc::clone(&shared);
        let ready = tokio::task::spawn_blocking(move || {
            let text = value.to_string();
            let artifact = Artifact::of_text(ArtifactId::of(b""), ArtifactKind::Json, &text, shown);
            Ready { artifact, content: text.into_bytes(), part: Origin::Structured }
        });
        let kept = match ready.await {
            Ok(ready) => self.put(session, ready).await.map_err(drop),
            Err(_the_runtime_ends) => Err(()),
        };
        match kept {
            Ok(artifact) if output.parts.is_empty() => output.parts.push(ContentPart::Artifact(Box::new(artifact))),
            Ok(artifact) => {
                let bare = Artifact { head: String::new(), tail: String::new(), ..artifact };
                output.structured_artifact = Some(Box::new(bare));
            }
            Err(()) => output.structured = Some(Arc::unwrap_or_clone(shared)),
        }
    }

    async fn keep(&self, session: &SessionId, part: ContentPart, shown: usize, is_input: bool) -> ContentPart {
        let ready = tokio::task::spawn_blocking(move || ready(part, shown, is_input)).await;
        match ready {
            Ok(Ok(ready)) => match self.put(session, ready).await {
                Ok(artifact) => ContentPart::Artifact(Box::new(artifact)),
                Err(part) => part,
            },
            Ok(Err(part)) => part,
            Err(_the_runtime_ends) => ContentPart::text("[lost: the runtime ended]"),
        }
    }

    /// Keeps content and answers what stands for it; the part as it was, if it was not kept.
    async fn put(&self, session: &SessionId, ready: Ready) -> Result<Artifact, ContentPart> {
        let Ready { artifact, content, part } = ready;
        let content = Arc::new(content);
        let kept = match self.port() {
            Some(port) => port.put(session, Arc::clone(&content)).await,
            None => Err(bob_messages::store::StoreError::Unavailable(String::new())),
        };
        match kept {
            Ok(id) => Ok(Artifact { id, ..artifact }),
            Err(error) => {
                tracing::warn!(%session, %error, "a large part is not in the artifact store, which did not take it");
                Err(again(&artifact, Arc::unwrap_or_clone(content), part))
            }
        }
    }
}

/// What stands for a part, with its content. A part that has no such form is given back.
fn ready(part: ContentPart, shown: usize, is_whole: bool) -> Result<Ready, ContentPart> {
    let none = ArtifactId::of(b"");
    match part {
        ContentPart::Text { text } => {
            let artifact = Artifact::of_text(none, ArtifactKind::Text, &text, shown);
            let artifact = Artifact { is_whole, ..artifact };
            Ok(Ready { artifact, content: text.into_bytes(), part: Origin::Text })
        }
        ContentPart::Resource { uri, mime_type, text: Some(text), blob: None } => {
            let artifact = Artifact::of_text(none, ArtifactKind::Document, &text, shown);
            let artifact = Artifact { uri: Some(uri), mime_type, is_whole, ..artifact };
            Ok(Ready { artifact, content: text.into_bytes(), part: Origin::Text })
        }
        ContentPart::Image { mime_type, data } => decoded(ArtifactKind::Image, Some(mime_type), None, data),
        ContentPart::Audio { mime_type, data } => decoded(ArtifactKind::Audio, Some(mime_type), None, data),
        ContentPart::Resource { uri, mime_type, text: None, blob: Some(blob) } => {
            decoded(ArtifactKind::Blob, mime_type, Some(uri), blob)
        }
        other @ (ContentPart::Resource { .. } | ContentPart::ResourceLink { .. } | ContentPart::Artifact(_)) => {
            Err(other)
        }
    }
}

/// Media are kept as bytes. What is no Base64, or would not be written so again, stays as it is.
fn decoded(
    kind: ArtifactKind,
    mime_type: Option<String>,
    uri: Option<String>,
    data: String,
) -> Result<Ready, ContentPart> {
    let content = STANDARD.decode(&data).ok();
    let artifact = Artifact { mime_type, uri, ..Artifact::of_bytes(ArtifactId::of(b""), kind, 0) };
    match content {
        Some(content) => {
            let is_whole = matches!(kind, ArtifactKind::Image | ArtifactKind::Audio);
            let artifact = Artifact { bytes: content.len() as u64, is_whole, ..artifact };
            let part = inline(&artifact, data);
            Ok(Ready { artifact, content, part: Origin::Part(part) })
        }
        None => Err(inline(&artifact, data)),
    }
}

pub(super) fn inline(artifact: &Artifact, data: String) -> ContentPart {
    let mime_type = artifact.mime_type.clone();
    match artifact.kind {
        ArtifactKind::Image => ContentPart::Image { mime_type: mime_type.unwrap_or_default(), data },
        ArtifactKind::Audio => ContentPart::Audio { mime_type: mime_type.unwrap_or_default(), data },
        ArtifactKind::Text | ArtifactKind::Json => ContentPart::text(data),
        ArtifactKind::Document | ArtifactKind::Blob => {
            let uri = artifact.uri.clone().unwrap_or_default();
            let (text, blob) =
                if artifact.kind == ArtifactKind::Blob { (None, Some(data)) } else { (Some(data), None) };
            ContentPart::Resource { uri, mime_type, text, blob }
        }
    }
}

fn again(artifact: &Artifact, content: Vec<u8>, part: Origin) -> ContentPart {
    match part {
        Origin::Part(part) => part,
        Origin::Text | Origin::Structured => inline(artifact, String::from_utf8(content).unwrap_or_default()),
    }
}

/// Whether a value has more bytes as JSON than this, about. It is not written out for that.
fn exceeds(value: &Value, most: usize) -> bool {
    fn count(value: &Value, left: &mut usize) {
        let own = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
            Value::String(text) => text.len() + 2,
            Value::Array(_) | Value::Object(_) => 2,
        };
        *left = left.saturating_sub(own);
        match value {
            Value::Array(items) => {
                for item in items {
                    if *left == 0 {
                        return;
                    }
                    count(item, left);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    if *left == 0 {
                        return;
                    }
                    *left = left.saturating_sub(name.len() + 4);
                    count(field, left);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut left = most + 1;
    count(value, &mut left);
    left == 0
}

/// The part; an empty text is left in its place.
fn taken(part: &mut ContentPart) -> ContentPart {
    std::mem::replace(part, ContentPart::text(""))
}
