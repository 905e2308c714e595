//! `local/shell_output` and `local/shell_stop`, and the start of what they follow.

use super::background::{Job, Jobs, Look};
use super::command::{self, Shell};
use crate::tools::function::{FnTool, tool};
use crate::tools::port::{Invocation, ToolError};
use bob_messages::chat::{ContentPart, ToolCall};
use bob_messages::tools::{Risk, ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a start looks at what was started: most that fails does so at once.
const FIRST_LOOK: Duration = Duration::from_millis(300);
/// The longest wait for an end, in milliseconds.
const MOST_WAIT_MS: u64 = 60_000;
/// The time limit of a call beside its wait, in milliseconds.
const BESIDE_MS: u64 = 10_000;
/// How much of a command is repeated in a result, in bytes.
const MAX_LINE_BYTES: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellOutput {
    /// Number of the command
    id: u32,
    /// Wait for its end up to so many milliseconds
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    wait_ms: u64,
    /// Show all output that is kept, not only what is new
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellStop {
    /// Number of the command
    id: u32,
}

pub(super) async fn start(
    shell: &Shell,
    jobs: &Jobs,
    line: &str,
    folder: &Path,
    limit: Option<Duration>,
    invocation: &Invocation,
) -> Result<ToolOutput, ToolError> {
    let job = jobs.start(shell, &invocation.context, line, folder, limit)?;
    job.ended(FIRST_LOOK).await;
    let look = job.look(false);
    let is_running = look.exit.is_none();
    let mut output = report(&job, look);
    if is_running {
        let how = format!(
            "[follow it with shell_output, end it with shell_stop, \"id\": {}; it ends with the session]",
            job.id
        );
        output.parts.push(ContentPart::text(how));
    }
    Ok(output)
}

pub(in crate::tools::local) fn shell_output(jobs: &Arc<Jobs>) -> FnTool {
    let jobs = Arc::clone(jobs);
    let description =
        "Show the output of a background command. What is new since the last time, and whether it still runs";
    tool("local/shell_output", description, move |arguments: ShellOutput, invocation| {
        let jobs = Arc::clone(&jobs);
        async move {
            let job = jobs.get(&invocation.context.session, arguments.id)?;
            job.ended(Duration::from_millis(arguments.wait_ms)).await;
            Ok(report(&job, job.look(arguments.all)))
        }
    })
    .kind(ToolKind::Read)
    .risk(Risk::Low)
    .limited(|call: &ToolCall, ruled_ms| {
        let wait = call.arguments.get("wait_ms").and_then(Value::as_u64).unwrap_or_default();
        ruled_ms.unwrap_or(wait.min(MOST_WAIT_MS) + BESIDE_MS)
    })
}

pub(in crate::tools::local) fn shell_stop(jobs: &Arc<Jobs>) -> FnTool {
    let jobs = Arc::clone(jobs);
    tool("local/shell_stop", "Stop a background command", move |arguments: ShellStop, invocation| {
        let jobs = Arc::clone(&jobs);
        async move {
            let job = jobs.get(&invocation.context.session, arguments.id)?;
            job.stop().await;
            Ok(report(&job, job.look(false)))
        }
    })
    .kind(ToolKind::Execute)
    .risk(Risk::Low)
    .idempotent()
}

fn report(job: &Job, look: Look) -> ToolOutput {
    let seconds = format!("{:.1} s", look.lasted.as_secs_f64());
    let late = if look.is_late { ", at its time limit" } else { "" };
    let state = match look.exit {
        None => format!("runs for {seconds}"),
        Some(exit) => format!("has ended after {seconds}{late}: {}", command::ending(exit)),
    };
    let line = job.line.lines().next().unwrap_or_default();
    let line = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    let mut parts = vec![ContentPart::text(format!("[command {} {state}; {line}]", job.id))];
    if !look.output.is_empty() {
        parts.push(ContentPart::text(look.output));
    }
    let (status, signal) = look.exit.map_or((None, None), command::status);
    let structured = json!({"id": job.id, "running": look.exit.is_none(), "exit_status": status, "signal": signal});
    ToolOutput { parts, structured: Some(structured), ..ToolOutput::default() }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
