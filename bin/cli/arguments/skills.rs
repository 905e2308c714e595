//! The arguments of `skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ListArgs;

/// `skills`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cli-agent skills list\n  cli-agent skills show code-review\n  cli-agent skills validate ./skills"
)]
pub(crate) struct SkillsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: SkillsAction,
}

/// What can be done with skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsAction {
    /// List the skills of the configuration's sources
    List(ListArgs),
    /// Show a skill: what its head says, and its text
    Show {
        /// The skill
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Check skills and name what is wrong with its place; exit code 1 when a skill is broken
    Validate {
        /// A skill's folder, or a folder of such folders [default: the configuration's sources]
        path: Option<PathBuf>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
