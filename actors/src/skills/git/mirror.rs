//! Mirrors one commit by the program `git`, in bounded time and size.
//!
//! `git` runs with an environment of its own: no configuration of the user or the machine, no credential helper, no
//! terminal to ask at, no hook, no submodule, no filter, and only the protocols of the address. What it made is used only
//! if its `HEAD` is the commit that was asked for; then its `.git` is removed and the folder is moved into its place, so
//! that a mirror is there whole or not at all.

use super::{FILES, GitSkills, MANIFEST, Manifest, digest};
use crate::child::{Child, ChildSpec, Ladder, Stdout, Watcher};
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

/// How the folder begins in which a commit is mirrored.
const WORK: &str = ".mirror-";

/// How often the size of what was received is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a file takes at least, in bytes.
const BLOCK: u64 = 4 * 1024;

/// How much of what `git` prints is read, in bytes.
const MOST_PRINTED: u64 = 4 * 1024;

/// Settings that every command of `git` has.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // A link becomes a file that holds its target.
    "core.symlinks=false",
    "core.autocrlf=false",
    "core.askPass=",
    "credential.helper=",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "maintenance.auto=false",
    "gc.auto=0",
    "advice.detachedHead=false",
];

/// How long mirroring one commit may take, and how large its folder may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorBounds {
    /// The time for all of it.
    pub time: Duration,
    /// The size of the folder with what `git` received, in bytes; may be exceeded by what arrives within 100 ms.
    pub bytes: u64,
}

/// Two minutes, 128 MiB.
impl Default for MirrorBounds {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), bytes: 128 * 1024 * 1024 }
    }
}

/// Why a commit could not be mirrored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// `git` cannot be started.
    #[error(transparent)]
    NoGit(Box<dyn Error + Send + Sync>),
    /// `git` failed.
    #[error("git could not mirror {url} at {rev}: {why}")]
    Git {
        /// The repository.
        url: String,
        /// The commit.
        rev: String,
        /// The end of what it printed.
        why: String,
    },
    /// It took too long.
    #[error("mirroring {url} took longer than {} s", .time.as_secs())]
    Time {
        /// The repository.
        url: String,
        /// The bound.
        time: Duration,
    },
    /// It is too large.
    #[error("the repository {url} takes more than {bytes} bytes")]
    Size {
        /// The repository.
        url: String,
        /// The bound.
        bytes: u64,
    },
    /// What was received is another commit.
    #[error("{url} gave {head} instead of the commit {rev}")]
    OtherCommit {
        /// The repository.
        url: String,
        /// The commit that was asked for.
        rev: String,
        /// What was received.
        head: String,
    },
    /// The cache cannot be written.
    #[error("the cache {} cannot be written: {}", .0.display(), .1)]
    Cache(PathBuf, #[source] io::Error),
}

impl GitSkills {
    /// Mirrors the commit into a cache, if it is not there whole; returns whether it was mirrored now. Blocks on the disk,
    /// so it is for a task of its own. Dropping the future ends `git`.
    ///
    /// # Errors
    /// `git` is missing or fails, a bound is exceeded, the commit is another one, or the cache cannot be written. The cache
    /// is then as it was.
    pub async fn mirror(&self, cache: &Path, bounds: MirrorBounds, watcher: &Watcher) -> Result<bool, MirrorError> {
        if self.checked(cache).is_ok() {
            return Ok(false);
        }
        let cannot = |error| MirrorError::Cache(cache.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(cache).map_err(cannot)?;
        sweep(cache, bounds.time);
        let work = tempfile::Builder::new().prefix(WORK).tempdir_in(cache).map_err(cannot)?;
        let git = Git { source: self, work: &work, watcher, bounds, until: Instant::now() + bounds.time };
        git.check_out().await?;
        self.keep(cache, &work).map_err(cannot)?;
        Ok(true)
    }

    /// Moves what was checked out into its place, unless another process did so meanwhile.
    fn keep(&self, cache: &Path, work: &TempDir) -> io::Result<()> {
        let files = work.path().join(FILES);
        fs::remove_dir_all(files.join(".git"))?;
        let manifest = Manifest { url: self.url.clone(), rev: self.rev.clone(), files: digest(&files)? };
        let made = work.path().join("made");
        fs::create_dir(&made)?;
        fs::rename(&files, made.join(FILES))?;
        fs::write(made.join(MANIFEST), serde_json::to_vec(&manifest)?)?;
        let place = self.place(cache);
        place.parent().map_or(Ok(()), fs::create_dir_all)?;
        if self.checked(cache).is_ok() {
            return Ok(());
        }
        // One that was changed, or that another version of the program made, is moved away whole.
        match fs::rename(&place, work.path().join("old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        match fs::rename(&made, &place) {
            Err(_is_there) if self.checked(cache).is_ok() => Ok(()),
            moved => moved,
        }
    }
}

/// Removes what processes left behind that were killed while they mirrored; one that still does began within this time.
fn sweep(cache: &Path, time: Duration) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let is_work = entry.file_name().to_str().is_some_and(|name| name.starts_with(WORK));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|made| made.elapsed().ok());
        if is_work && age.is_some_and(|age| age > 2 * time) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

struct Git<'a> {
    source: &'a GitSkills,
    work: &'a TempDir,
    watcher: &'a Watcher,
    bounds: MirrorBounds,
    until: Instant,
}

impl Git<'_> {
    async fn check_out(&self) -> Result<(), MirrorError> {
        let GitSkills { url, rev, .. } = self.source;
        fs::create_dir(self.work.path().join("home"))
            .map_err(|error| MirrorError::Cache(self.work.path().to_owned(), error))?;
        let format = if rev.len() == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
        self.run(&["init", "--quiet", "--template=", format, FILES]).await?;
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        let one = [&["-C", FILES][..], &fetch, &["--depth=1", "--", url, rev]].concat();
        match self.run(&one).await {
            // Some servers give only what a branch points to.
            Err(MirrorError::Git { .. }) => {
                let all = [&["-C", FILES][..], &fetch, &["--", url, "+refs/heads/*:refs/remotes/origin/*"]].concat();
                self.run(&all).await?;
            }
            fetched => drop(fetched?),
        }
        self.run(&["-C", FILES, "checkout", "--quiet", "--detach", "--no-recurse-submodules", rev, "--"]).await?;
        let head = self.run(&["-C", FILES, "rev-parse", "--verify", "HEAD"]).await?;
        let head = head.trim();
        if head != rev {
            let (url, rev, head) = (url.clone(), rev.clone(), head.to_owned());
            return Err(MirrorError::OtherCommit { url, rev, head });
        }
        self.is_within_bounds()
    }

    /// Runs `git`; returns what it printed.
    async fn run(&self, args: &[&str]) -> Result<String, MirrorError> {
        self.is_within_bounds()?;
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let args: Vec<OsString> = settings.chain(args.iter().copied()).map(OsString::from).collect();
        let home = self.work.path().join("home");
        let (protocol, _address) = self.source.url.split_once(':').unwrap_or_default();
        let env = [
            ("HOME", home.as_os_str()),
            ("XDG_CONFIG_HOME", home.as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("GIT_ATTR_NOSYSTEM", "1".as_ref()),
            ("GIT_TERMINAL_PROMPT", "0".as_ref()),
            ("GIT_ASKPASS", "/bin/false".as_ref()),
            ("SSH_ASKPASS", "/bin/false".as_ref()),
            ("GIT_ALLOW_PROTOCOL", protocol.as_ref()),
            ("GIT_PROTOCOL_FROM_USER", "0".as_ref()),
            ("GIT_NO_REPLACE_OBJECTS", "1".as_ref()),
            ("GIT_LFS_SKIP_SMUDGE", "1".as_ref()),
            ("LC_ALL", "C".as_ref()),
        ];
        let env = env.into_iter().map(|(name, value)| (name.into(), value.to_owned())).collect();
        let folder = Some(self.work.path().to_owned());
        let spec = ChildSpec { folder, env, stdout: Stdout::Piped, ..ChildSpec::new("git", args) };
        let mut child = Child::spawn(spec, self.watcher).map_err(|error| MirrorError::NoGit(error.into()))?;
        let stdout = child.take_stdout();
        let printed = async {
            let mut printed = Vec::new();
            if let Some(stdout) = stdout {
                let _what_was_read = stdout.take(MOST_PRINTED).read_to_end(&mut printed).await;
            }
            String::from_utf8_lossy(&printed).into_owned()
        };
        let (printed, ended) = tokio::join!(printed, self.watched(&mut child));
        ended?;
        match child.exited().await {
            crate::child::Exit::Code(0) => Ok(printed),
            _failed => {
                let (url, rev) = (self.source.url.clone(), self.source.rev.clone());
                Err(MirrorError::Git { url, rev, why: child.last_output().await })
            }
        }
    }

    /// Waits until it ends; stops it at a bound.
    async fn watched(&self, child: &mut Child) -> Result<(), MirrorError> {
        loop {
            if tokio::time::timeout(LOOK, child.exited()).await.is_ok() {
                return Ok(());
            }
            if let Err(error) = self.is_within_bounds() {
                child.stop(Ladder::default()).await;
                return Err(error);
            }
        }
    }

    fn is_within_bounds(&self) -> Result<(), MirrorError> {
        let (url, MirrorBounds { time, bytes }) = (self.source.url.clone(), self.bounds);
        if Instant::now() >= self.until {
            return Err(MirrorError::Time { url, time });
        }
        match exceeds(self.work.path(), bytes) {
            true => Err(MirrorError::Size { url, bytes }),
            false => Ok(()),
        }
    }
}

/// Whether what is below a folder takes more than so many bytes, as far as it can be seen: `git` moves files meanwhile. An
/// entry counts as a block of a disk at least, so many small files are many bytes.
fn exceeds(folder: &Path, bytes: u64) -> bool {
    let (mut folders, mut sum) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            sum += found.len().max(BLOCK);
            if sum > bytes {
                return true;
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}
