//! The arguments of `approvals`.

use clap::{Args, Subcommand};

use super::ListArgs;

/// `approvals`.
#[derive(Debug, Args)]
#[command(after_help = "\
Listed are the decisions for the folder of this configuration. Those for one session are not among them: they are in
its journal. What is taken back holds no longer in any session; a process that runs now keeps to it until it ends.

Examples:
  cli-agent approvals list
  cli-agent approvals revoke 3f9a01c2")]
pub(crate) struct DecisionsArgs {
    /// What to do with them
    #[command(subcommand)]
    pub(crate) action: DecisionsAction,
}

/// What can be done with decisions for good.
#[derive(Debug, Subcommand)]
pub(crate) enum DecisionsAction {
    /// List them: id, decision, time, tool and calls
    List(ListArgs),
    /// Take decisions back, so that such calls are asked about again
    Revoke {
        /// The decisions, as the list names them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
