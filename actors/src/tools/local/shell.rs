//! `local/shell_exec`.
//!
//! Runs one line with `sh -c` in the session's first folder, in a process group of
//! its own. It is no sandbox: the line can do whatever the user who runs Bob can.
//! What confines it is the policy, the approval, the time limit, and the end: when
//! the call is over, however it is over, every process left in the group is killed.
//! A process that leaves the group on purpose is not followed.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use bob_messages::chat::ContentPart;
use bob_messages::tools::{Risk, ToolKind, ToolOutput};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

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

pub(super) fn shell_exec(environment: Vec<(String, String)>) -> FnTool {
    let environment: Arc<[(String, String)]> = environment.into();
    tool("local/shell_exec", "Run a command in the shell", move |arguments: ShellExec, invocation| {
        let environment = Arc::clone(&environment);
        async move { run(&arguments.command, &environment, &invocation).await }
    })
    .kind(ToolKind::Execute)
    .risk(Risk::High)
}

/// A process group that ends with this value.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Kills what is left of the group, once: its number may be another's later.
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // In most groups nobody is left, and that is all an error here can say.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the first process of a group to exit, and leaves it to be reaped:
/// until then no other group can get its number, so killing the group is safe.
async fn exited(leader: Option<Pid>) {
    let Some(leader) = leader else { return };
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(leader), options).is_err_and(|error| error == Errno::INTR) {}
    };
    // A thread that cannot be had or is lost is as good as an exit: the group is
    // then killed at once.
    drop(tokio::task::spawn_blocking(wait).await);
}

async fn run(
    command: &str,
    environment: &[(String, String)],
    invocation: &Invocation,
) -> Result<ToolOutput, ToolError> {
    let folder =
        invocation.context.roots.first().ok_or_else(|| ToolError::new("this session has no folder to work in"))?;
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| ToolError::new(format!("the shell could not be started in {folder}: {error}")))?;
    let mut group = Group::of(&child);
    let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
    let (from_stdout, from_stderr) = (child.stdout.take(), child.stderr.take());
    let status = {
        let reading = async { tokio::join!(stdout.keep(from_stdout), stderr.keep(from_stderr)) };
        let exited = exited(group.0);
        tokio::pin!(reading, exited);
        let mut is_read = false;
        loop {
            tokio::select! {
                biased;
                () = &mut exited => break,
                _ = &mut reading, if !is_read => is_read = true,
            }
        }
        // What the command left running in its group ends with it.
        group.kill();
        if !is_read {
            drop(tokio::time::timeout(LAST_WORDS, reading).await);
        }
        child.wait().await.map_err(|error| ToolError::new(format!("the shell was lost: {error}")))?
    };
    Ok(report(status, &stdout, &stderr))
}

fn report(status: ExitStatus, stdout: &Kept, stderr: &Kept) -> ToolOutput {
    let mut parts = Vec::new();
    if !stdout.is_empty() {
        parts.push(ContentPart::text(stdout.text()));
    }
    if !stderr.is_empty() {
        parts.push(ContentPart::text(format!("[stderr]\n{}", stderr.text())));
    }
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => format!("[exit status {code}]"),
        (None, Some(signal)) => format!("[killed by signal {signal}]"),
        (None, None) => "[ended]".to_owned(),
    };
    parts.push(ContentPart::text(ending));
    let structured = Some(json!({"exit_status": status.code(), "signal": status.signal()}));
    ToolOutput { parts, structured, is_error: !status.success(), ..ToolOutput::default() }
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

    /// Reads to the end. Dropped before, it has kept what was read until then.
    async fn keep(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut chunk = vec![0; 8192];
        // A broken pipe is an end like any other.
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            self.take(&chunk[..read]);
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
