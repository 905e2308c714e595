//! Skills from git repositories, each pinned to one commit.
//!
//! A commit is mirrored once by the program `git` (`mirror`) into a folder of its own in the cache; after that it is
//! read like any other folder, without `git` and without a network. The mirror has no `.git`, and a manifest with a hash of
//! its files: one that was changed is not used.

mod mirror;

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;

pub use mirror::{MirrorBounds, MirrorError};

use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// The file beside the files of a commit that describes them.
const MANIFEST: &str = "mirror.json";

/// The folder with the files of a commit.
const FILES: &str = "files";

/// How many files a mirror may have.
const MAX_FILES: usize = 10_000;

/// How many characters of an address are part of a folder's name.
const NAME_CHARS: usize = 40;

/// One commit of a repository, and where skills are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSkills {
    url: String,
    rev: String,
    path: PathBuf,
}

/// Why a source names no commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitSourceError {
    /// The address cannot be mirrored.
    #[error("{0}")]
    Url(String),
    /// The revision is no full commit hash.
    #[error("{0}")]
    Rev(String),
    /// The path leads out of the repository.
    #[error("`path` must be relative to the repository and may not contain `..`")]
    Path,
}

/// Why a mirror cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is none yet.
    #[error("the commit {rev} is not mirrored yet: run `cli-agent skills update`")]
    Absent {
        /// The repository.
        url: String,
        /// The commit.
        rev: String,
    },
    /// It is not what was mirrored.
    #[error("the mirror {} has changed since it was made: run `cli-agent skills update`", .0.display())]
    Changed(PathBuf),
    /// It cannot be read.
    #[error("the mirror {} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, #[source] io::Error),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    url: String,
    rev: String,
    /// A hash of the paths and contents of its files.
    files: String,
}

impl GitSkills {
    /// The skills below `path` in this commit; an empty path is the whole repository.
    ///
    /// # Errors
    /// The address must be `https://` without a user or a key, or `file://`; the revision all 40 (or 64) hex digits of a
    /// commit; and the path must stay inside the repository.
    pub fn new(
        url: impl Into<String>,
        rev: impl Into<String>,
        path: impl Into<PathBuf>,
    ) -> Result<Self, GitSourceError> {
        let (url, rev, path) = (url.into(), rev.into(), path.into());
        check_url(&url).map_err(|why| GitSourceError::Url(why.to_owned()))?;
        check_rev(&rev).map_err(GitSourceError::Rev)?;
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let path: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        if is_inside { Ok(Self { url, rev, path }) } else { Err(GitSourceError::Path) }
    }

    /// The address of the repository.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The commit.
    pub fn rev(&self) -> &str {
        &self.rev
    }

    /// The folder of the skills, in a cache. It is there once the commit is mirrored.
    pub fn folder(&self, cache: &Path) -> PathBuf {
        self.place(cache).join(FILES).join(&self.path)
    }

    /// Checks that a mirror is in the cache and is what was mirrored; returns the folder of the skills. Reads all its
    /// files; blocks on the disk.
    ///
    /// # Errors
    /// It is not there, was changed, or cannot be read.
    pub fn checked(&self, cache: &Path) -> Result<PathBuf, CacheError> {
        let place = self.place(cache);
        let unreadable = |error| CacheError::Unreadable(place.clone(), error);
        let manifest = match fs::read(place.join(MANIFEST)) {
            Ok(manifest) => manifest,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CacheError::Absent { url: self.url.clone(), rev: self.rev.clone() });
            }
            Err(error) => return Err(unreadable(error)),
        };
        let files = digest(&place.join(FILES)).map_err(unreadable)?;
        let expected = Manifest { url: self.url.clone(), rev: self.rev.clone(), files };
        match serde_json::from_slice::<Manifest>(&manifest) {
            Ok(manifest) if manifest == expected => Ok(self.folder(cache)),
            Ok(_) | Err(_) => Err(CacheError::Changed(place)),
        }
    }

    /// The folder of this commit in a cache. Its name is for people, with a hash that is for the program.
    fn place(&self, cache: &Path) -> PathBuf {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = self.url.chars().rev().take(NAME_CHARS).map(plain).collect();
        let name: String = name.chars().rev().collect();
        let hash = blake3::hash(self.url.as_bytes()).to_hex();
        cache.join(format!("{}-{}", name.trim_matches('-'), &hash[..16])).join(&self.rev)
    }
}

fn check_url(url: &str) -> Result<(), &'static str> {
    let refused = "`url` must begin with https:// or file://; no other protocol is used, since none does without a key";
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("file:///")).ok_or(refused)?;
    let host = rest.split('/').next().unwrap_or_default();
    if url.starts_with("https://") && host.contains('@') {
        return Err("`url` may not contain a user or a key: repositories are read without credentials");
    }
    if rest.is_empty() || url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err("`url` is no address of a repository");
    }
    Ok(())
}

/// Says why a revision is none that a source can be pinned to.
///
/// # Errors
/// The revision is not all hex digits of a commit.
pub fn check_rev(rev: &str) -> Result<(), String> {
    let is_hex = !rev.is_empty() && rev.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let advice = "`git ls-remote URL` shows the commit of a branch or a tag";
    match rev.len() {
        40 | 64 if is_hex => Ok(()),
        4..40 if is_hex => Err(format!(
            "`{rev}` is an abbreviated commit hash; all 40 digits are needed, since a short one can change its meaning"
        )),
        _ if rev.bytes().all(|byte| byte.is_ascii_hexdigit()) && matches!(rev.len(), 40 | 64) => {
            Err("a commit hash is written in lower case".to_owned())
        }
        _ => Err(format!("`{rev}` is no full commit hash; a branch or a tag can move, so name the commit ({advice})")),
    }
}

/// A hash of the paths and contents of the files below a folder, in order of their paths.
fn digest(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut hash = blake3::Hasher::new();
    for file in files {
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let mut content = fs::File::open(&file)?;
        let mut of_file = blake3::Hasher::new();
        io::copy(&mut content, &mut of_file)?;
        hash.update(&(path.len() as u64).to_le_bytes());
        hash.update(path.as_bytes());
        hash.update(of_file.finalize().as_bytes());
    }
    Ok(hash.finalize().to_hex().to_string())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        } else {
            return Err(io::Error::other(format!("{} is no regular file", entry.path().display())));
        }
        if files.len() > MAX_FILES {
            return Err(io::Error::other(format!("it has more than {MAX_FILES} files")));
        }
    }
    Ok(())
}
