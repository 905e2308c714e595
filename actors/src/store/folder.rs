//! A folder of a store, held open: that of its journals, or that of its owners.
//!
//! Every file is opened relative to the folder as it was when the store was opened, never through a link, so that
//! nothing that is swapped in later leads out of it. Folders are made with mode 0700, files with 0600.

use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the lock of a folder is tried, and the pause in between: what it is held for takes milliseconds.
const LOOKS: u32 = 250;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Which file a name leads to: device and inode.
pub(super) type Inode = (u64, u64);

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    dir: File,
}

/// What a name leads to now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) inode: Inode,
    /// In bytes.
    pub(super) size: u64,
    /// In milliseconds since the Unix epoch, for people.
    pub(super) modified_at: i64,
}

impl Folder {
    /// Opens the folder and makes it, with its parents, when it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), dir: File::from(dir) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// For messages: where a file of the folder is.
    pub(super) fn path_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Opens a regular file to read and append; `None` when it is not there.
    pub(super) fn open_file(&self, name: &str, access: OFlags) -> io::Result<Option<File>> {
        // Not blocking, so that a pipe in its place does not block the open.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => {
                let file = File::from(fd);
                match file.metadata()?.is_file() {
                    true => Ok(Some(file)),
                    false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
                }
            }
            Err(Errno::NOENT) if !access.contains(OFlags::CREATE) => Ok(None),
            Err(Errno::LOOP) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")),
            Err(error) => Err(error.into()),
        }
    }

    /// What the name leads to, without following a link.
    pub(super) fn look(&self, name: &str) -> io::Result<Option<Seen>> {
        match fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Seen::from(stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all files, in no order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Removes a file. Whether there was one.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a file, never over another one. Whether the new name was free.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<bool> {
        rename_to_free(&self.dir, Path::new(from), Path::new(to))
    }

    /// Renames a file over another one, if there is one; the new name leads to one or the other at any time.
    pub(super) fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        fs::renameat(&self.dir, from, &self.dir, to).map_err(io::Error::from)
    }

    /// Locks the folder until it is closed, when no other process has it locked any more. Some file systems cannot (NFS); and a
    /// process that was stopped under the lock is not waited for without end: an error then, too.
    pub(super) fn lock(&self) -> io::Result<()> {
        for _look in 0..LOOKS {
            match fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN_LOOKS),
                locked => return locked.map_err(io::Error::from),
            }
        }
        Err(Errno::WOULDBLOCK.into())
    }

    /// Makes new, renamed and removed names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

/// Renames a file of a folder, never over another one. Whether the new name was free.
pub(super) fn rename_to_free(dir: impl AsFd, from: &Path, to: &Path) -> io::Result<bool> {
    let dir = dir.as_fd();
    moved(dir, from, to, fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE))
}

/// What a rename came to. Some file systems (NFS, older ZFS, some of FUSE) refuse such a rename, and can do it in two steps:
/// a process that ends in between leaves both names of the file.
fn moved(dir: BorrowedFd<'_>, from: &Path, to: &Path, renamed: rustix::io::Result<()>) -> io::Result<bool> {
    let moved = match renamed {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::linkat(dir, from, dir, to, AtFlags::empty()).and_then(|()| fs::unlinkat(dir, from, AtFlags::empty()))
        }
        renamed => renamed,
    };
    match moved {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl From<Stat> for Seen {
    fn from(stat: Stat) -> Self {
        Self {
            inode: (stat.st_dev, stat.st_ino),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_at: stat.st_mtime.saturating_mul(1000).saturating_add((stat.st_mtime_nsec / 1_000_000) as i64),
        }
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
