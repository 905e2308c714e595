//! `local/shell_exec`, and what follows its commands in the background: `local/shell_output` and `local/shell_stop`.
//!
//! Runs one line with `sh -c` in a folder of the session, in a process group of its own. Without a
//! [`sandbox`](super::sandbox) the line can do whatever the user who runs Bob can. What confines it besides is the
//! policy, the approval, the time limit, and the end: when the call is over, however it is over, every process left in
//! the group is killed; the watcher sees to it when this process is killed itself. A process that leaves the group on
//! purpose is not followed.

mod background;
mod command;
mod follow;
mod kept;

pub(super) use background::Jobs;
pub(super) use command::{Shell, inherited};
pub(super) use follow::{shell_output, shell_stop};

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::place;
use crate::child::Exit;
use bob_messages::artifact::NOTICE_BYTES;
use bob_messages::chat::{ContentPart, ToolCall};
use bob_messages::tools::{MODEL_RESULT_BYTES, Risk, ToolKind, ToolOutput};
use command::Started;
use kept::Kept;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout_at;

/// How long a command may run when its call does not say, in milliseconds.
const DEFAULT_MS: u64 = 120_000;
/// The longest time that a call may ask for, in milliseconds.
const MOST_MS: u64 = 600_000;
/// How long the outputs may stay open after the group is gone. Only a process that left the group can hold them open.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long before the end of its call the outputs of a command are no longer put into the artifact store: it has ended, and how
/// is told in time.
const TIME_TO_RETURN: Duration = Duration::from_millis(250);
/// The least that is shown of an output that is too long, in bytes, however long the other one is.
const LEAST_SHOWN: usize = 8 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellExec {
    /// Command to run
    command: String,
    /// Time limit in milliseconds
    #[serde(default)]
    #[schemars(with = "u64", range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Folder to run it in
    #[serde(default = "super::list::here")]
    cwd: String,
    /// Start it, and do not wait for its end
    #[serde(default)]
    background: bool,
}

/// Which shell it is, where it runs, and its limits. `denied` are the programs that the policy refuses.
fn description(denied: &[String], sandbox: &str) -> String {
    let refused = if denied.is_empty() { String::new() } else { format!(". Refused programs: {}", denied.join(", ")) };
    let confined = if sandbox.is_empty() { String::new() } else { format!(". In a {sandbox}") };
    format!(
        "Run a command in the shell. /bin/sh on {}, in the session's folder or in cwd inside it, without input. Ended after \
         {} s or timeout_ms, at most {MOST_MS}; its output until then is kept. An exit code other than 0 is a result. Set \
         background for a server, or for what takes longer; shell_output and shell_stop follow it{confined}{refused}",
        std::env::consts::OS,
        DEFAULT_MS / 1000
    )
}

pub(super) fn shell_exec(shell: &Shell, jobs: &Arc<Jobs>, denied: &[String]) -> FnTool {
    let (shell, running) = (shell.clone(), Arc::clone(jobs));
    let sandbox = shell.sandbox.short();
    let exec = tool("local/shell_exec", &description(denied, sandbox), move |arguments: ShellExec, invocation| {
        let (shell, jobs) = (shell.clone(), Arc::clone(&running));
        async move {
            let folder = folder(&invocation, &arguments.cwd)?;
            if arguments.background {
                let limit = arguments.timeout_ms.map(Duration::from_millis);
                return follow::start(&shell, &jobs, &arguments.command, &folder, limit, &invocation).await;
            }
            run(&shell, &arguments.command, &folder, &invocation).await
        }
    })
    .kind(ToolKind::Execute)
    .risk(Risk::High)
    .limited(limit_ms)
    .leaving(Arc::<Jobs>::clone(jobs));
    // A person who is asked about a command sees what it is held to.
    if sandbox.is_empty() { exec } else { exec.title(format!("shell in a {sandbox}")) }
}

/// What is configured for the tool is the most a call may ask for, and what it has when it does not ask.
fn limit_ms(call: &ToolCall, ruled_ms: Option<u64>) -> u64 {
    let asked = call.arguments.get("timeout_ms").and_then(Value::as_u64);
    asked.or(ruled_ms).unwrap_or(DEFAULT_MS).min(ruled_ms.unwrap_or(MOST_MS))
}

fn folder(invocation: &Invocation, cwd: &str) -> Result<PathBuf, ToolError> {
    let place = place(&invocation.context.roots, cwd)?;
    let real = place.root.canonicalize(&place.relative).map_err(|error| place.explain(&error))?;
    let kind = place.root.metadata(&real).map_err(|error| place.explain(&error))?;
    if !kind.is_dir() {
        return Err(ToolError::new(format!("{cwd:?} is not a folder, so no command runs in it")));
    }
    // Joining `.` or nothing would leave a mark in what `pwd` says.
    Ok(if real == Path::new(".") { place.root_path } else { place.root_path.join(real) })
}

async fn run(shell: &Shell, command: &str, folder: &Path, invocation: &Invocation) -> Result<ToolOutput, ToolError> {
    let Started { mut running, stdout: from_stdout, stderr: from_stderr } =
        shell.start(command, folder, &invocation.context.roots)?;
    let has_store = invocation.progress.runtime().artifacts().port().is_some();
    let (mut stdout, mut stderr) = (Kept::of("", has_store), Kept::of("[stderr]\n", has_store));
    let exit = {
        let (so_far, progress, total) = (invocation.so_far(), invocation.progress(), AtomicU64::new(0));
        let heard = |bytes: &[u8]| {
            so_far.push(bytes);
            let before = total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            #[allow(clippy::cast_precision_loss, reason = "a number to be shown")]
            progress.tell((before + bytes.len() as u64) as f64, None, kept::last_line(bytes).as_deref());
        };
        let reading = async { tokio::join!(stdout.keep(from_stdout, &heard), stderr.keep(from_stderr, &heard)) };
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
    Ok(report(exit, [stdout, stderr], invocation).await)
}

/// The end of a command is a result, with any exit code.
async fn report(exit: Exit, outputs: [Kept; 2], invocation: &Invocation) -> ToolOutput {
    let beside: usize = outputs.iter().filter_map(Kept::uncut).sum();
    let cut = outputs.iter().filter(|kept| kept.uncut().is_none()).count().max(1);
    // All that is shown is what a model is sent of a result.
    let shown = MODEL_RESULT_BYTES.saturating_sub(beside + NOTICE_BYTES * (cut + 1)) / cut;
    let mut parts = Vec::new();
    for kept in outputs.into_iter().filter(|kept| !kept.is_empty()) {
        parts.push(part(kept, shown.max(LEAST_SHOWN), invocation).await);
    }
    parts.push(ContentPart::text(format!("[{}]", command::ending(exit))));
    let (status, signal) = command::status(exit);
    let structured = Some(json!({"exit_status": status, "signal": signal}));
    ToolOutput { parts, structured, is_error: exit == Exit::Unknown, ..ToolOutput::default() }
}

/// An output: of one that is too long for a result, all goes into the artifact store.
async fn part(mut kept: Kept, shown: usize, invocation: &Invocation) -> ContentPart {
    let (artifacts, session) = (invocation.progress.runtime().artifacts(), &invocation.context.session);
    let until = invocation.deadline.checked_sub(TIME_TO_RETURN).unwrap_or(invocation.deadline);
    // Its room is taken until it is there.
    if let Some((whole, _room)) = kept.take_whole() {
        match timeout_at(until, artifacts.keep_text(session, whole, shown)).await {
            Ok(Some(part)) => return part,
            Ok(None) => {}
            Err(_late) => {
                tracing::warn!(%session, "of a long output the ends are kept: the artifact store did not take it in time")
            }
        }
    }
    ContentPart::text(kept.text())
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
