//! The database as a file: made with mode 0600 in a folder of mode 0700, never
//! through a link. SQLite gives the files beside it the mode of the first.
//!
//! The file itself is opened by nobody but SQLite once it is there: its locks end
//! when any descriptor of the file is closed in the process.

use bob_messages::store::StoreError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Which file a path leads to: device and inode.
pub(super) type Inode = (u64, u64);

/// Which regular file the path leads to; `None` when there is nothing.
pub(super) fn look(path: &Path) -> Result<Option<Inode>, StoreError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unavailable("look at", path, &error)),
    };
    let refuse = |what: &str| {
        let path = path.display();
        Err(StoreError::Unavailable(format!("{path} is {what}, and a database is a regular file: name another one")))
    };
    match found.file_type() {
        kind if kind.is_file() => Ok(Some((found.dev(), found.ino()))),
        kind if kind.is_dir() => refuse("a folder"),
        kind if kind.is_symlink() => refuse("a symbolic link"),
        _ => refuse("no file"),
    }
}

/// Refuses a link, or anything else that is no file, where SQLite is going to have its log:
/// it would be written to.
pub(super) fn look_beside(path: &Path) -> Result<(), StoreError> {
    for end in ["-wal", "-shm", "-journal"] {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(end);
        look(&path.with_file_name(name))?;
    }
    Ok(())
}

/// Makes the file, empty, and its folders where they are missing. Which file it is.
pub(super) fn make(path: &Path) -> Result<Inode, StoreError> {
    if let Some(inode) = look(path)? {
        return Ok(inode);
    }
    let folder = folder(path);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unavailable("make", folder, &error))?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(new) => {
            let durable = new.sync_all().and_then(|()| File::open(folder)?.sync_all());
            durable.map_err(|error| unavailable("make", path, &error))?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unavailable("make", path, &error)),
    }
    look(path)?.ok_or_else(|| StoreError::Unavailable(format!("{} was removed while it was made", path.display())))
}

/// The path with no link in it but, perhaps, the file itself.
pub(super) fn real(path: &Path) -> Result<PathBuf, StoreError> {
    let folder = folder(path).canonicalize().map_err(|error| unavailable("open", path, &error))?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn unavailable(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot {doing} {}: {error}", path.display()))
}
