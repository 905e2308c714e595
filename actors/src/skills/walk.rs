//! Which `SKILL.md` there are below a folder, within bounds.
//!
//! Links are not followed: a folder or a file that is one is passed over, so that nothing outside the folder is read.
//! A folder with a `SKILL.md` is a skill and not searched further. Hidden folders are passed over.

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How deep a skill may be below its source.
const MAX_DEPTH: usize = 8;
/// How many entries of folders are looked at in one source.
const MAX_ENTRIES: usize = 10_000;
/// How large a `SKILL.md` may be, in bytes; a prompt shows less.
pub(super) const MAX_FILE_BYTES: u64 = 256 * 1024;

pub(super) const FILE: &str = "SKILL.md";

/// An existing `SKILL.md` with metadata that shows whether it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) folder: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
    /// The file itself, and when anything of it was changed: a file that replaces another one may have its size and time.
    identity: (u64, i64, i64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Walk {
    pub(super) found: Vec<Found>,
    pub(super) passed: Vec<(PathBuf, String)>,
}

/// Finds skills in a folder, and below it if `recursive`. Blocks on the disk.
/// Errors: when the folder itself cannot be read.
pub(super) fn walk(root: &Path, recursive: bool) -> std::io::Result<Walk> {
    let root = root.canonicalize()?;
    let dir = Dir::open_ambient_dir(&root, ambient_authority())?;
    let mut walker = Walker { walk: Walk::default(), entries: 0, most_depth: if recursive { MAX_DEPTH } else { 1 } };
    walker.look(&dir, &root, 0);
    walker.walk.found.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(walker.walk)
}

struct Walker {
    walk: Walk,
    entries: usize,
    most_depth: usize,
}

impl Walker {
    fn look(&mut self, dir: &Dir, path: &Path, depth: usize) {
        match dir.symlink_metadata(FILE) {
            Ok(file) if file.is_file() => return self.walk.found.push(found(path, &file)),
            Ok(_) => {
                let why = "it is no regular file; links are not followed".to_owned();
                return self.walk.passed.push((path.join(FILE), why));
            }
            Err(_there_is_none) => {}
        }
        if depth >= self.most_depth {
            return;
        }
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(error) => return self.walk.passed.push((path.to_owned(), format!("cannot be read: {error}"))),
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                let why = format!("more than {MAX_ENTRIES} entries; what is behind them is not looked at");
                return self.walk.passed.push((path.to_owned(), why));
            }
            let name = entry.file_name();
            let is_hidden = name.to_string_lossy().starts_with('.');
            if is_hidden || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            // A link that was put there in between is refused by the root it would leave.
            if let Ok(below) = dir.open_dir(&name) {
                self.look(&below, &path.join(&name), depth + 1);
            }
            if self.entries > MAX_ENTRIES {
                return;
            }
        }
    }
}

fn found(path: &Path, file: &Metadata) -> Found {
    let modified = file.modified().ok().map(cap_std::time::SystemTime::into_std);
    let identity = (file.ino(), file.ctime(), file.ctime_nsec());
    Found { folder: path.to_owned(), len: file.len(), modified, identity }
}

impl Found {
    pub(super) fn text(&self) -> Result<String, String> {
        let say = |error: std::io::Error| format!("cannot be read: {error}");
        let dir = Dir::open_ambient_dir(&self.folder, ambient_authority()).map_err(say)?;
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = dir.open_with(FILE, &options).map_err(say)?;
        if !file.metadata().map_err(say)?.is_file() {
            return Err("is no regular file".to_owned());
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(say)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("is larger than {MAX_FILE_BYTES} bytes; move what is long into files beside it"));
        }
        String::from_utf8(bytes)
            .map_err(|error| format!("is no text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    }
}
