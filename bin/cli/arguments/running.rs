//! The arguments of the commands that look at a running process, or steer it.

use clap::Args;

/// `ps`.
#[derive(Debug, Args)]
#[command(after_help = "\
It shows the chat, batch or run that uses the store of this configuration: every actor with its state, how long it has
been in it, how often it was started again, what waits for it, and why it was down last. Of the sessions it shows at
most 1000, and counts the idle ones.

Examples:
  cli-agent ps
  cli-agent ps --watch
  cli-agent ps --json | jq '.processes[].metrics.turns'")]
pub(crate) struct PsArgs {
    /// Again every second, until it ends or Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON instead of text: {"processes": [...]}, with --watch one process a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Name the idle sessions, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Which process, when several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `top`.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
#[command(after_help = "At the screen: ? lists the keys, q leaves.")]
pub(crate) struct TopArgs {
    /// Which process, when several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `cancel`.
#[derive(Debug, Args)]
#[command(
    after_help = "Whoever waits for the turn gets the outcome `cancelled`; the session can be used again at once."
)]
pub(crate) struct CancelArgs {
    /// The session
    pub(crate) id: String,
    /// Which process, when several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}

/// `drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
A batch begins no further line, prints the results of the turns that run, and ends: with 75 if lines were left, which
batch --finish runs later. A chat answers what was asked, and leaves. A run is one turn, which ends as always.")]
pub(crate) struct DrainArgs {
    /// Do not wait for the end of the process
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Which process, when several use the store
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
}
