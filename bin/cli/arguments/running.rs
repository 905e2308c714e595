//! The arguments of the commands that look at a running process, or steer it.

use clap::Args;

/// `ps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Shows the chat, batch or run that uses the store of this configuration: every actor with its state, the time in that
state, its restarts, its waiting messages and its last error. At most 1000 sessions are shown, and the idle ones are
only counted.

Examples:
  cli-agent ps
  cli-agent ps --watch
  cli-agent ps --json | jq '.processes[].metrics.turns'")]
pub(crate) struct PsArgs {
    /// Repeat every second, until the process ends or Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON instead of text: {"processes": [...], "store": {...}}, with --watch one process a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Also list idle sessions
    #[arg(long)]
    pub(crate) all: bool,
    /// The process, if several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `top`.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
#[command(after_help = "Press ? for the keys, q to quit.")]
pub(crate) struct TopArgs {
    /// The process, if several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `cancel`.
#[derive(Debug, Args)]
#[command(
    after_help = "A caller that waits for the turn gets the outcome `cancelled`; the session can be used again at once."
)]
pub(crate) struct CancelArgs {
    /// The session, or the beginning of its id
    pub(crate) id: String,
    /// The process, if several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
A batch starts no more lines, prints the results of the running turns, and exits with 75 if lines are left, which
batch --finish runs later. A chat finishes its answer and exits. A run finishes its turn as usual.")]
pub(crate) struct DrainArgs {
    /// Do not wait for the end of the process
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// The process, if several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}
