//! Which configurations are trusted: one line of JSON for each, in the user's own state folder.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::place;
use crate::exit::Failure;

/// No memory is larger, bytes; a real one has a few hundred.
const MOST_BYTES: u64 = 1 << 20;

/// The memory as it is on the disk.
#[derive(Debug)]
pub(super) struct Trusted {
    file: PathBuf,
    entries: Vec<Entry>,
}

/// One configuration.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    path: PathBuf,
    /// Of its content.
    digest: String,
}

impl Trusted {
    /// Reads the memory; an absent one is empty, and a line nobody understands trusts nothing.
    ///
    /// # Errors
    /// When there is no folder for it, or it cannot be read.
    pub(super) fn open() -> Result<Self, Failure> {
        let file = state_folder()?.join("trusted.jsonl");
        let mut text = String::new();
        match OpenOptions::new().read(true).open(&file) {
            Ok(opened) => {
                let read = opened.take(MOST_BYTES).read_to_string(&mut text);
                read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::usage(format!("cannot read {}: {error}", file.display()))),
        }
        let entries = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { file, entries })
    }

    /// Whether this file with this content is trusted.
    pub(super) fn has(&self, config: &Path, digest: &str) -> bool {
        place(config).is_ok_and(|path| self.entries.iter().any(|entry| entry.path == path && entry.digest == digest))
    }

    /// Trusts this file with this content, and with no other.
    pub(super) fn keep(&mut self, config: &Path, digest: &str) -> Result<(), Failure> {
        let path = place(config)?;
        self.entries.retain(|entry| entry.path != path);
        self.entries.push(Entry { path, digest: digest.to_owned() });
        self.write()
    }

    /// Trusts this file no longer; whether it did.
    pub(super) fn forget(&mut self, config: &Path) -> Result<bool, Failure> {
        let path = place(config)?;
        let before = self.entries.len();
        self.entries.retain(|entry| entry.path != path);
        if self.entries.len() == before {
            return Ok(false);
        }
        self.write().map(|()| true)
    }

    /// Replaces the memory in one step, so that a crash leaves the old one or the new one.
    fn write(&self) -> Result<(), Failure> {
        let refuse = |error: std::io::Error| Failure::usage(format!("cannot write {}: {error}", self.file.display()));
        let folder = self.file.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refuse)?;
        let beside = self.file.with_extension(format!("{}.new", std::process::id()));
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry).map_err(|error| Failure::internal(error.to_string()))?);
            text.push('\n');
        }
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let written = written.and_then(|mut opened| {
            opened.write_all(text.as_bytes())?;
            opened.sync_all()
        });
        written.and_then(|()| fs::rename(&beside, &self.file)).map_err(refuse)
    }
}

/// `$XDG_STATE_HOME/bob`, or what stands for it.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("bob"))
        .ok_or_else(|| Failure::usage("there is no place to remember it: set HOME, or name the file with --config"))
}
