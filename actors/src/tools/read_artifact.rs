//! `local/read_artifact`: the rest of a result of which the model was shown the beginning and the end.
//!
//! It reads artifacts of its own session only. A model is offered it once its session has one.

use super::function::{FnTool, tool};
use super::port::{Invocation, ToolError};
use crate::store::{ArtifactStorePort, Artifacts, StoredArtifact};
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::{SessionId, ToolName};
use bob_messages::tools::{Risk, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;

/// How much is read when no length is given, in bytes.
const LENGTH: u64 = 16 * 1024;

/// How much is read at most, in bytes: so much is shown to a model with its heading.
const MOST: u64 = 60 * 1024;

/// How many digits of an id are enough, if only one artifact begins with them.
const LEAST_DIGITS: usize = 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The id, as the result names it
    id: String,
    /// The first byte to read, from 0
    #[serde(default)]
    offset: u64,
    /// How many bytes to read
    #[serde(default)]
    #[schemars(range(min = 1, max = 61_440))]
    length: Option<u64>,
}

const DESCRIPTION: &str =
    "Read a range of a large result that was shown only in part. The id and the size stand where it was cut";

/// The tool that reads the artifacts of these sessions.
pub fn read_artifact(artifacts: Artifacts) -> FnTool {
    let read = move |read: Read, call: Invocation| {
        let artifacts = artifacts.clone();
        async move { answer(&artifacts, &call.context.session, &read).await }
    };
    tool(ToolName::READ_ARTIFACT, DESCRIPTION, read)
        .title("read result")
        .kind(ToolKind::Read)
        .risk(Risk::Low)
        .read_only()
}

async fn answer(artifacts: &Artifacts, session: &SessionId, read: &Read) -> Result<String, ToolError> {
    let port = artifacts.port().ok_or_else(|| ToolError::new("this runtime keeps no artifacts"))?;
    let StoredArtifact { id, bytes } = find(&**port, session, &read.id).await?;
    let start = read.offset.min(bytes);
    // A character may lie over either end: three bytes more hold the rest of the last one.
    let end = start.saturating_add(read.length.unwrap_or(LENGTH).clamp(1, MOST)).min(bytes);
    let range = start..end.saturating_add(3);
    let content = port.get(session, &id, range).await.map_err(|error| ToolError::new(error.to_string()))?;
    let content = content.ok_or_else(|| unknown(&read.id))?;
    let (skipped, text) = text(&content, usize::try_from(end - start).unwrap_or(usize::MAX), start > 0)
        .ok_or_else(|| ToolError::new(format!("the artifact {} is no text", id.short())))?;
    let (first, last) = (start + skipped as u64, start + (skipped + text.len()) as u64);
    let more = match last < bytes {
        true => format!("; the next byte is {last}"),
        false => "; this is its end".to_owned(),
    };
    Ok(format!("[bytes {first} to {last} of {bytes}{more}]\n{text}"))
}

async fn find(port: &dyn ArtifactStorePort, session: &SessionId, named: &str) -> Result<StoredArtifact, ToolError> {
    let list = port.list(session).await.map_err(|error| ToolError::new(error.to_string()))?;
    let is_named =
        |id: &ArtifactId| id.as_str() == named || (named.len() >= LEAST_DIGITS && id.as_str().starts_with(named));
    let mut found = list.into_iter().filter(|stored| is_named(&stored.id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(ToolError::new(format!("several artifacts begin with {named}; give more of the id"))),
        (None, _) => Err(unknown(named)),
    }
}

fn unknown(named: &str) -> ToolError {
    ToolError::new(format!("this session has no artifact {named}"))
}

/// The characters that begin within the first `bytes`, and how many bytes of a cut one are before them. `None` when it is no
/// text.
fn text(content: &[u8], bytes: usize, is_cut_before: bool) -> Option<(usize, &str)> {
    let is_rest = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let skipped = if is_cut_before { content.iter().take(3).take_while(|byte| is_rest(byte)).count() } else { 0 };
    let content = &content[skipped..];
    let valid = match std::str::from_utf8(content) {
        Ok(text) => text,
        // Only what was read beyond the range may be cut.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&content[..error.valid_up_to()]).ok()?,
        Err(error) if error.valid_up_to() + skipped >= bytes => {
            std::str::from_utf8(&content[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let end = valid.ceil_char_boundary(bytes.saturating_sub(skipped));
    Some((skipped, &valid[..end]))
}

#[cfg(test)]
#[path = "read_artifact_tests.rs"]
mod tests;
