//! `local/find_files`.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::place;
use super::protection::Protected;
use super::walk::{Covered, Pattern, Walk};
use super::{MAX_TEXT_BYTES, Unwanted, blocking};
use bob_messages::tools::{ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many paths are shown at most.
const MAX_PATHS: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindFiles {
    /// Glob of a name (*.rs), or of a path below `path` (src/**/*.rs)
    pattern: String,
    /// Folder to look through
    #[serde(default = "super::list::here")]
    path: String,
}

const DESCRIPTION: &str =
    "Find files and folders by name. Sorted, folders end in /; what git ignores is left out. At most 500 are shown";

pub(super) fn find_files(protected: Arc<Protected>) -> FnTool {
    tool("local/find_files", DESCRIPTION, move |arguments: FindFiles, invocation| {
        let protected = Arc::clone(&protected);
        blocking(invocation, move |invocation, unwanted| find(invocation, &arguments, &protected, unwanted))
    })
    .kind(ToolKind::Search)
    .read_only()
}

fn find(
    invocation: &Invocation,
    wanted: &FindFiles,
    protected: &Arc<Protected>,
    unwanted: &Unwanted,
) -> Result<ToolOutput, ToolError> {
    let place = place(&invocation.context.roots, &wanted.path)?;
    let pattern = Pattern::new(&wanted.pattern)?;
    let walk = Walk::new(&place, protected, invocation, unwanted)?;
    let (mut lines, mut bytes, mut left_out) = (Vec::new(), 0, 0_usize);
    let covered = walk.each(|found| {
        let is_start_folder = found.is_folder && found.below.as_os_str().is_empty();
        if is_start_folder || !pattern.is_match(found) {
            return ControlFlow::Continue(());
        }
        let line = walk.shown(found) + if found.is_folder { "/" } else { "" };
        if left_out > 0 || lines.len() == MAX_PATHS || bytes + line.len() > MAX_TEXT_BYTES {
            left_out += 1;
        } else {
            bytes += line.len() + 1;
            lines.push(line);
        }
        ControlFlow::Continue(())
    })?;
    if lines.is_empty() && covered == Covered::All {
        lines.push(format!("[no file matches {:?}]", wanted.pattern));
    }
    if left_out > 0 {
        let all = lines.len() + left_out;
        lines.push(format!("[{left_out} of {all} are not shown; narrow `pattern` or `path`]"));
    }
    if covered == Covered::Part {
        lines.push("[the time was over before everything was looked at; narrow `path`]".to_owned());
    }
    Ok(ToolOutput { locations: vec![place.location(None)], ..ToolOutput::text(lines.join("\n")) })
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
