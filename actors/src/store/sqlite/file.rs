//! The database as a file: made with mode 0600 in a folder of mode 0700, never
//! through a link, and under another name until it is whole. SQLite gives the files beside it the mode of the first.
//!
//! Only SQLite opens the file itself once it is there: its locks end
//! when any descriptor of the file is closed in the process.

use crate::store::folder::rename_to_free;
use crate::store::full;
use crate::store::inbox::BESIDE as INBOX;
use crate::store::made::make_folder;
use bob_messages::store::StoreError;
use rustix::fs::{self, StatVfsMountFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The write-ahead log of a database, beside it.
const LOG: &str = "-wal";

/// The rollback journal, which a database has that has no log.
const ROLLBACK: &str = "-journal";

/// For how long a rollback journal may lie beside a database: a process that switches its log on removes it at once.
const ROLLBACK_PATIENCE: Duration = Duration::from_secs(1);

/// What SQLite needs beside a database that has a log, in bytes.
const NEEDED_BYTES: u64 = 64 * 1024;

/// Which file a path leads to: device and inode.
pub(super) type Inode = (u64, u64);

/// Which regular file the path leads to; `None` when there is nothing.
pub(super) fn look(path: &Path) -> Result<Option<Inode>, StoreError> {
    let found = match std::fs::symlink_metadata(path) {
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

/// Refuses a link, or anything else that is no file, where SQLite is going to have its log: it would be written to.
pub(super) fn look_beside(path: &Path) -> Result<(), StoreError> {
    for end in [LOG, "-shm", ROLLBACK] {
        look(&beside(path, end))?;
    }
    Ok(())
}

/// The log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, LOG)
}

/// Whether a process has the database open, or left its log.
pub(super) fn has_log(path: &Path) -> bool {
    [LOG, "-shm"].iter().any(|end| std::fs::symlink_metadata(beside(path, end)).is_ok())
}

/// Refuses a database beside which a rollback journal lies: SQLite would write into it what is in there. No database of
/// this program has one, but for a moment one that came here without a log.
pub(super) fn refuse_rollback(path: &Path) -> Result<(), StoreError> {
    let (journal, patience) = (beside(path, ROLLBACK), Instant::now() + ROLLBACK_PATIENCE);
    while holds_something(&journal) {
        if Instant::now() >= patience {
            return Err(foreign(path, &journal));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Why a database is not used beside which the log of another one lies.
pub(super) fn foreign(path: &Path, log: &Path) -> StoreError {
    let (path, log) = (path.display(), log.display());
    StoreError::Corrupt(format!(
        "{log} is not of {path}, but of another database, and nothing in it was used; move it away (and {path}-shm, if it is \
         there), or put the database back that it belongs to"
    ))
}

/// Whether there is something in a file or folder.
fn holds_something(file: &Path) -> bool {
    match std::fs::symlink_metadata(file) {
        Ok(found) if found.is_dir() => std::fs::read_dir(file).is_ok_and(|mut entries| entries.next().is_some()),
        Ok(found) => found.len() > 0,
        Err(_nothing_there) => false,
    }
}

/// Refuses to make a database beside the log or the messages of another one: SQLite would take the log for the new one's,
/// and a worker the messages.
pub(super) fn refuse_remains(path: &Path) -> Result<(), StoreError> {
    look_beside(path)?;
    let ends = [LOG, ROLLBACK, INBOX];
    let remains: Vec<_> = ends.iter().map(|end| beside(path, end)).filter(|file| holds_something(file)).collect();
    // One that was made meanwhile has its log.
    if remains.is_empty() || look(path)?.is_some() {
        return Ok(());
    }
    let named = remains.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" and ");
    Err(StoreError::Corrupt(format!(
        "{} is not there, and {named} lies beside its place: what is in there is of a database that was removed, or came \
         with the folder; put that database back, or remove what lies there to begin anew without its sessions",
        path.display()
    )))
}

/// What lies beside a database under its name and this end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Makes an empty file of another name beside where a database is going to be, and the folders where they are missing.
pub(super) fn make_beside(path: &Path) -> Result<PathBuf, StoreError> {
    let folder = folder(path);
    make_folder(folder).map_err(|error| unavailable("make", folder, &error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}-{}.new", uuid::Uuid::now_v7().simple()));
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    new.map(|_closed| beside).map_err(|error| unavailable("make", path, &error))
}

/// Gives a database that is whole its name, durably, unless another process was first. Whether the name was free.
pub(super) fn give_name(beside: &Path, path: &Path) -> Result<bool, StoreError> {
    let failed = |error: io::Error| unavailable("make", path, &error);
    let durable = || File::open(folder(path)).and_then(|folder| folder.sync_all()).map_err(failed);
    File::open(beside).and_then(|file| file.sync_all()).map_err(failed)?;
    match rename_to_free(fs::CWD, beside, path).map_err(failed)? {
        true => durable().map(|()| true),
        false => Ok(false),
    }
}

/// The path with no link in it but, perhaps, the file itself.
pub(super) fn real(path: &Path) -> Result<PathBuf, StoreError> {
    let folder = folder(path).canonicalize().map_err(|error| unavailable("open", path, &error))?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn unavailable(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    full::unavailable(doing, &path.display().to_string(), error)
}

/// Why a database of an older program cannot be read on such a file system.
pub(super) fn older_and_read_only(path: &Path) -> StoreError {
    let path = path.display();
    StoreError::Unavailable(format!(
        "{path} is of an older version, and on a file system that is mounted read-only, where it cannot be brought up to \
         date; copy it to a place that can be written, and name that with store.path"
    ))
}

/// Whether the file system has no more room for the files that SQLite needs beside a database.
pub(super) fn is_disk_full(path: &Path) -> bool {
    fs::statvfs(folder(path)).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < NEEDED_BYTES)
}

/// Whether the file system is mounted read-only, as an image or a copy that is kept may be.
pub(super) fn is_read_only(path: &Path) -> bool {
    fs::statvfs(folder(path)).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The name by which SQLite opens the file without the log beside it; `None` where its path is not UTF-8.
pub(super) fn without_its_log(real: &Path) -> Option<String> {
    let name = real.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Some(format!("file:{name}?immutable=1"))
}

/// The name by which SQLite opens a database that nothing changes, without a log and without locks beside it.
/// Errors: `Unavailable` when there is a log: its records may not be in the database yet, or another process writes
/// there, which sees the file system as one that can be written.
pub(super) fn unchanging(path: &Path) -> Result<String, StoreError> {
    let real = real(path)?;
    let found = |end: &str| std::fs::symlink_metadata(beside(&real, end));
    let refused = |why: &str| {
        let path = path.display();
        Err(StoreError::Unavailable(format!("{path} is on a file system that is mounted read-only, and {why}")))
    };
    if found(LOG).is_ok_and(|log| log.len() > 0) || found("-shm").is_ok() {
        return refused(
            "there is a log beside it; copy it with -wal to a place that can be written, and name that with store.path",
        );
    }
    match without_its_log(&real) {
        Some(name) => Ok(name),
        None => refused("its path is not UTF-8; name it by another path with store.path"),
    }
}

/// Why a database on such a file system cannot be written.
pub(super) fn read_only(path: &Path) -> StoreError {
    let path = path.display();
    StoreError::Unavailable(format!(
        "{path} is on a file system that is mounted read-only; name another one with store.path"
    ))
}

/// A database that has nothing in it was not made like that.
pub(super) fn emptied(path: &Path) -> StoreError {
    let path = path.display();
    StoreError::Corrupt(format!(
        "{path} is empty, and a database of sessions never is: it was truncated or replaced; put a copy of it back, or \
         remove it (with the files beside it that begin with its name) to begin anew without its sessions"
    ))
}
