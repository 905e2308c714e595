//! `local/write_file`.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::{Place, place};
use super::seen::Seen;
use super::{MAX_FILE_BYTES, blocking};
use bob_messages::tools::{FileChange, TextEncoding, ToolKind, ToolOutput};
use cap_std::fs::{Dir, OpenOptions, Permissions};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The largest file that is kept as it was when it is overwritten, in bytes: beside the journal, in the artifact store.
const MOST_KEPT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// Path of the file
    path: String,
    /// The whole new text
    content: String,
}

const DESCRIPTION: &str = "Write the file. The whole of it, in the encoding it has; its folders are made. Refused when the file changed since you read it";

pub(super) fn write_file(seen: &Arc<Seen>) -> FnTool {
    let seen = Arc::clone(seen);
    tool("local/write_file", DESCRIPTION, move |arguments: WriteFile, invocation| {
        let seen = Arc::clone(&seen);
        blocking(invocation, move |invocation, _| write(invocation, arguments, &seen))
    })
    .kind(ToolKind::Edit)
    .idempotent()
}

fn write(invocation: &Invocation, arguments: WriteFile, seen: &Seen) -> Result<ToolOutput, ToolError> {
    let (place, content) = (place(&invocation.context.roots, &arguments.path)?, arguments.content);
    let (session, full) = (&invocation.context.session, place.full());
    let target = Target::find(&place)?;
    let before = match target.mode {
        Some(_) => {
            let (bytes, length) = read_head(&place)?;
            if length <= MAX_FILE_BYTES {
                seen.check(session, &full, &place.shown, &bytes)?;
            }
            Some(Before::of(&place, &bytes, length)?)
        }
        None => None,
    };
    let had = before.as_ref().map_or(TextEncoding::Utf8, |before| before.encoding);
    // A text that does not fit the encoding of the file before is no reason not to write it.
    let as_utf8 = |why| (content.as_bytes().into(), TextEncoding::Utf8, why);
    let (written, encoding, why) = match had.encode_exactly(&content) {
        Ok(written) => (written, had, ""),
        Err(Some(_character)) => as_utf8("which does not have all of it"),
        Err(None) => as_utf8("in which it would be read as another text"),
    };
    target.replace(&written).map_err(|error| place.explain(&error))?;
    seen.note(session, &full, &written);
    let done = if before.is_some() { "replaced" } else { "created" };
    let was = if encoding == had { String::new() } else { format!(", in UTF-8; it was {had}, {why}") };
    let told = format!("{done} {} ({} bytes){}{was}", place.shown, written.len(), in_encoding(encoding));
    // A byte order mark may have been added.
    let after = TextEncoding::decode(&written).filter(|(_, read)| *read == encoding);
    let after = after.map_or_else(|| content.clone(), |(text, _)| text.into_owned());
    let Before { text, encoding: had, is_rough, found } = before.unwrap_or_default();
    let mut output = changed(&place, told, (text, had), (after, encoding));
    let change = &mut output.changes[0];
    (change.is_rough, change.found) = (is_rough, found);
    Ok(output)
}

/// How a file is encoded, if that is worth a word.
pub(super) fn in_encoding(encoding: TextEncoding) -> String {
    if encoding.is_utf8() { String::new() } else { format!(", in {encoding}") }
}

/// What a file held that is replaced.
#[derive(Default)]
struct Before {
    text: Option<String>,
    encoding: TextEncoding,
    /// The text is not exactly what it held.
    is_rough: bool,
    /// All that it held, if the text is not.
    found: Option<Arc<Vec<u8>>>,
}

impl Before {
    /// From its first bytes, and its length.
    fn of(place: &Place, bytes: &[u8], length: u64) -> Result<Self, ToolError> {
        if let Some((text, encoding)) = TextEncoding::decode(bytes).filter(|_| length <= MAX_FILE_BYTES) {
            return Ok(Self { text: Some(text.into_owned()), encoding, ..Self::default() });
        }
        // For those who look at the change, with signs in place of what is no text.
        let text = Some(String::from_utf8_lossy(bytes).into_owned());
        let found = read_original(place)?.map(Arc::new);
        Ok(Self { text, is_rough: true, found, ..Self::default() })
    }
}

/// The first bytes of a file, and how long it is. A file that grows while it is
/// read is no longer than what was read of it.
pub(super) fn read_head(place: &Place) -> Result<(Vec<u8>, u64), ToolError> {
    let explain = |error: io::Error| place.explain(&error);
    let mut file = place.open_file()?;
    let length = file.metadata().map_err(explain)?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(MAX_FILE_BYTES)).unwrap_or_default());
    (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(explain)?;
    let length = length.max(bytes.len() as u64);
    Ok((bytes, length))
}

/// All that a file holds, if that is not more than is kept of one.
fn read_original(place: &Place) -> Result<Option<Vec<u8>>, ToolError> {
    let mut bytes = Vec::new();
    let read = place.open_file()?.take(MOST_KEPT + 1).read_to_end(&mut bytes);
    read.map_err(|error| place.explain(&error))?;
    Ok((bytes.len() as u64 <= MOST_KEPT).then_some(bytes))
}

/// The output of a call that changed a file: what it held before and after, and how that was encoded.
pub(super) fn changed(
    place: &Place,
    told: String,
    (before, encoding_before): (Option<String>, TextEncoding),
    (after, encoding_after): (String, TextEncoding),
) -> ToolOutput {
    let after = Some(after);
    let change = FileChange {
        path: place.shown.clone(),
        before,
        after,
        encoding_before,
        encoding_after,
        ..FileChange::default()
    };
    ToolOutput { locations: vec![place.location(None)], changes: vec![change], ..ToolOutput::text(told) }
}

pub(super) struct Target {
    folder: Dir,
    name: OsString,
    /// The permissions of the file that is there; `None` when none is.
    mode: Option<Permissions>,
}

impl Target {
    /// Follows links inside the root to the file itself, so that writing through a
    /// link changes the file and keeps the link; makes missing folders.
    pub(super) fn find(place: &Place) -> Result<Self, ToolError> {
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
                // Behind a folder that is not there, `..` would lead to another file once the folder is made.
                let real = place.real();
                if place.root.symlink_metadata(&real).is_ok() {
                    let file = real.display();
                    let shown = &place.shown;
                    return Err(ToolError::new(format!(
                        "{shown:?} goes up from a folder that is not there; use {file}"
                    )));
                }
                (real, None)
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

    /// Puts the bytes there in one step: a reader sees the old file or the new one, and a crash leaves one of them.
    pub(super) fn replace(&self, bytes: &[u8]) -> io::Result<()> {
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
