//! The arguments of `approvals`.

use clap::{Args, Subcommand};

use super::ListArgs;

/// `approvals`.
#[derive(Debug, Args)]
#[command(after_help = "\
Lists the decisions for the folder of this configuration; decisions for one session are in its journal. A revoked
decision no longer applies to any session; a process that is running keeps it until it ends.

Examples:
  cli-agent approvals list
  cli-agent approvals revoke 3f9a01c2")]
pub(crate) struct DecisionsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: DecisionsAction,
}

/// Actions on lasting decisions.
#[derive(Debug, Subcommand)]
pub(crate) enum DecisionsAction {
    /// List the decisions: id, decision, time, tool and calls
    List(ListArgs),
    /// Revoke decisions, so that such calls ask again
    Revoke {
        /// The ids of the decisions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
