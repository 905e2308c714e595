//! Stored trust and usage: files in the user's state folder, outside any project.
//!
//! - `trusted.jsonl`: one line of JSON for each trusted configuration
//! - `used/`, `stores/`: one file for each configuration that was used by name, and for each store

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::place;
use crate::exit::Failure;

/// No memory is larger, bytes; a real one has a few hundred.
const MOST_BYTES: u64 = 1 << 20;
/// With this many files in a folder, those about missing paths are removed.
const MANY: usize = 512;

#[derive(Debug)]
pub(super) struct Trusted {
    file: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    path: PathBuf,
    digest: String,
    /// Its privileges when it was trusted; missing in older lines. The name in the file is the one that it always had.
    #[serde(rename = "deeds", default, skip_serializing_if = "Option::is_none")]
    pub(super) privileges: Option<Vec<String>>,
}

impl Entry {
    /// Whether it covers this content with no further privileges, which environment and command line may add.
    pub(super) fn covers(&self, digest: &str, privileges: &[String]) -> bool {
        let is_known = |privilege: &String| self.privileges.as_ref().is_none_or(|known| known.contains(privilege));
        self.digest == digest && privileges.iter().all(is_known)
    }
}

impl Trusted {
    /// Reads the memory; an absent one is empty, and a line that cannot be parsed is ignored.
    /// Errors: when there is no folder for it, or it cannot be read.
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

    pub(super) fn of(&self, config: &Path) -> Option<&Entry> {
        let path = place(config).ok()?;
        self.entries.iter().rev().find(|entry| entry.path == path)
    }

    /// Trusts this file with this content and these privileges, and with no others.
    pub(super) fn keep(&mut self, config: &Path, digest: &str, privileges: Option<Vec<String>>) -> Result<(), Failure> {
        let path = place(config)?;
        self.entries.retain(|entry| entry.path != path);
        self.entries.push(Entry { path, digest: digest.to_owned(), privileges });
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

    fn write(&self) -> Result<(), Failure> {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry).map_err(|error| Failure::internal(error.to_string()))?);
            text.push('\n');
        }
        replace(&self.file, &text)
    }
}

/// A folder with a file for each path something is remembered of. Two processes that write about different paths do not
/// meet.
#[derive(Debug)]
pub(super) struct PathRecords(PathBuf);

#[derive(Debug, Serialize, Deserialize)]
struct Kept<T> {
    path: PathBuf,
    #[serde(rename = "is")]
    what: T,
}

impl PathRecords {
    /// The records of this name. Errors: when there is no folder for it.
    pub(super) fn open(name: &str) -> Result<Self, Failure> {
        Ok(Self(state_folder()?.join(name)))
    }

    fn file(&self, path: &Path) -> PathBuf {
        self.0.join(format!("{}.json", &blake3::hash(path.as_os_str().as_bytes()).to_hex().as_str()[..32]))
    }

    /// Returns the record of a path; `None` if it cannot be read.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        let kept: Kept<T> = read(&self.file(path))?;
        (kept.path == path).then_some(kept.what)
    }

    pub(super) fn put<T: Serialize>(&self, path: &Path, what: T) -> Result<(), Failure> {
        let kept = Kept { path: path.to_owned(), what };
        let text = serde_json::to_string(&kept).map_err(|error| Failure::internal(error.to_string()))?;
        replace(&self.file(path), &(text + "\n"))?;
        self.tidy();
        Ok(())
    }

    pub(super) fn forget(&self, path: &Path) {
        let _was_not_there = fs::remove_file(self.file(path));
    }

    /// Keeps the folder from growing with every folder for temporary files there ever was.
    fn tidy(&self) {
        let files: Vec<PathBuf> =
            fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        if files.len() < MANY {
            return;
        }
        for file in files {
            let about: Option<Kept<serde_json::Value>> = read(&file);
            if about.is_none_or(|kept| fs::symlink_metadata(&kept.path).is_err()) {
                let _somebody_else_was_faster = fs::remove_file(&file);
            }
        }
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    let mut text = String::new();
    OpenOptions::new().read(true).open(file).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Replaces a file in one step, so that a crash leaves the old one or the new one.
fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    let refuse = |error: std::io::Error| Failure::usage(format!("cannot write {}: {error}", file.display()));
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refuse)?;
    let beside = file.with_extension(format!("{}.new", uuid::Uuid::now_v7().simple()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    let written = written.and_then(|mut opened| {
        opened.write_all(text.as_bytes())?;
        opened.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&beside, file));
    // What it is about may be durable at once.
    renamed.and_then(|()| fs::File::open(folder)?.sync_all()).map_err(refuse)
}

/// `$XDG_STATE_HOME/bob`, or its default.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("bob"))
        .ok_or_else(|| Failure::usage("there is no place to remember it: set HOME, or name the file with --config"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_version_trusted_covers_no_more_than_it_says() {
        let line = r#"{"path":"/a/agent.toml","digest":"d","deeds":["starts: a server"]}"#;
        let entry: Entry = serde_json::from_str(line).expect("the line reads");
        assert!(entry.covers("d", &["starts: a server".to_owned()]));
        assert!(!entry.covers("d", &["starts: a server".to_owned(), "sends: to another address".to_owned()]));
        assert_eq!(serde_json::to_string(&entry).expect("it is JSON"), line);
    }
}
