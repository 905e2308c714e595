//! `local/list_dir`.

use super::super::function::{FnTool, tool};
use super::super::port::ToolError;
use super::blocking;
use super::confine::{Place, place, visible};
use bob_messages::tools::{ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

/// How many entries of one folder are shown.
const MAX_ENTRIES: usize = 1000;

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

pub(super) fn list_dir() -> FnTool {
    tool("local/list_dir", "List the files in the folder", |arguments: ListDir, invocation| {
        blocking(invocation, move |invocation, _| list(&place(&invocation.context.roots, &arguments.path)?))
    })
    .kind(ToolKind::Read)
    .read_only()
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
#[path = "list_tests.rs"]
mod tests;
