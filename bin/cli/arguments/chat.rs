//! The arguments of `chat`.

use std::path::PathBuf;

use clap::Args;

use super::ModeArgs;

/// `chat`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
`chat` can be left out: `cli-agent \"fix the build\"` is a chat that begins with these words, and `cli-agent -c` one
that continues. A single word that is nearly the name of a command is refused; `cli-agent chat WORD` sends it.
At the prompt: /help lists the commands, Shift-Tab changes the mode. Esc or Ctrl-C during an answer cancels it; at the
prompt Ctrl-C clears the line, and twice on an empty line it quits, as Ctrl-D does once.
On a pipe every line is one message (commands work as well), nothing is decorated, and the
exit code is that of the first turn that failed.

Examples:
  cli-agent chat Which files here mention TODO?
  cli-agent chat --continue
  cli-agent chat --resume 01a20425
  echo \"What is in this folder?\" | cli-agent chat")]
pub(crate) struct ChatArgs {
    /// The first message
    #[arg(value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// Continue this session, or create it
    #[arg(long, value_name = "ID", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) session: Option<String>,
    /// Continue an existing session, by its id or the beginning of it; without ID choose one from a list
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with = "continue_last")]
    pub(crate) resume: Option<String>,
    /// Continue the session that was used last
    #[arg(short = 'c', long = "continue")]
    pub(crate) continue_last: bool,
    /// The session's working folder, inside policy.workspace [default: policy.workspace]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The model, as provider:model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// What may run without asking
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    /// Take over sessions held by another process; its turn there ends with an error
    #[arg(long)]
    pub(crate) take_over: bool,
}
