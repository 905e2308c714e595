//! Paths that stay inside the session's folders.
//!
//! A path is looked up beneath an open root folder, never by its full name, so neither `..`, nor a link, nor a link
//! swapped in between leads out. An absolute path inside a root is first made relative to it. What a hard link names is
//! in the folder for all the system can tell, and is read; writing replaces the name and leaves the other names of the
//! file alone.

use super::super::port::ToolError;
use bob_messages::tools::Location;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many names of a folder are told when one is missing.
const MAX_NAMES_TOLD: usize = 8;
/// How many names of a folder are looked at for that.
const MAX_NAMES_READ: usize = 1000;
/// How like a name must be to be told when there are too many for all.
const ALIKE: f64 = 0.75;

/// A path inside one of the session's folders; nothing need be there.
pub(super) struct Place {
    /// The folder it is in.
    pub(super) root: Dir,
    /// Where that folder is, with links resolved.
    pub(super) root_path: PathBuf,
    /// The path from there; `.` is the folder itself.
    pub(super) relative: PathBuf,
    /// The path as the tool was given it.
    pub(super) shown: String,
}

/// Finds the root a path is in: the first one for relative paths.
pub(super) fn place(roots: &[String], path: &str) -> Result<Place, ToolError> {
    let path = if path.trim().is_empty() { "." } else { path };
    if path.contains('\0') {
        return Err(ToolError::new("the path contains a zero byte"));
    }
    let first = roots.first().ok_or_else(|| ToolError::new("this session has no folder to work in"))?;
    let outside = || ToolError::new(format!("{path:?} is outside the workspace; use a path inside {first}"));
    if !Path::new(path).is_absolute() {
        let (root, root_path) = open_root(first)?;
        return Ok(Place { root, root_path, relative: tidy(Path::new(path)), shown: path.to_owned() });
    }
    for root in roots {
        let inside = |base: &Path| Path::new(path).strip_prefix(base).ok().map(tidy);
        let by_name = inside(Path::new(root));
        let real = || std::fs::canonicalize(root).ok().and_then(|real| inside(&real));
        if let Some(relative) = by_name.or_else(real) {
            let (root, root_path) = open_root(root)?;
            return Ok(Place { root, root_path, relative, shown: path.to_owned() });
        }
    }
    Err(outside())
}

fn open_root(root: &str) -> Result<(Dir, PathBuf), ToolError> {
    let opened = std::fs::canonicalize(root)
        .and_then(|path| Dir::open_ambient_dir(&path, ambient_authority()).map(|dir| (dir, path)));
    opened.map_err(|error| ToolError::new(format!("the workspace {root} cannot be opened: {}", plain(&error))))
}

/// Without `.` parts; the folder itself is `.`.
fn tidy(path: &Path) -> PathBuf {
    let tidy: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if tidy.as_os_str().is_empty() { PathBuf::from(".") } else { tidy }
}

impl Place {
    /// Where the path leads, from the root, with the links in it followed. What is not there yet is where it would be
    /// made: `..` behind it takes back what is before it.
    pub(super) fn real(&self) -> PathBuf {
        let mut real = PathBuf::new();
        for part in self.relative.components() {
            match part {
                Component::Normal(name) => {
                    let next = real.join(name);
                    let is_link = self.root.symlink_metadata(&next).is_ok_and(|found| found.is_symlink());
                    // A link that leads nowhere, or out, is refused by the tool itself.
                    let followed = if is_link { self.root.canonicalize(&next).ok() } else { None };
                    real = followed.unwrap_or(next);
                }
                Component::ParentDir => {
                    real.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        real
    }

    /// The whole path, with the links in it followed: one file has one.
    pub(super) fn full(&self) -> PathBuf {
        self.root_path.join(self.real())
    }

    /// Opens a regular file for reading. Never waits for the other end of a pipe.
    pub(super) fn open_file(&self) -> Result<File, ToolError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        let file = self.root.open_with(&self.relative, &options).map_err(|error| self.explain(&error))?;
        let kind = file.metadata().map_err(|error| self.explain(&error))?;
        if kind.is_dir() {
            return Err(ToolError::new(format!("{:?} is a folder, not a file; list it instead", self.shown)));
        }
        if !kind.is_file() {
            return Err(ToolError::new(format!("{:?} is not a regular file", self.shown)));
        }
        Ok(file)
    }

    pub(super) fn location(&self, line: Option<u32>) -> Location {
        Location { path: self.shown.clone(), line }
    }

    pub(super) fn explain(&self, error: &io::Error) -> ToolError {
        let shown = &self.shown;
        ToolError::new(match error.kind() {
            io::ErrorKind::NotFound => match self.names_near() {
                Some(names) => format!("there is no {shown:?}; {names}"),
                None => format!("there is no {shown:?}"),
            },
            // The system numbers its own refusals; the confined lookup does not.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                format!("{shown:?} leads outside the workspace; use a path inside it")
            }
            io::ErrorKind::NotADirectory => {
                format!("{shown:?} is not a folder, or goes through something that is none")
            }
            _ => format!("{shown:?} cannot be used: {}", plain(error)),
        })
    }

    /// The names in the folder in which something is missing: all when they are few, else those most like it.
    fn names_near(&self) -> Option<String> {
        let wanted = self.relative.file_name()?.to_string_lossy().to_lowercase();
        let parent = self.relative.parent().filter(|parent| !parent.as_os_str().is_empty());
        let entries = self.root.read_dir(parent.unwrap_or(Path::new("."))).ok()?;
        let mut names: Vec<String> =
            entries.flatten().take(MAX_NAMES_READ).map(|entry| visible(&entry.file_name().to_string_lossy())).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Some("its folder is empty".to_owned());
        }
        if names.len() > MAX_NAMES_TOLD {
            let likeness = |name: &String| strsim::jaro_winkler(&name.to_lowercase(), &wanted);
            names.retain(|name| likeness(name) >= ALIKE);
            names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
            names.truncate(MAX_NAMES_TOLD);
            return (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")));
        }
        Some(format!("its folder has {}", names.join(", ")))
    }
}

pub(super) fn visible(name: &str) -> String {
    if name.contains(char::is_control) { name.escape_debug().to_string() } else { name.to_owned() }
}

/// The system's words without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    words.to_lowercase()
}

#[cfg(test)]
#[path = "confine_tests.rs"]
mod tests;
