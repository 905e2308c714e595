//! `local/write_file` and `local/edit_file`.

use super::super::function::{FnTool, tool};
use super::super::port::ToolError;
use super::confine::{Place, place};
use super::{MAX_FILE_BYTES, blocking};
use bob_messages::tools::{FileChange, ToolKind, ToolOutput};
use cap_std::fs::{Dir, OpenOptions, Permissions};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// Path of the file
    path: String,
    /// The whole new text
    content: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFile {
    /// Path of the file
    path: String,
    /// Text to replace; it must be in the file once
    old: String,
    /// Text to put there
    new: String,
}

pub(super) fn write_file() -> FnTool {
    tool("local/write_file", "Write the file", |arguments: WriteFile, invocation| {
        blocking(invocation, move |invocation, _| {
            write(&place(&invocation.context.roots, &arguments.path)?, arguments.content)
        })
    })
    .kind(ToolKind::Edit)
    .idempotent()
}

pub(super) fn edit_file() -> FnTool {
    tool("local/edit_file", "Replace a text in the file", |arguments: EditFile, invocation| {
        blocking(invocation, move |invocation, _| {
            edit(&place(&invocation.context.roots, &arguments.path)?, &arguments.old, &arguments.new)
        })
    })
    .kind(ToolKind::Edit)
}

fn write(place: &Place, content: String) -> Result<ToolOutput, ToolError> {
    let target = Target::find(place)?;
    let before = match target.mode {
        Some(_) => Some(text_before(place)?),
        None => None,
    };
    target.replace(content.as_bytes()).map_err(|error| place.explain(&error))?;
    let done = if before.is_some() { "replaced" } else { "created" };
    Ok(changed(place, format!("{done} {} ({} bytes)", place.shown, content.len()), before, content))
}

fn edit(place: &Place, old: &str, new: &str) -> Result<ToolOutput, ToolError> {
    let shown = &place.shown;
    if old.is_empty() || old == new {
        return Err(ToolError::new("`old` must be a text of the file, and `new` another one"));
    }
    let (bytes, length) = read_head(place)?;
    if length > MAX_FILE_BYTES {
        return Err(ToolError::new(format!("{shown:?} is {length} bytes; at most {MAX_FILE_BYTES} can be edited")));
    }
    let before = String::from_utf8(bytes)
        .map_err(|_| ToolError::new(format!("{shown:?} is not a text file: it is not UTF-8")))?;
    let at = match occurrences(&before, old) {
        (Some(at), 1) => at,
        (_, 0) => return Err(ToolError::new(format!("{shown:?} does not have the text in `old`; read it first"))),
        (_, many) => {
            return Err(ToolError::new(format!(
                "{shown:?} has the text in `old` {many} times; add lines around it until it is there once"
            )));
        }
    };
    let after = format!("{}{new}{}", &before[..at], &before[at + old.len()..]);
    Target::find(place)?.replace(after.as_bytes()).map_err(|error| place.explain(&error))?;
    let line = before[..at].matches('\n').count() + 1;
    let mut output = changed(place, format!("replaced one text in {shown} at line {line}"), Some(before), after);
    output.locations = vec![place.location(u32::try_from(line).ok())];
    Ok(output)
}

/// The first bytes of a file, and how long it is. A file that grows while it is
/// read is no longer than what was read of it.
fn read_head(place: &Place) -> Result<(Vec<u8>, u64), ToolError> {
    let explain = |error: io::Error| place.explain(&error);
    let mut file = place.open_file()?;
    let length = file.metadata().map_err(explain)?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(MAX_FILE_BYTES)).unwrap_or_default());
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(explain)?;
    let length = length.max(bytes.len() as u64);
    Ok((bytes, length))
}

/// Where a text first is, and how often; places that overlap count each.
fn occurrences(text: &str, wanted: &str) -> (Option<usize>, usize) {
    let first = text.find(wanted);
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let (mut count, mut from) = (0, first);
    while let Some(at) = from {
        count += 1;
        from = text[at + step..].find(wanted).map(|next| at + step + next);
    }
    (first, count)
}

fn changed(place: &Place, text: String, before: Option<String>, after: String) -> ToolOutput {
    let change = FileChange { path: place.shown.clone(), before, after: Some(after) };
    ToolOutput { locations: vec![place.location(None)], changes: vec![change], ..ToolOutput::text(text) }
}

/// The text a file had, for those who look at the change: as much as a file may be
/// read of, with signs in place of what is no text.
fn text_before(place: &Place) -> Result<String, ToolError> {
    let (bytes, _) = read_head(place)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The folder entry a file is written to.
struct Target {
    folder: Dir,
    name: OsString,
    /// The permissions of the file that is there; `None` when none is.
    mode: Option<Permissions>,
}

impl Target {
    /// Follows links inside the root to the file itself, so that writing through a
    /// link changes the file and keeps the link; makes missing folders.
    fn find(place: &Place) -> Result<Self, ToolError> {
        let explain = |error: io::Error| place.explain(&error);
        let (relative, mode) = match place.root.metadata(&place.relative) {
            Ok(kind) if kind.is_file() => {
                (place.root.canonicalize(&place.relative).map_err(explain)?, Some(kind.permissions()))
            }
            Ok(kind) if kind.is_dir() => {
                return Err(ToolError::new(format!("{:?} is a folder; give the path of a file", place.shown)));
            }
            Ok(_) => return Err(ToolError::new(format!("{:?} is not a regular file", place.shown))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if place.root.symlink_metadata(&place.relative).is_ok() {
                    return Err(ToolError::new(format!("{:?} is a link to nothing", place.shown)));
                }
                (place.relative.clone(), None)
            }
            Err(error) => return Err(explain(error)),
        };
        let is_folder_name = place.shown.ends_with('/');
        let Some(name) = relative.file_name().filter(|_| !is_folder_name) else {
            return Err(ToolError::new(format!("{:?} does not name a file", place.shown)));
        };
        let parent = relative.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if mode.is_none() {
            place.root.create_dir_all(parent).map_err(explain)?;
        }
        let folder = place.root.open_dir(parent).map_err(explain)?;
        Ok(Self { folder, name: name.to_owned(), mode })
    }

    /// Puts the bytes there in one step: a reader sees the old file or the new one,
    /// and a crash leaves one of them.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let scratch = format!(".bob-{:016x}.tmp", fastrand::u64(..));
        let written = self.fill(&scratch, bytes).and_then(|()| self.folder.rename(&scratch, &self.folder, &self.name));
        if written.is_err() {
            // The error that matters is the first one.
            drop(self.folder.remove_file(&scratch));
            return written;
        }
        // The file is complete without this; it only makes its name outlast a power
        // cut, and some file systems cannot do it for a folder.
        drop(self.folder.open(".").and_then(|folder| folder.sync_all()));
        Ok(())
    }

    fn fill(&self, scratch: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.folder.open_with(scratch, OpenOptions::new().write(true).create_new(true))?;
        if let Some(mode) = &self.mode {
            file.set_permissions(mode.clone())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
