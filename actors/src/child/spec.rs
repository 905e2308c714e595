//! The specification of a child process, and errors of starting it.

use crate::secrets::Secrets;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

/// Inherited variables. Keys, proxies and everything else must be set explicitly.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "TERM"];

/// Called with each line a child writes to a drained pipe: without its line end, without control characters, at most
/// 1 KiB. It runs between two reads of the pipe and must not block.
pub type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// A program to be started as a child.
#[derive(Clone)]
pub struct ChildSpec {
    /// The program: a path, or a name looked up on the PATH. Never a shell line.
    pub program: OsString,
    /// Its arguments, handed over as they are.
    pub args: Vec<OsString>,
    /// Where it runs; `None` is our own folder.
    pub folder: Option<PathBuf>,
    /// Its environment, beside the few variables every child inherits; these win.
    pub env: Vec<(OsString, OsString)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// Its standard output. Standard error is always drained.
    pub stdout: Stdout,
    /// Receives drained lines.
    pub on_line: Option<OnLine>,
}

/// A child's standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is at its end from the start.
    #[default]
    Null,
    /// A pipe, to be taken with [`Child::take_stdin`](super::Child::take_stdin).
    Piped,
}

/// A child's standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdout {
    /// It is discarded.
    #[default]
    Null,
    /// A pipe, to be taken with [`Child::take_stdout`](super::Child::take_stdout). The caller must read it, or the
    /// child blocks when the pipe is full.
    Piped,
    /// It is drained into the ring, mixed with standard error.
    Drained,
}

impl ChildSpec {
    /// A program with arguments in our own folder, reading and writing nothing.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            folder: None,
            env: Vec::new(),
            stdin: Stdin::Null,
            stdout: Stdout::Null,
            on_line: None,
        }
    }

    /// The environment: inherited variables, then explicit ones.
    pub(crate) fn environment(
        &self,
        ours: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        ours.filter(|(name, _)| is_inherited(name)).chain(self.env.iter().cloned())
    }

    /// The explicit variables, which the child's output may repeat and which are redacted.
    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::of(self.env.iter().filter_map(|(_, value)| value.to_str()))
    }

    pub(crate) fn refused(&self, error: io::Error) -> SpawnError {
        let why = explain(&error, &self.program, self.folder.as_deref());
        SpawnError::new(&self.program, why).with_source(error)
    }

    /// Returns why the child could not be watched; then it is not started.
    pub(crate) fn unwatched(&self, error: io::Error) -> SpawnError {
        let why = explain(&error, OsStr::new("/bin/sh"), None);
        let why = format!("the watcher process of all children, `/bin/sh`, fails: {why}");
        SpawnError::new(&self.program, why).with_source(error)
    }
}

/// Equal specs start one program in the same way, with one receiver of lines.
impl PartialEq for ChildSpec {
    fn eq(&self, other: &Self) -> bool {
        let Self { program, args, folder, env, stdin, stdout, on_line } = self;
        let same_reader = match (on_line, &other.on_line) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (None, Some(_)) | (Some(_), None) => false,
        };
        same_reader
            && (program, args, folder, env) == (&other.program, &other.args, &other.folder, &other.env)
            && (stdin, stdout) == (&other.stdin, &other.stdout)
    }
}

fn is_inherited(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
}

/// The values of the environment are left out: they may be secrets.
impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("folder", &self.folder)
            .field("env", &self.env.iter().map(|(name, _value)| name).collect::<Vec<_>>())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .finish_non_exhaustive()
    }
}

/// A child could not be started: program, reason and advice.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`: {why}")]
pub struct SpawnError {
    program: String,
    why: String,
    /// The error of the system, where there is one.
    source: Option<io::Error>,
}

impl SpawnError {
    pub(crate) fn new(program: &OsStr, why: impl Into<String>) -> Self {
        Self { program: program.to_string_lossy().into_owned(), why: why.into(), source: None }
    }

    fn with_source(self, error: io::Error) -> Self {
        Self { source: Some(error), ..self }
    }
}

/// The package that provides a program often used to start tool servers.
fn provided_by(program: &OsStr) -> Option<&'static str> {
    Some(match program.to_str()? {
        "npx" | "npm" | "node" => "Node.js 20 or newer, which brings it (https://nodejs.org),",
        "uvx" | "uv" => "uv, which brings it (https://docs.astral.sh/uv),",
        "python" | "python3" | "pip" | "pipx" => "Python 3, which brings it (https://python.org),",
        "docker" => "Docker, which brings it (https://docs.docker.com),",
        _another_program => return None,
    })
}

/// Describes the error. Checks the disk, since one error number covers several causes: a missing program, a missing
/// folder, a missing interpreter.
fn explain(error: &io::Error, program: &OsStr, folder: Option<&Path>) -> String {
    let gone = folder.filter(|folder| !folder.is_dir());
    match (Errno::from_io_error(error), gone) {
        (Some(Errno::NOENT | Errno::NOTDIR), Some(folder)) => {
            format!("the folder `{}` does not exist; create it or correct the setting", folder.display())
        }
        (Some(Errno::NOENT | Errno::NOTDIR), None) if !program.to_string_lossy().contains('/') => {
            let to_do = provided_by(program).map_or_else(|| "install it".to_owned(), |what| format!("install {what}"));
            format!("no such program on the PATH (ENOENT); {to_do} or correct the command")
        }
        (Some(Errno::NOENT | Errno::NOTDIR), None) => {
            "no such file, or the interpreter it names is missing (ENOENT); correct the command".to_owned()
        }
        (Some(Errno::ACCESS | Errno::PERM), _) => {
            "it is not executable, or a folder on the way to it is closed to us (EACCES); check the permissions"
                .to_owned()
        }
        (Some(Errno::NOEXEC), _) => {
            "it is no program this machine can run (ENOEXEC); a script needs a first line such as #!/bin/sh".to_owned()
        }
        (Some(Errno::MFILE | Errno::NFILE), _) => {
            "too many files are open (EMFILE); raise the limit with ulimit -n or start fewer children".to_owned()
        }
        (Some(Errno::AGAIN | Errno::NOMEM), _) => {
            "the system has no room for another process (EAGAIN); raise the limit with ulimit -u or start fewer children"
                .to_owned()
        }
        (Some(Errno::TOOBIG), _) => "its arguments and environment are too long (E2BIG); shorten them".to_owned(),
        _ => error.to_string(),
    }
}
