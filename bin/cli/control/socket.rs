//! The folder of the control sockets: one for each store, accessible to its owner only.
//!
//! A socket is named after the process that listens on it. It is bound under a temporary name and renamed once it is
//! listening, so that a socket without a listener was left by a process that has ended, and may be removed.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bob_config::Config;
use tokio::net::{UnixListener, UnixStream};

/// How long a process may take to accept a connection.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(1);

/// The end of a socket's name.
const SUFFIX: &str = "sock";

/// The longest path a socket can be reached by, bytes; a longer one goes by way of its folder.
const LONGEST_PATH: usize = 100;

/// How many processes may have one pid: they are in containers that share a store.
const MOST_NAMESAKES: u32 = 16;

pub(super) fn folder(config: &Config) -> PathBuf {
    match config.store_path() {
        Some(store) => {
            let mut name = store.file_name().unwrap_or_default().to_owned();
            name.push("-control");
            store.with_file_name(name)
        }
        None => runtime_folder().join(config_name(config)),
    }
}

pub(super) fn store_name(config: &Config) -> String {
    match config.store_path() {
        Some(store) => std::path::absolute(&store).unwrap_or(store).display().to_string(),
        None => config.store_shown(),
    }
}

/// The user's runtime folder. Without `XDG_RUNTIME_DIR` it is below the folder for temporary files, and only used if
/// the user owns it.
fn runtime_folder() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match given {
        Some(folder) => folder.join("bob"),
        None => std::env::temp_dir().join(format!("bob-{}", rustix::process::getuid().as_raw())),
    }
}

/// A store in memory has no name, so its configuration gives it one.
fn config_name(config: &Config) -> String {
    let file = config.file.canonicalize().unwrap_or_else(|_gone| config.file.clone());
    blake3::hash(file.as_os_str().as_bytes()).to_hex().as_str()[..16].to_owned()
}

/// A socket of this process that is listening. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _already_gone = fs::remove_file(&self.0);
    }
}

/// Listens on a socket named by this process, and removes stale ones.
pub(super) async fn listen(folder: &Path) -> Result<(UnixListener, Socket), String> {
    let refuse = |why: io::Error| format!("cannot open a control socket in {}: {why}", folder.display());
    make_private(folder).map_err(refuse)?;
    for socket in sockets(folder) {
        // Connecting removes stale sockets and leaves others.
        drop(connect(&socket).await);
    }
    let beside = folder.join(format!(".{}", uuid::Uuid::now_v7().simple()));
    let listener = within_reach(&beside, |path| UnixListener::bind(path)).map_err(refuse)?;
    let socket = Socket(beside);
    fs::set_permissions(&socket.0, Permissions::from_mode(0o600)).map_err(refuse)?;
    let name = free_name(folder).await.map_err(refuse)?;
    fs::rename(&socket.0, &name).map_err(refuse)?;
    std::mem::forget(socket);
    Ok((listener, Socket(name)))
}

/// A name without a listener. A live process with this id is in another container.
async fn free_name(folder: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    let names = (1..=MOST_NAMESAKES).map(|number| match number {
        1 => folder.join(format!("{pid}.{SUFFIX}")),
        _ => folder.join(format!("{pid}-{number}.{SUFFIX}")),
    });
    for name in names {
        if connect(&name).await.is_none() {
            return Ok(name);
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// The sockets in a folder, by name; none when there is no such folder.
pub(super) fn sockets(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == SUFFIX)).collect();
    sockets.sort();
    sockets
}

/// Connects to a process; `None` when it does not answer. A socket without a listener is removed.
pub(super) async fn connect(socket: &Path) -> Option<UnixStream> {
    let (path, _folder) = reach(socket).ok()?;
    match tokio::time::timeout(ACCEPTS_WITHIN, UnixStream::connect(&path)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            let _somebody_else_was_faster = fs::remove_file(socket);
            None
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Creates the folder, or checks that only the user can access it.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not a folder of this user"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn within_reach<T>(socket: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (path, _open_meanwhile) = reach(socket)?;
    act(&path)
}

/// Returns a path short enough for a socket address, and the descriptor that keeps it valid.
fn reach(socket: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if socket.as_os_str().len() <= LONGEST_PATH {
        return Ok((socket.to_owned(), None));
    }
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    Ok((Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name), Some(folder)))
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
