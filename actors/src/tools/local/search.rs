//! `local/search_files`.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::{Place, place};
use super::protection::Protected;
use super::walk::{Covered, Found, Pattern, Walk};
use super::{MAX_FILE_BYTES, MAX_TEXT_BYTES, Unwanted, blocking};
use bob_messages::tools::{Location, TextEncoding, ToolKind, ToolOutput};
use encoding_rs::WINDOWS_1252;
use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many matching lines, or files, are shown at most.
const MAX_HITS: usize = 200;
/// How many matching lines are counted before the search ends.
const MAX_COUNTED: usize = 10_000;
/// How much of one line is shown, in bytes.
const MAX_LINE_BYTES: usize = 300;
/// Files larger than this are passed over, unless one is named, in bytes.
const MAX_SEARCHED_BYTES: u64 = 16 * 1024 * 1024;
/// In how much of a large file a zero byte is looked for before the rest is read, in bytes.
const FIRST_BYTES: u64 = 64 * 1024;
/// How many types of files are told when one is unknown.
const MAX_TYPES_TOLD: usize = 5;
/// How much memory one line or one pattern may take, in bytes.
const MAX_HEAP_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchFiles {
    /// Text or regular expression to find
    pattern: String,
    /// Folder or file to search
    #[serde(default = "super::list::here")]
    path: String,
    /// Search only files that match this glob: *.rs, or src/**/*.rs
    #[serde(default)]
    #[schemars(with = "String")]
    glob: Option<String>,
    /// Search only files of this type: rust, py, js, md, json and more
    #[serde(default, rename = "type")]
    #[schemars(with = "String")]
    kind: Option<String>,
    /// Lines to show before and after each match
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// Whether upper and lower case are the same
    #[serde(default)]
    ignore_case: bool,
    /// What to show
    #[serde(default)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Output {
    #[default]
    Lines,
    Files,
    Counts,
}

const DESCRIPTION: &str = "Find lines in files. Shown as path:number: line, with - instead of : around context. Binary \
                           files and what git ignores are left out. At most 200 matches are shown";

pub(super) fn search_files(protected: Arc<Protected>) -> FnTool {
    tool("local/search_files", DESCRIPTION, move |arguments: SearchFiles, invocation| {
        let protected = Arc::clone(&protected);
        blocking(invocation, move |invocation, unwanted| search(invocation, &arguments, &protected, unwanted))
    })
    .kind(ToolKind::Search)
    .read_only()
}

fn search(
    invocation: &Invocation,
    wanted: &SearchFiles,
    protected: &Arc<Protected>,
    unwanted: &Unwanted,
) -> Result<ToolOutput, ToolError> {
    let place = place(&invocation.context.roots, &wanted.path)?;
    let matcher = matcher(&wanted.pattern, wanted.ignore_case)?;
    let pattern = wanted.glob.as_deref().map(Pattern::new).transpose()?;
    let types = wanted.kind.as_deref().map(types).transpose()?;
    let is_wanted = |found: &Found| {
        pattern.as_ref().is_none_or(|pattern| pattern.is_match(found))
            && types.as_ref().is_none_or(|types| types.matched(&found.relative, false).is_whitelist())
    };
    let walk = Walk::new(&place, protected, invocation, unwanted)?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP_BYTES))
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .before_context(if wanted.output == Output::Lines { wanted.context } else { 0 })
        .after_context(if wanted.output == Output::Lines { wanted.context } else { 0 })
        .build();
    let mut hits = Hits { output: wanted.output, has_context: wanted.context > 0, ..Hits::default() };
    let covered = walk.each(|found| {
        let is_named = found.below.as_os_str().is_empty();
        if found.is_folder || !(is_named || is_wanted(found)) {
            return ControlFlow::Continue(());
        }
        if !is_named && found.size() > MAX_SEARCHED_BYTES {
            hits.too_large += 1;
            return ControlFlow::Continue(());
        }
        search_file(&walk, found, &mut searcher, &matcher, &mut hits);
        if hits.is_counted_out() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let (mut lines, locations) = (hits.notices(covered, &wanted.pattern), hits.locations);
    lines.splice(0..0, hits.lines);
    let mut output = ToolOutput { locations, ..ToolOutput::text(lines.join("\n")) };
    if output.locations.is_empty() {
        output.locations.push(place.location(None));
    }
    Ok(output)
}

fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).crlf(true).size_limit(MAX_HEAP_BYTES).dfa_size_limit(MAX_HEAP_BYTES);
    builder.case_insensitive(ignore_case).build(pattern).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        ToolError::new(format!("{pattern:?} is not a regular expression for one line: {reason}"))
    })
}

fn types(kind: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(kind).build().map_err(|_unknown| {
        let known = builder.definitions();
        let mut near: Vec<_> = known.iter().map(|of| (strsim::jaro_winkler(of.name(), kind), of.name())).collect();
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let near: Vec<_> = near.into_iter().take(MAX_TYPES_TOLD).map(|(_, name)| name).collect();
        let near = near.join(", ");
        ToolError::new(format!("there is no type of files {kind:?}; the nearest are {near}; or use `glob`"))
    })
}

/// Adds the hits of one file. It is opened through the root, so that a link swapped
/// in after the walk saw it leads nowhere; a file that cannot be read has no hits.
fn search_file(walk: &Walk<'_>, found: &Found, searcher: &mut Searcher, matcher: &RegexMatcher, hits: &mut Hits) {
    let shown = walk.shown(found);
    let here = Place {
        root: match walk.place.root.try_clone() {
            Ok(root) => root,
            Err(_out_of_descriptors) => return,
        },
        root_path: walk.place.root_path.clone(),
        relative: found.relative.clone(),
        shown: shown.clone(),
    };
    let Ok(file) = here.open_file() else { return };
    let mut of_file = OfFile { hits, shown: &shown, matches: 0, is_begun: false };
    if let Err(error) = search_text(file.into_std(), searcher, matcher, &mut of_file) {
        tracing::debug!(%error, "a file could not be searched to its end");
    }
    of_file.end();
}

/// Searches a file as `read_file` shows it. One that is too large to be edited is Windows-1252 if its beginning is, else searched as
/// UTF-8, or as UTF-16 by its mark.
fn search_text(
    mut file: std::fs::File,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    of_file: &mut OfFile<'_>,
) -> io::Result<()> {
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return match is_windows_1252(&mut file)? {
            true => {
                let decoded = DecodeReaderBytesBuilder::new().encoding(Some(WINDOWS_1252)).build(&file);
                searcher.search_reader(matcher, decoded, of_file)
            }
            false => searcher.search_file(matcher, &file, of_file),
        };
    }
    let mut bytes = Vec::new();
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    match TextEncoding::decode(&bytes) {
        Some((text, _)) => searcher.search_slice(matcher, text.trim_start_matches('\u{feff}').as_bytes(), of_file),
        None => searcher.search_slice(matcher, &bytes, of_file),
    }
}

/// Whether the beginning of a large file is Windows-1252; all of one that is searched without being named.
fn is_windows_1252(file: &mut std::fs::File) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.take(FIRST_BYTES).read_to_end(&mut bytes)?;
    let is_text = !bytes.contains(&0);
    if is_text {
        file.take(MAX_SEARCHED_BYTES - FIRST_BYTES).read_to_end(&mut bytes)?;
    }
    file.rewind()?;
    Ok(is_text && matches!(TextEncoding::decode(&bytes), Some((_, TextEncoding::Windows1252))))
}

#[derive(Default)]
struct Hits {
    output: Output,
    has_context: bool,
    lines: Vec<String>,
    bytes: usize,
    locations: Vec<Location>,
    /// Matching lines in all; at most one for each file when only files are asked for.
    matches: usize,
    /// Files with matches.
    files: usize,
    /// Matching lines, or files, that are shown.
    shown: usize,
    /// Files that were passed over for their size.
    too_large: usize,
}

impl Hits {
    /// Shows a line of the result, if there is room for it.
    fn push(&mut self, line: String) -> bool {
        if self.bytes + line.len() > MAX_TEXT_BYTES {
            self.bytes = MAX_TEXT_BYTES;
            return false;
        }
        self.bytes += line.len() + 1;
        self.lines.push(line);
        true
    }

    fn is_counted_out(&self) -> bool {
        self.output == Output::Lines && self.matches > MAX_COUNTED
    }

    /// What is not shown, and what to do about it.
    fn notices(&self, covered: Covered, pattern: &str) -> Vec<String> {
        let mut notices = Vec::new();
        let (all, what) = match self.output {
            Output::Lines => (self.matches, "matching lines"),
            Output::Files | Output::Counts => (self.files, "files with matches"),
        };
        if all == 0 && covered == Covered::All {
            notices.push(format!("[no line has {pattern:?}]"));
        }
        if self.shown < all {
            let all = if self.is_counted_out() { format!("more than {MAX_COUNTED}") } else { all.to_string() };
            let narrow = "narrow `pattern`, `path`, `glob` or `type`, or ask for \"output\": \"files\"";
            notices.push(format!("[only the first {} of {all} {what} are shown; {narrow}]", self.shown));
        }
        if self.too_large > 0 {
            let mib = MAX_SEARCHED_BYTES >> 20;
            let many =
                if self.too_large == 1 { "1 file is".to_owned() } else { format!("{} files are", self.too_large) };
            notices.push(format!("[{many} larger than {mib} MiB and not searched; name one as `path` to search it]"));
        }
        if covered == Covered::Part {
            notices.push("[the time was over before everything was searched; narrow `path` or `glob`]".to_owned());
        }
        notices
    }
}

struct OfFile<'a> {
    hits: &'a mut Hits,
    shown: &'a str,
    matches: usize,
    is_begun: bool,
}

impl OfFile<'_> {
    fn end(self) {
        let Self { hits, shown, matches, is_begun: _ } = self;
        if matches == 0 {
            return;
        }
        hits.files += 1;
        let line = match hits.output {
            Output::Lines => return,
            Output::Files => shown.to_owned(),
            Output::Counts => format!("{shown}: {matches}"),
        };
        // Once one has no room the later ones are not shown either: what is shown is the beginning.
        if hits.shown + 1 == hits.files && hits.shown < MAX_HITS && hits.push(line) {
            hits.shown += 1;
            hits.locations.push(Location { path: shown.to_owned(), line: None });
        }
    }

    /// Whether every match until now is shown, and the next one may be, too.
    fn is_open(&self) -> bool {
        self.hits.shown == self.hits.matches && self.hits.shown < MAX_HITS
    }

    /// Separates what is shown of this file from what is shown of another one.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) && self.hits.has_context && !self.hits.lines.is_empty() {
            self.hits.push("--".to_owned());
        }
    }
}

impl Sink for OfFile<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let is_open = self.is_open();
        self.matches += 1;
        self.hits.matches += 1;
        match self.hits.output {
            Output::Files => return Ok(false),
            Output::Counts => return Ok(true),
            Output::Lines => {}
        }
        if is_open {
            self.begin();
            let number = found.line_number().unwrap_or_default();
            let line = format!("{}:{number}: {}", self.shown, text(found.bytes()));
            if self.hits.push(line) {
                self.hits.shown += 1;
                let line = u32::try_from(number).ok();
                self.hits.locations.push(Location { path: self.shown.to_owned(), line });
            }
        }
        Ok(!self.hits.is_counted_out())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let is_of_shown = match context.kind() {
            SinkContextKind::After => self.hits.shown == self.hits.matches,
            SinkContextKind::Before | SinkContextKind::Other => self.is_open(),
        };
        if is_of_shown {
            self.begin();
            let number = context.line_number().unwrap_or_default();
            self.hits.push(format!("{}-{number}- {}", self.shown, text(context.bytes())));
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.is_open() {
            self.hits.push("--".to_owned());
        }
        Ok(true)
    }
}

/// A line without its end, as text, and not longer than is shown.
fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    cut(&String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)))
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
