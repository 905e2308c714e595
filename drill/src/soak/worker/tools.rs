//! The tools of the worker's own process: one with a side effect, and one that panics.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bob::tools::{FnTool, ToolError, ToolOutput, tool};

use crate::soak::plan::{Defect, Plan};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Token {
    /// The line to append.
    line: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Appends a token to the file of side effects, as `append` of the drill server does.
pub(crate) fn append(plan: &Arc<Plan>) -> FnTool {
    let plan = Arc::clone(plan);
    tool("soak/append", "Appends one token to the soak's file and waits for the disk.", move |token: Token, call| {
        let plan = Arc::clone(&plan);
        async move {
            let line = format!("{}\t{}\n", token.line, call.idempotency_key());
            let times = match plan.defect {
                Some(Defect::RerunTool) => 2,
                Some(Defect::IdleTool) => 0,
                Some(_) | None => 1,
            };
            let path = plan.effects_path();
            let append = move || (0..times).try_for_each(|_| append_line(&path, &line));
            match tokio::task::spawn_blocking(append).await {
                Ok(Ok(())) => Ok(ToolOutput::text("appended")),
                Ok(Err(error)) => Err(ToolError::new(format!("cannot append: {error}"))),
                Err(_panicked) => Err(ToolError::new("cannot append")),
            }
        }
    })
}

fn append_line(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// Panics whenever it is called.
pub(crate) fn panics() -> FnTool {
    tool("soak/panic", "Panics.", |_: Nothing, _call| std::future::ready(fall_over())).read_only()
}

#[allow(clippy::panic, reason = "a soak shows that a tool's panic costs one call")]
fn fall_over() -> Result<ToolOutput, ToolError> {
    panic!("the soak's tool panics, as planned")
}
