//! What is kept of a source's answer, with the time it was given.

use super::source::{Entries, read};
use bob_messages::Millis;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn file(folder: &Path, url: &str) -> PathBuf {
    let hash = blake3::hash(url.as_bytes()).to_hex();
    folder.join(format!("models-{}.txt", &hash[..16]))
}

/// Keeps an answer: its time in the first line, the text as it came behind it.
/// Errors: when it cannot be written; what was kept before is still there.
pub(super) fn keep(file: &Path, at: Millis, text: &str) -> std::io::Result<()> {
    write(file, &format!("{at}\n{text}"))
}

/// The kept answer and its time; `None` when there is none, or it cannot be read.
pub(super) fn kept(file: &Path) -> Option<(Millis, Entries)> {
    let text = std::fs::read_to_string(file).ok()?;
    let (at, text) = text.split_once('\n')?;
    Some((at.parse().ok()?, read(text).ok()?))
}

/// Replaces a file as a whole; only its owner reads it.
pub(super) fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}
