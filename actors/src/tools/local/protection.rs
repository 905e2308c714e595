//! Files that govern the agent, files that are its own, and files of secrets: what local tools do with them only when a
//! person says so, or never.
//!
//! A path is judged by where it leads, with links followed inside the root, and its names are compared without regard to
//! case. The shell is outside of this: it is of high risk, and what it does is not looked at.

use super::super::function::FnTool;
use super::super::port::Concern;
use super::confine::{Place, place, visible};
use super::sandbox::Sandbox;
use bob_messages::chat::ToolCall;
use bob_messages::tools::CallContext;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Names that govern wherever they are: a configuration may be looked for in any folder above one's own, and a version
/// control system runs what is in its folder.
const GOVERNING_NAMES: [&str; 3] = ["agent.toml", ".git", PRIVATE_NAME];
/// The folder of Bob's own files, wherever it is.
const PRIVATE_NAME: &str = ".bob";
/// How many entries are compared with a file that has several names.
const MOST_COMPARED: usize = 2000;
/// How many links to a file that is not there are followed, one behind the other.
const MOST_LINKS: usize = 8;

/// Files of secrets when nothing else is configured. A pattern without `/` is of a name, another one of the end of a path.
pub const SECRET_FILES: [&str; 24] = [
    ".env",
    ".env.*",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".ssh/*",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
];

/// Which files local tools keep their hands off. `agent.toml`, `.git` and `.bob` govern in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Files and folders that govern the agent: a relative path is one in each root of a session.
    pub governing: Vec<PathBuf>,
    /// Names, or ends of paths, that govern in whatever folder they are: prompt files and memory.
    pub governing_names: Vec<String>,
    /// Files and folders of the agent's own, absolute: neither read nor searched, and written as those that govern.
    pub private: Vec<PathBuf>,
    /// Patterns of files of secrets; not searched, and used only with a person's yes.
    pub secret_files: Vec<String>,
    /// What commands of the shell are confined to.
    pub sandbox: Sandbox,
    /// Names of environment variables that commands of the shell are given besides the folders of the user and of compilers, `*` at
    /// the end for any characters: what they hold can come into an output, which the model sees.
    pub shell_env: Vec<String>,
}

impl Default for Protection {
    fn default() -> Self {
        Self {
            governing: Vec::new(),
            governing_names: vec!["MEMORY.md".to_owned(), "TOOLS.md".to_owned()],
            private: Vec::new(),
            secret_files: SECRET_FILES.map(str::to_owned).to_vec(),
            sandbox: Sandbox::default(),
            shell_env: Vec::new(),
        }
    }
}

impl Protection {
    /// Whether a file is one of secrets; `path` is absolute, with its links followed. Reads the patterns each time.
    pub fn is_secret(&self, path: &Path) -> bool {
        SecretFiles::new(&self.secret_files).has(path)
    }
}

/// The patterns of [`Protection::secret_files`], read once.
#[derive(Debug)]
pub(crate) struct SecretFiles(GlobSet);

impl SecretFiles {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self(secrets(patterns))
    }

    /// As [`Protection::is_secret`].
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.0.is_match(folded(path))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Tells what is in a file.
    Read,
    /// Tells names.
    List,
    Write,
}

#[derive(Debug)]
pub(super) struct Protected {
    governing: Vec<PathBuf>,
    names: Vec<PathBuf>,
    /// All names that govern, as they are written: each may be a link, and may lead out of the folder in which it is looked up.
    written: Vec<PathBuf>,
    private: Vec<PathBuf>,
    secrets: GlobSet,
}

impl Default for Protected {
    fn default() -> Self {
        Self::new(&Protection::default())
    }
}

impl Protected {
    pub(super) fn new(protection: &Protection) -> Self {
        let Protection { governing, governing_names, private, secret_files, sandbox: _, shell_env: _ } = protection;
        let folded = |paths: &[PathBuf]| paths.iter().map(|path| folded(&led_to(path))).collect();
        Self {
            governing: folded(governing),
            names: governing_names.iter().map(|name| self::folded(Path::new(name))).collect(),
            written: GOVERNING_NAMES
                .into_iter()
                .chain(governing_names.iter().map(String::as_str))
                .map(PathBuf::from)
                .chain(governing.iter().filter(|path| path.is_relative()).cloned())
                .collect(),
            private: folded(private),
            secrets: secrets(secret_files),
        }
    }

    /// The tool, whose calls are looked at when they are judged, and when they run.
    pub(super) fn guard(self: &Arc<Self>, tool: FnTool, access: Access) -> FnTool {
        let protected = Arc::clone(self);
        tool.looked_at(move |call: &ToolCall, context: &CallContext| {
            let path = call.arguments.get("path").and_then(Value::as_str).unwrap_or(".");
            // A path that cannot be used is the tool's to explain.
            let place = place(&context.roots, path).ok()?;
            protected.concern(&place, &context.roots, access)
        })
        .looked_at_again()
    }

    fn concern(&self, place: &Place, roots: &[String], access: Access) -> Option<Concern> {
        let (root, real, shown) = (place.root_path.as_path(), place.real(), visible(&place.shown));
        let is_secret = self.is_secret(root, &real);
        match access {
            Access::Write if self.governs(root, &real) || self.is_led_to(roots, &root.join(&real)) => {
                Some(Concern::Ask(format!("writes {shown}, which governs the agent")))
            }
            Access::Write if is_secret => Some(Concern::Ask(format!("changes {shown}, a file of secrets"))),
            Access::Write => None,
            Access::Read | Access::List if self.is_private(root, &real) => Some(own(&shown)),
            Access::Read if is_secret => Some(Concern::Ask(format!("reads {shown}, a file of secrets"))),
            Access::Read => match self.named_otherwise(place, &real) {
                Some(Kin::Private) => Some(own(&shown)),
                Some(Kin::Secret) => Some(Concern::Ask(format!("reads {shown}, another name of a file of secrets"))),
                None => None,
            },
            Access::List => None,
        }
    }

    /// Whether a search leaves this file or folder out, which is at this path from the root.
    #[cfg(any(test, feature = "search"))]
    pub(super) fn is_left_out(&self, root: &Path, relative: &Path) -> bool {
        let is_git = relative.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        is_git || self.is_private(root, relative) || self.is_secret(root, relative)
    }

    /// Whether a file is left out of a search for another name that it has.
    #[cfg(any(test, feature = "search"))]
    pub(super) fn is_otherwise_left_out(&self, place: &Place, relative: &Path) -> bool {
        self.named_otherwise(place, relative).is_some()
    }

    fn governs(&self, root: &Path, relative: &Path) -> bool {
        let (relative, full) = (folded(relative), folded(&root.join(relative)));
        let is_in = |path: &PathBuf| match path.is_absolute() {
            true => full.starts_with(path),
            false => relative.starts_with(path),
        };
        has_name(&relative, &GOVERNING_NAMES)
            || self.governing.iter().any(is_in)
            || self.names.iter().any(|name| relative.ends_with(name))
            || self.private.iter().any(|path| is_of(&full, path))
    }

    /// Whether a name that governs leads to this file from one of the session's folders, or from one above them: a link, an absolute
    /// path, or one with `..`. A prompt file is looked up in all of these. What a session's folder is in does not govern all of it.
    fn is_led_to(&self, roots: &[String], full: &Path) -> bool {
        let full = folded(full);
        let real: Vec<PathBuf> = roots.iter().map(|root| folded(&with_links_followed(Path::new(root)))).collect();
        let mut folders = roots.iter().flat_map(|root| Path::new(root).ancestors());
        let leads = |folder: &Path, name: &PathBuf| {
            let target = folded(&led_to(&folder.join(name)));
            full.starts_with(&target) && !real.iter().any(|root| root.starts_with(&target))
        };
        folders.any(|folder| self.written.iter().any(|name| leads(folder, name)))
    }

    fn is_private(&self, root: &Path, relative: &Path) -> bool {
        let (relative, full) = (folded(relative), folded(&root.join(relative)));
        has_name(&relative, &[PRIVATE_NAME]) || self.private.iter().any(|path| is_of(&full, path))
    }

    fn is_secret(&self, root: &Path, relative: &Path) -> bool {
        self.secrets.is_match(folded(&root.join(relative)))
    }

    /// A file with several names may be one of those under another. It is compared with what is in Bob's own folder and
    /// in the root's first storey, up to a bound; a name elsewhere is not found.
    fn named_otherwise(&self, place: &Place, relative: &Path) -> Option<Kin> {
        let found = place.root.metadata(relative).ok()?;
        let (device, inode, names) = {
            use cap_std::fs::MetadataExt;
            (found.dev(), found.ino(), found.nlink())
        };
        if !found.is_file() || names < 2 {
            return None;
        }
        let is_it =
            |entry: &fs::DirEntry| entry.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (device, inode));
        let mut folders = vec![place.root_path.join(PRIVATE_NAME)];
        folders.extend(self.private.iter().filter(|path| path.is_dir()).cloned());
        let mut left = MOST_COMPARED;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                left = left.checked_sub(1)?;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(_) if is_it(&entry) => return Some(Kin::Private),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        let beside = fs::read_dir(&place.root_path).into_iter().flatten().flatten().take(left);
        let is_kin =
            |entry: fs::DirEntry| self.is_secret(&place.root_path, Path::new(&entry.file_name())) && is_it(&entry);
        beside.into_iter().any(is_kin).then_some(Kin::Secret)
    }
}

/// What a file is under another name.
#[derive(Debug, PartialEq)]
enum Kin {
    Private,
    Secret,
}

fn own(shown: &str) -> Concern {
    Concern::Deny(format!("{shown} is the agent's own: its sessions and approvals are not read by tools"))
}

fn has_name(folded: &Path, names: &[&str]) -> bool {
    let is_one = |part: Component<'_>| names.iter().any(|name| part.as_os_str() == *name);
    folded.components().any(is_one)
}

/// Whether a path is this one, in it, or one of the files that stand beside it under its name: a database's log, its
/// owners, its sockets.
fn is_of(full: &Path, private: &Path) -> bool {
    let Ok(rest) = full.strip_prefix(private.parent().unwrap_or(Path::new("/"))) else { return false };
    let (Some(first), Some(name)) = (rest.components().next(), private.file_name()) else { return false };
    let (first, name) = (first.as_os_str().as_encoded_bytes(), name.as_encoded_bytes());
    first.strip_prefix(name).is_some_and(|end| end.is_empty() || end.starts_with(b"-"))
}

/// In lower case, without `.` parts: what two spellings of a path have in common.
fn folded(path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_string_lossy().to_lowercase()).collect()
}

/// Where a path leads, also by links to a file that is not there yet.
fn led_to(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path).ok().filter(|_| !path.exists()) {
            Some(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            None => break,
        }
    }
    with_links_followed(&path)
}

/// An absolute path without links, as far as it is there.
fn with_links_followed(path: &Path) -> PathBuf {
    if path.is_relative() {
        return path.to_owned();
    }
    let real = |known: &Path| Some((known.canonicalize().ok()?, path.strip_prefix(known).ok()?));
    match path.ancestors().find_map(real) {
        Some((real, rest)) if rest.as_os_str().is_empty() => real,
        Some((real, rest)) => rest.components().fold(real, |mut path, part| {
            match part {
                // What is not there is no link: `..` takes it back.
                Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
            path
        }),
        None => path.to_owned(),
    }
}

/// A pattern that is none is taken as the name itself.
fn secrets(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anywhere = format!("**/{}", pattern.to_lowercase().trim_start_matches('/'));
        let glob = |text: &str| GlobBuilder::new(text).literal_separator(true).build();
        let read = glob(&anywhere).or_else(|_| glob(&format!("**/{}", globset::escape(&pattern.to_lowercase()))));
        read.into_iter().for_each(|glob| {
            set.add(glob);
        });
    }
    set.build().unwrap_or_else(|_each_was_read| GlobSet::empty())
}

#[cfg(test)]
#[path = "protection_tests.rs"]
mod tests;
