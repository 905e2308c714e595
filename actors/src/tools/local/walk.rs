//! The files beneath a path, for the tools that look through folders.
//!
//! What ignore files leave out is left out, also by those between the root and the path; a path that is itself ignored is
//! looked through, since it was named. What is protected is left out, but where the walk begins: that was looked at before
//! the call ran. Nothing outside the root is asked for more ignore files.

use super::super::port::{Invocation, ToolError};
use super::Unwanted;
use super::confine::{Place, visible};
use super::protection::Protected;
use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long before the end of the call a walk stops, so that what it found is still returned.
const TIME_TO_RETURN: Duration = Duration::from_millis(500);

/// A walk in the order of names, through one path.
pub(super) struct Walk<'a> {
    pub(super) place: &'a Place,
    /// Where it begins, from the root, with links followed; empty at the root itself.
    start: PathBuf,
    protected: &'a Arc<Protected>,
    unwanted: &'a Unwanted,
    ends_at: Instant,
}

pub(super) struct Found {
    pub(super) relative: PathBuf,
    /// Its path from where the walk began; empty there.
    pub(super) below: PathBuf,
    pub(super) is_folder: bool,
    entry: DirEntry,
}

impl Found {
    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.entry.metadata().map_or(0, |found| found.len())
    }
}

/// How a walk ended that was not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Covered {
    All,
    /// The time of the call was nearly over.
    Part,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        place: &'a Place,
        protected: &'a Arc<Protected>,
        invocation: &Invocation,
        unwanted: &'a Unwanted,
    ) -> Result<Self, ToolError> {
        // Links in the path are followed here, inside the root; the walk follows none.
        let start = place.root.canonicalize(&place.relative).map_err(|error| place.explain(&error))?;
        let start = if start == Path::new(".") { PathBuf::new() } else { start };
        Ok(Self { place, start, protected, unwanted, ends_at: invocation.deadline - TIME_TO_RETURN })
    }

    /// Shows every file and folder to `visit`, until it breaks.
    pub(super) fn each(&self, mut visit: impl FnMut(&Found) -> ControlFlow<()>) -> Result<Covered, ToolError> {
        let mut is_reached = false;
        // From the root on, since the ignore files on the way count; straight there when they leave the path out.
        for from in [Path::new(""), &self.start] {
            if is_reached {
                break;
            }
            for entry in self.entries(from).flatten() {
                if self.unwanted.is_so() {
                    return Err(ToolError::new("the search was stopped"));
                }
                if Instant::now() >= self.ends_at {
                    return Ok(Covered::Part);
                }
                let Some(found) = self.found(entry) else { continue };
                is_reached = true;
                if visit(&found).is_break() {
                    return Ok(Covered::All);
                }
            }
        }
        Ok(Covered::All)
    }

    fn entries(&self, from: &Path) -> ignore::Walk {
        let (root, start, protected) = (self.place.root_path.clone(), self.start.clone(), Arc::clone(self.protected));
        let is_wanted = move |path: &Path| {
            let relative = path.strip_prefix(&root).unwrap_or(path);
            // On the way to the start, at it, or beneath it.
            start.starts_with(relative) || (relative.starts_with(&start) && !protected.is_left_out(&root, relative))
        };
        // Joining an empty path would add a separator.
        let from =
            if from.as_os_str().is_empty() { self.place.root_path.clone() } else { self.place.root_path.join(from) };
        WalkBuilder::new(from)
            .follow_links(false)
            .hidden(false)
            .parents(false)
            .git_global(false)
            .require_git(false)
            .filter_entry(move |entry| is_wanted(entry.path()))
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .build()
    }

    /// What an entry is, when it is at the start or beneath it, and a file or a folder.
    fn found(&self, entry: DirEntry) -> Option<Found> {
        let relative = entry.path().strip_prefix(&self.place.root_path).ok()?.to_owned();
        let below = relative.strip_prefix(&self.start).ok()?.to_owned();
        let kind = entry.file_type()?;
        let is_there = kind.is_dir() || (kind.is_file() && !self.is_otherwise_left_out(&entry, &relative, &below));
        is_there.then(|| Found { relative, below, is_folder: kind.is_dir(), entry })
    }

    /// One name of a file may be protected, and another one not.
    fn is_otherwise_left_out(&self, entry: &DirEntry, relative: &Path, below: &Path) -> bool {
        let has_names = || entry.metadata().is_ok_and(|found| found.nlink() > 1);
        !below.as_os_str().is_empty() && has_names() && self.protected.is_otherwise_left_out(self.place, relative)
    }

    /// The path as the model may name it in its next call: beneath the path it gave.
    pub(super) fn shown(&self, found: &Found) -> String {
        let given = Path::new(&self.place.shown);
        let path = if found.below.as_os_str().is_empty() { given.to_owned() } else { given.join(&found.below) };
        visible(&path.strip_prefix(".").unwrap_or(&path).to_string_lossy())
    }
}

pub(super) struct Pattern {
    matcher: GlobMatcher,
    /// Without a separator it is about names, in any folder.
    is_of_names: bool,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        let plain = pattern.trim_start_matches("./").trim_end_matches('/');
        if Path::new(plain).is_absolute() || plain.is_empty() {
            let told = format!("{pattern:?} is no pattern beneath `path`: give one like \"*.rs\" or \"src/**/*.rs\"");
            return Err(ToolError::new(told));
        }
        let glob = GlobBuilder::new(plain).literal_separator(true).build();
        let glob = glob.map_err(|error| ToolError::new(format!("{pattern:?} is not a glob: {}", error.kind())))?;
        Ok(Self { matcher: glob.compile_matcher(), is_of_names: !plain.contains('/') })
    }

    pub(super) fn is_match(&self, found: &Found) -> bool {
        let name = || found.relative.file_name().map(Path::new);
        // A walk through one file has nothing beneath it.
        let path =
            if self.is_of_names || found.below.as_os_str().is_empty() { name() } else { Some(found.below.as_path()) };
        path.is_some_and(|path| self.matcher.is_match(path))
    }
}
