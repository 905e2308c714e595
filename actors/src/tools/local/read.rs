//! `local/read_file` and `local/list_dir`.

use super::super::function::{FnTool, tool};
use super::super::port::ToolError;
use super::confine::{Place, place, visible};
use super::{MAX_FILE_BYTES, blocking};
use bob_messages::chat::ContentPart;
use bob_messages::tools::{ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::Read;

/// How many entries of one folder are shown.
const MAX_ENTRIES: usize = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// Path of the file
    path: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDir {
    /// Path of the folder
    #[serde(default = "here")]
    path: String,
}

pub(super) fn here() -> String {
    ".".to_owned()
}

pub(super) fn read_file() -> FnTool {
    tool("local/read_file", "Read the file", |arguments: ReadFile, invocation| {
        blocking(invocation, move |invocation, _| read(&place(&invocation.context.roots, &arguments.path)?))
    })
    .kind(ToolKind::Read)
    .read_only()
}

pub(super) fn list_dir() -> FnTool {
    tool("local/list_dir", "List the files in the folder", |arguments: ListDir, invocation| {
        blocking(invocation, move |invocation, _| list(&place(&invocation.context.roots, &arguments.path)?))
    })
    .kind(ToolKind::Read)
    .read_only()
}

fn read(place: &Place) -> Result<ToolOutput, ToolError> {
    let (bytes, length) = read_head(place)?;
    let is_cut = length > bytes.len() as u64;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The cut may go through a character.
        Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(valid);
            String::from_utf8(bytes).unwrap_or_default()
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let shown = &place.shown;
            return Err(ToolError::new(format!("{shown:?} is not a text file: byte {at} is not UTF-8")));
        }
    };
    let mut parts = Vec::new();
    if is_cut {
        let notice = format!("[only the first {} of {length} bytes follow]", text.len());
        parts.push(ContentPart::text(notice));
    }
    parts.push(ContentPart::text(if text.is_empty() { "[the file is empty]".to_owned() } else { text }));
    Ok(ToolOutput { parts, locations: vec![place.location(None)], ..ToolOutput::default() })
}

/// The first bytes of a file, and how long it is. A file that grows while it is
/// read is no longer than what was read of it.
pub(super) fn read_head(place: &Place) -> Result<(Vec<u8>, u64), ToolError> {
    let explain = |error: std::io::Error| place.explain(&error);
    let mut file = place.open_file()?;
    let length = file.metadata().map_err(explain)?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(MAX_FILE_BYTES)).unwrap_or_default());
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(explain)?;
    let length = length.max(bytes.len() as u64);
    Ok((bytes, length))
}

fn list(place: &Place) -> Result<ToolOutput, ToolError> {
    let explain = |error: std::io::Error| place.explain(&error);
    let mut names = Vec::new();
    for entry in place.root.read_dir(&place.relative).map_err(explain)? {
        let entry = entry.map_err(explain)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = visible(&entry.file_name().to_string_lossy());
        names.push(if is_folder { format!("{name}/") } else { name });
    }
    names.sort_unstable();
    let all = names.len();
    names.truncate(MAX_ENTRIES);
    if all > MAX_ENTRIES {
        names.push(format!("[{} of {all} entries are not shown]", all - MAX_ENTRIES));
    }
    let text = if names.is_empty() { "[the folder is empty]".to_owned() } else { names.join("\n") };
    Ok(ToolOutput { locations: vec![place.location(None)], ..ToolOutput::text(text) })
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
