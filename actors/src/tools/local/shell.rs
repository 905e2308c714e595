//! `local/shell_exec`.
//!
//! Runs one line with `sh -c` in the session's first folder, in a process group of
//! its own. It is no sandbox: the line can do whatever the user who runs Bob can.
//! What confines it is the policy, the approval, the time limit, and the end: when
//! the call is over, however it is over, every process left in the group is killed;
//! the watcher sees to it when this process is killed itself.
//! A process that leaves the group on purpose is not followed.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use crate::child::{self, Exit, ExitWatch, Group, Leader, Watcher};
use bob_messages::chat::ContentPart;
use bob_messages::reply::SoFar;
use bob_messages::tools::{Risk, ToolKind, ToolOutput};
use rustix::process::{Pid, Signal};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout, Command};

/// How much of each output is kept: half from its beginning, half from its end.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// How long the outputs may stay open after the group is gone. Only a process that
/// left the group can hold them open.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// What a command may know of this process's environment.
const INHERITED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellExec {
    /// Command to run
    command: String,
}

/// The part of this process's environment that commands are given.
pub(super) fn inherited() -> Vec<(String, String)> {
    INHERITED.iter().filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_owned(), value))).collect()
}

pub(super) fn shell_exec(environment: Vec<(String, String)>, watcher: Watcher) -> FnTool {
    let environment: Arc<[(String, String)]> = environment.into();
    tool("local/shell_exec", "Run a command in the shell", move |arguments: ShellExec, invocation| {
        let (environment, watcher) = (Arc::clone(&environment), watcher.clone());
        async move { run(&arguments.command, &environment, &watcher, &invocation).await }
    })
    .kind(ToolKind::Execute)
    .risk(Risk::High)
}

/// A running command; dropping it kills its whole group.
struct Running {
    group: Arc<Group>,
    exit: ExitWatch,
}

impl Running {
    /// Starts the command in a group that the watcher knows, so that it ends with us,
    /// however we end.
    fn start(mut command: Command, watcher: &Watcher) -> io::Result<(Self, Option<ChildStdout>, Option<ChildStderr>)> {
        // First, so that no command ever runs unwatched.
        watcher.start()?;
        let mut child = child::start(command.process_group(0).kill_on_drop(true))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Arc::new(Group::new(pid, watcher.clone()));
        let remembered = watcher.remember(pid);
        let exit = Leader::watch(child, Arc::clone(&group));
        let running = Self { group, exit };
        remembered.map(|()| (running, stdout, stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

async fn run(
    command: &str,
    environment: &[(String, String)],
    watcher: &Watcher,
    invocation: &Invocation,
) -> Result<ToolOutput, ToolError> {
    let folder =
        invocation.context.roots.first().ok_or_else(|| ToolError::new("this session has no folder to work in"))?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(folder).env_clear();
    shell.envs(environment.iter().map(|(name, value)| (name, value)));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut running, from_stdout, from_stderr) = Running::start(shell, watcher)
        .map_err(|error| ToolError::new(format!("the shell could not be started in {folder}: {error}")))?;
    let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
    let exit = {
        let so_far = invocation.so_far();
        let reading = async { tokio::join!(stdout.keep(from_stdout, so_far), stderr.keep(from_stderr, so_far)) };
        tokio::pin!(reading);
        let mut is_read = false;
        // What the command left running in its group has ended when this does.
        let exit = loop {
            tokio::select! {
                biased;
                exit = running.exit.exited() => break exit,
                _ = &mut reading, if !is_read => is_read = true,
            }
        };
        if !is_read {
            drop(tokio::time::timeout(LAST_WORDS, reading).await);
        }
        exit
    };
    Ok(report(exit, &stdout, &stderr))
}

fn report(exit: Exit, stdout: &Kept, stderr: &Kept) -> ToolOutput {
    let mut parts = Vec::new();
    if !stdout.is_empty() {
        parts.push(ContentPart::text(stdout.text()));
    }
    if !stderr.is_empty() {
        parts.push(ContentPart::text(format!("[stderr]\n{}", stderr.text())));
    }
    let (ending, status, signal) = match exit {
        Exit::Code(code) => (format!("[exit status {code}]"), Some(code), None),
        Exit::Signal(signal) => (format!("[killed by signal {signal}]"), None, Some(signal)),
        Exit::Unknown => ("[ended]".to_owned(), None, None),
    };
    parts.push(ContentPart::text(ending));
    let structured = Some(json!({"exit_status": status, "signal": signal}));
    ToolOutput { parts, structured, is_error: status != Some(0), ..ToolOutput::default() }
}

/// The beginning and the end of an output of any length.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    /// The last bytes after the head; up to twice as many as are shown, so that it
    /// need not be moved at each read.
    tail: Vec<u8>,
    /// How many bytes there were in all.
    total: usize,
}

impl Kept {
    const HALF: usize = MAX_OUTPUT_BYTES / 2;

    /// Reads to the end. Dropped before, it has kept what was read until then; whoever drops it has that in `so_far`.
    async fn keep(&mut self, from: Option<impl AsyncRead + Unpin>, so_far: &SoFar) {
        let Some(mut from) = from else { return };
        let mut chunk = vec![0; 8192];
        // A broken pipe is an end like any other.
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            self.take(&chunk[..read]);
            so_far.push(&chunk[..read]);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(Self::HALF - self.head.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend_from_slice(to_tail);
        if self.tail.len() > 2 * Self::HALF {
            self.tail.drain(..self.tail.len() - Self::HALF);
        }
    }

    fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn text(&self) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(Self::HALF)..];
        let left_out = self.total - self.head.len() - tail.len();
        if left_out == 0 {
            let whole = [self.head.as_slice(), tail].concat();
            return String::from_utf8_lossy(&whole).trim_end_matches('\n').to_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(tail));
        format!("{head}\n[… {left_out} of {} bytes are not shown …]\n{}", self.total, tail.trim_end_matches('\n'))
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
