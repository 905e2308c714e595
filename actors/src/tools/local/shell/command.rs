//! A command that runs in a process group of its own.

use crate::child::{self, Exit, ExitWatch, Group, Leader, Watcher};
use crate::tools::local::sandbox::Sandbox;
use crate::tools::port::ToolError;
use rustix::process::{Pid, Signal};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio::process::{ChildStderr, ChildStdout, Command};

/// What a command always knows of this process's environment. The second half says where compilers and their caches are, without
/// which a build does not find them.
pub(super) const INHERITED: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
];

/// The part of this process's environment that commands are given: what is always, and the variables of these names, of which `*`
/// at the end stands for any characters.
pub(in crate::tools::local) fn inherited(further: &[String]) -> Vec<(String, String)> {
    let is_given = |variable: &str| {
        let named = |name: &String| match name.strip_suffix('*') {
            Some(start) => variable.starts_with(start),
            None => name == variable,
        };
        INHERITED.contains(&variable) || further.iter().any(named)
    };
    // A variable that is not UTF-8 is left out.
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| is_given(name)).collect()
}

#[derive(Debug, Clone)]
pub(in crate::tools::local) struct Shell {
    environment: Arc<[(String, String)]>,
    watcher: Watcher,
    pub(in crate::tools::local) sandbox: Arc<Sandbox>,
}

pub(super) struct Started {
    pub(super) running: Running,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

/// A running command; dropping it kills its whole group.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) group: Arc<Group>,
    pub(super) exit: ExitWatch,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

impl Shell {
    pub(in crate::tools::local) fn new(environment: Vec<(String, String)>, watcher: Watcher, sandbox: Sandbox) -> Self {
        Self { environment: environment.into(), watcher, sandbox: Arc::new(sandbox) }
    }

    /// Starts a line in a folder, confined to these roots where a sandbox is configured.
    pub(super) fn start(&self, line: &str, folder: &Path, roots: &[String]) -> Result<Started, ToolError> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(line).current_dir(folder).env_clear();
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn(shell, roots)
            .map_err(|error| ToolError::new(format!("the shell could not be started in {}: {error}", folder.display())))
    }

    /// Starts it in a group that the watcher knows, so that it ends with us, however we end.
    fn spawn(&self, mut command: Command, roots: &[String]) -> io::Result<Started> {
        // First, so that no command ever runs unwatched.
        self.watcher.start()?;
        let mut child = self.sandbox.start(roots, || child::start(command.process_group(0).kill_on_drop(true)))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Arc::new(Group::new(pid, self.watcher.clone()));
        let remembered = self.watcher.remember(pid);
        let exit = Leader::watch(child, Arc::clone(&group));
        let running = Running { group, exit };
        remembered.map(|()| Started { running, stdout, stderr })
    }
}

pub(super) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::Unknown => "ended".to_owned(),
    }
}

pub(super) fn status(exit: Exit) -> (Option<i32>, Option<i32>) {
    match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
        Exit::Unknown => (None, None),
    }
}
