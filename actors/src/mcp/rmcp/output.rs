//! Converts a server's result to a tool's output, complete up to size limits.

use super::tools::is_within;
use bob_messages::chat::ContentPart;
use bob_messages::tools::ToolOutput;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// How deep structured content may be.
const MAX_DEPTH: usize = 64;

/// Limit of structured content as JSON, in bytes. Servers repeat it as text, so little is lost.
const MAX_STRUCTURED_BYTES: usize = 1 << 20;

pub(super) fn from(result: CallToolResult) -> ToolOutput {
    let mut parts: Vec<ContentPart> = result.content.into_iter().map(part).collect();
    let structured = match result.structured_content.map(bounded) {
        None => None,
        Some(Ok(structured)) => Some(structured),
        Some(Err(note)) => {
            parts.push(ContentPart::text(note));
            None
        }
    };
    ToolOutput { parts, structured, is_error: result.is_error == Some(true), ..ToolOutput::default() }
}

fn bounded(structured: Value) -> Result<Value, String> {
    if !is_within(&structured, MAX_DEPTH) {
        return Err(format!("[structured content deeper than {MAX_DEPTH} is left out]"));
    }
    match structured.to_string().len() {
        0..=MAX_STRUCTURED_BYTES => Ok(structured),
        bytes => Err(format!("[structured content of {bytes} bytes is left out]")),
    }
}

fn part(block: ContentBlock) -> ContentPart {
    match block {
        ContentBlock::Text(text) => ContentPart::Text { text: text.text },
        ContentBlock::Image(image) => ContentPart::Image { mime_type: image.mime_type, data: image.data },
        ContentBlock::Audio(audio) => ContentPart::Audio { mime_type: audio.mime_type, data: audio.data },
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                ContentPart::Resource { uri, mime_type, text: Some(text), blob: None }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                ContentPart::Resource { uri, mime_type, text: None, blob: Some(blob) }
            }
            _later_kind => unknown(),
        },
        ContentBlock::ResourceLink(link) => {
            ContentPart::ResourceLink { uri: link.uri, name: link.name, mime_type: link.mime_type }
        }
        _later_kind => unknown(),
    }
}

fn unknown() -> ContentPart {
    ContentPart::text("[content of a kind that is not known here]")
}
