//! `config` and `init`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `config`.
#[derive(Debug, Args)]
#[command(after_help = "\
The configuration is the nearest agent.toml, from this folder up to the one that holds .git, over the user's own,
~/.config/cli-agent/agent.toml, over built-in defaults; tables are merged key by key, lists are replaced. With
--config FILE it is that file alone.

Examples:
  cli-agent config path
  cli-agent config get runtime.default_model
  cli-agent config set runtime.max_steps 200
  cli-agent config set --global runtime.default_model openai:gpt-4.1
  cli-agent config check")]
pub(crate) struct ConfigArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

/// Actions on the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the value of a key that is in force, of all files and the environment, or its default
    Get {
        /// The key, such as runtime.max_steps
        key: String,
    },
    /// Set a key in the project's file, or in the user's own where there is no project; comments are kept
    Set {
        /// Set it in the user's own file
        #[arg(long)]
        global: bool,
        /// The key, such as runtime.max_steps
        key: String,
        /// The value, as TOML; what is no TOML is a text
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print which files are read, and where sessions are kept
    Path,
    /// Check the files, and print each problem with its place
    Check,
}

/// `init`.
#[derive(Debug, Args)]
#[command(after_help = "\
At a terminal and without options it asks for the model, what tools may do, and for which projects. With an option, or
without a terminal, nothing is asked. In the repository of the program the file explains every key, unless --model,
--tools or --global is given.

Examples:
  cli-agent init
  cli-agent init --model anthropic:claude-sonnet-4-5 --tools edit
  cli-agent init --global --model openai:gpt-4.1")]
pub(crate) struct InitArgs {
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the user's own file, for all projects
    #[arg(long)]
    pub(crate) global: bool,
    /// The model, as provider:model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// What tools may do in the working folder
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) tools: Option<ToolsLevel>,
}

/// What tools may do in the working folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsLevel {
    /// Read and search files
    Read,
    /// Also change files
    Edit,
    /// Also run commands; each is asked about
    #[default]
    Shell,
}

impl InitArgs {
    /// Whether everything is said, so that nothing is asked.
    pub(crate) fn is_complete(&self) -> bool {
        self.force || self.is_chosen()
    }

    /// Whether an option says what the file is to contain.
    pub(crate) fn is_chosen(&self) -> bool {
        self.global || self.model.is_some() || self.tools.is_some()
    }

    /// Where a file is written that is not the user's own.
    pub(crate) fn project(&self, named: Option<&std::path::Path>) -> PathBuf {
        named.map_or_else(|| PathBuf::from(bob_config::NAME), std::path::Path::to_owned)
    }
}
