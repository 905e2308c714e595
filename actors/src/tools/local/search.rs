//! `local/search_files`.

use super::super::function::{FnTool, tool};
use super::super::port::ToolError;
use super::confine::{Place, place, visible};
use super::protection::Protected;
use super::{Unwanted, blocking};
use bob_messages::tools::{Location, ToolKind, ToolOutput};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many lines are shown at most.
const MAX_HITS: usize = 200;
/// How much of one line is shown, in bytes.
const MAX_LINE_BYTES: usize = 300;
/// Files larger than this are passed over, in bytes.
const MAX_SEARCHED_BYTES: u64 = 16 * 1024 * 1024;
/// How much memory one line or one pattern may take, in bytes.
const MAX_HEAP_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchFiles {
    /// Text or regular expression to find
    pattern: String,
    /// Folder or file to search
    #[serde(default = "super::read::here")]
    path: String,
}

pub(super) fn search_files(protected: Arc<Protected>) -> FnTool {
    tool("local/search_files", "Find lines in files", move |arguments: SearchFiles, invocation| {
        let protected = Arc::clone(&protected);
        blocking(invocation, move |invocation, unwanted| {
            search(&place(&invocation.context.roots, &arguments.path)?, &arguments.pattern, &protected, unwanted)
        })
    })
    .kind(ToolKind::Search)
    .read_only()
}

/// What was found so far.
#[derive(Default)]
struct Hits {
    lines: Vec<String>,
    locations: Vec<Location>,
    is_cut: bool,
}

fn search(
    place: &Place,
    pattern: &str,
    protected: &Arc<Protected>,
    unwanted: &Unwanted,
) -> Result<ToolOutput, ToolError> {
    let matcher = matcher(pattern)?;
    // Links in the path are followed here, inside the root; the walk follows none.
    let start = place.root.canonicalize(&place.relative).map_err(|error| place.explain(&error))?;
    let mut hits = Hits::default();
    for entry in walk(&place.root_path, &start, protected).flatten() {
        if unwanted.is_so() {
            return Err(ToolError::new("the search was stopped"));
        }
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        // The walk leaves out folders only. One name of a file may be protected, and another one not.
        let has_names = || entry.metadata().is_ok_and(|found| found.nlink() > 1);
        let is_left_out = |relative: &Path| {
            protected.is_left_out(&place.root_path, relative)
                || (has_names() && protected.is_otherwise_left_out(place, relative))
        };
        if let Ok(relative) = entry.path().strip_prefix(&place.root_path)
            && is_file
            && !(entry.depth() > 0 && is_left_out(relative))
        {
            search_file(place, relative, &start, &matcher, &mut hits);
        }
        if hits.is_cut {
            break;
        }
    }
    let Hits { mut lines, locations, is_cut } = hits;
    if is_cut {
        lines.push(format!("[only the first {MAX_HITS} lines are shown; search for something narrower]"));
    }
    let text = if lines.is_empty() { format!("[no line has {pattern:?}]") } else { lines.join("\n") };
    Ok(ToolOutput { locations, ..ToolOutput::text(text) })
}

fn matcher(pattern: &str) -> Result<RegexMatcher, ToolError> {
    let bounded = |builder: &mut RegexMatcherBuilder| {
        builder.line_terminator(Some(b'\n')).size_limit(MAX_HEAP_BYTES).dfa_size_limit(MAX_HEAP_BYTES);
    };
    let mut builder = RegexMatcherBuilder::new();
    bounded(&mut builder);
    builder.build(pattern).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        ToolError::new(format!("{pattern:?} is not a regular expression for one line: {reason}"))
    })
}

/// Every file beneath, in order of names; what ignore files leave out is left out, and so is what is
/// protected, but where the search begins: that was looked at before the call ran. Nothing outside the
/// folder is asked for more of them.
fn walk(root: &Path, start: &Path, protected: &Arc<Protected>) -> ignore::Walk {
    let (within, protected) = (root.to_owned(), Arc::clone(protected));
    let is_left_out = move |path: &Path| {
        let relative = path.strip_prefix(&within).unwrap_or(path);
        protected.is_left_out(&within, relative)
    };
    WalkBuilder::new(root.join(start))
        .follow_links(false)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .max_filesize(Some(MAX_SEARCHED_BYTES))
        .filter_entry(move |entry| entry.depth() == 0 || !is_left_out(entry.path()))
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .build()
}

/// Adds the hits of one file. It is opened through the root, so that a link swapped
/// in after the walk saw it leads nowhere; a file that cannot be read has no hits.
fn search_file(place: &Place, relative: &Path, start: &Path, matcher: &RegexMatcher, hits: &mut Hits) {
    let shown = shown(place, relative, start);
    let here = Place {
        root: match place.root.try_clone() {
            Ok(root) => root,
            Err(_out_of_descriptors) => return,
        },
        root_path: place.root_path.clone(),
        relative: relative.to_owned(),
        shown: shown.clone(),
    };
    let Ok(file) = here.open_file() else { return };
    let sink = Lossy(|number, line| {
        if hits.lines.len() == MAX_HITS {
            hits.is_cut = true;
            return Ok(false);
        }
        hits.lines.push(format!("{shown}:{number}: {}", cut(line.trim_end_matches(['\n', '\r']))));
        hits.locations.push(Location { path: shown.clone(), line: u32::try_from(number).ok() });
        Ok(true)
    });
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP_BYTES))
        .line_number(true)
        .build();
    if let Err(error) = searcher.search_file(matcher, &file.into_std(), sink) {
        tracing::debug!(%error, "a file could not be searched to its end");
    }
}

/// The file as the model may name it in its next call: beneath the path it gave.
fn shown(place: &Place, relative: &Path, start: &Path) -> String {
    let given = Path::new(&place.shown);
    let path: PathBuf = match relative.strip_prefix(start) {
        Ok(rest) if rest.as_os_str().is_empty() => given.to_owned(),
        Ok(rest) => given.join(rest),
        Err(_start_is_the_root) if given == Path::new(".") => relative.to_owned(),
        Err(_start_is_the_root) => given.join(relative),
    };
    visible(&path.strip_prefix(".").unwrap_or(&path).to_string_lossy())
}

fn cut(line: &str) -> String {
    if line.len() <= MAX_LINE_BYTES {
        return line.to_owned();
    }
    format!("{} […]", &line[..line.floor_char_boundary(MAX_LINE_BYTES)])
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
