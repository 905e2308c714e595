//! The arguments of `memory`.

use clap::Args;

/// `memory`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file is that of `[prompt] memory` (MEMORY.md): the one of the working folder, else that of the configuration's
folder; if there is none, it is made in the working folder. A line has at most 1024 bytes, and the file 16384, which
is as much as a prompt takes. In a chat `#TEXT` adds a line, and /memory shows the file.

Examples:
  cli-agent memory
  cli-agent memory The tests need the database of docker compose")]
pub(crate) struct MemoryArgs {
    /// The line to add; without it the file is shown
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
