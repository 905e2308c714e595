//! One file beneath an open folder.
//!
//! Each name is opened beneath an open folder, so that neither `..`, nor a link, nor a concurrent swap leads out.

use bob_messages::error::AgentError;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The most one file may have, bytes. A prompt shows less of it; more is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of its last change, of its content and of itself.
    changed: (i64, i64, i64, i64),
}

pub(super) struct Found {
    key: &'static str,
    file: File,
    stamp: Stamp,
}

/// A folder files are looked up in.
pub(super) struct Root {
    dir: Dir,
    pub(super) path: PathBuf,
}

impl Stamp {
    pub(super) fn at(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }
}

impl Found {
    pub(super) fn new(key: &'static str, file: File, stamp: Stamp) -> Self {
        Self { key, file, stamp }
    }

    pub(super) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    pub(super) fn path(&self) -> &Path {
        &self.stamp.path
    }
}

/// Which files are of secrets.
#[derive(Debug)]
pub(super) struct Secrets(#[cfg(any(test, feature = "local-tools"))] crate::tools::local::SecretFiles);

impl Secrets {
    #[cfg(any(test, feature = "local-tools"))]
    pub(super) fn new(patterns: &[String]) -> Self {
        Self(crate::tools::local::SecretFiles::new(patterns))
    }

    #[cfg(not(any(test, feature = "local-tools")))]
    pub(super) fn new(_patterns: &[String]) -> Self {
        Self()
    }

    /// The secrets file that this name is, or leads to.
    pub(super) fn named(&self, root: &Root, relative: &Path) -> Option<PathBuf> {
        let real = root.path.join(root.dir.canonicalize(relative).unwrap_or_else(|_gone| relative.to_owned()));
        #[cfg(any(test, feature = "local-tools"))]
        let is_secret = self.0.has(&real);
        #[cfg(not(any(test, feature = "local-tools")))]
        let is_secret = false;
        is_secret.then_some(real)
    }
}

/// Opens a folder; `None` when it is not there.
pub(super) fn open_root(path: &Path) -> Result<Option<Root>, AgentError> {
    // The configuration's folder is the empty path when its file was named without one.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let opened = path.canonicalize().and_then(|path| {
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Root { dir, path })
    });
    match opened {
        Ok(root) => Ok(Some(root)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => {
            let text = format!("the folder {} of the prompt's files cannot be opened: {error}", path.display());
            Err(refusal(&error, text))
        }
    }
}

pub(super) fn open(root: &Root, relative: &Path) -> io::Result<(File, Stamp)> {
    let mut options = OpenOptions::new();
    // Opening never waits for the other end of a pipe.
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    let file = root.dir.open_with(relative, &options)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let changed = (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec());
    Ok((file, Stamp { path: PathBuf::new(), inode: about.ino(), bytes: about.size(), changed }))
}

pub(super) fn text(found: Found) -> Result<String, AgentError> {
    let Found { key, file, stamp } = found;
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    let why = match read {
        Ok(bytes) if bytes as u64 <= MAX_FILE_BYTES => return Ok(text),
        Ok(_) => format!("it is larger than {MAX_FILE_BYTES} bytes"),
        Err(error) if error.kind() == ErrorKind::InvalidData => "it is not text in UTF-8".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(AgentError::Invalid(format!("{key}: cannot read {}: {why}", stamp.path.display())))
}

/// A machine without descriptors is no fault of a file.
pub(super) fn refusal(error: &io::Error, text: String) -> AgentError {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => AgentError::overloaded(text),
        _ => AgentError::Invalid(text),
    }
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
