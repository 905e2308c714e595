//! The arguments of `skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ListArgs;

/// `skills`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cli-agent skills list\n  cli-agent skills show code-review\n  cli-agent skills validate ./skills\n  cli-agent skills update"
)]
pub(crate) struct SkillsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: SkillsAction,
}

/// Actions on skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsAction {
    /// List the skills of the configuration's sources
    List(ListArgs),
    /// Show a skill: its front matter and its text
    Show {
        /// The skill
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Mirror the commits of the configuration's git sources that are not in the cache
    Update(ListArgs),
    /// Check skills, and show each problem with its location; exit code 1 if a skill is invalid
    Validate {
        /// A skill's folder, or a folder of such folders [default: the configuration's sources]
        path: Option<PathBuf>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
