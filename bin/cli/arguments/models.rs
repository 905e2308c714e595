//! The arguments of `models`.

use clap::{Args, Subcommand};

/// `models`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cli-agent models list --require vision,tool_use
  cli-agent models show openai:gpt-4o-mini
  cli-agent models select cheap
  cli-agent models select require=vision,preference=latency_first")]
pub(crate) struct ModelsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: ModelsAction,
}

/// Actions on the catalogue of models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsAction {
    /// List the models that can be run here, with context, prices and abilities
    List {
        /// Only models that can do this: tool_use, vision, audio, reasoning, json_mode
        #[arg(long, value_name = "ABILITY", value_delimiter = ',')]
        require: Vec<String>,
        /// Also models that cannot be run here, with the reason
        #[arg(long)]
        all: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what is known of a model and whether it can be run here; exit code 2 if not
    Show {
        /// The model, as provider:model
        name: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show which model a selector selects, and why; exit code 2 if none
    Select {
        /// The name of a selector of the configuration, or conditions such as require=vision,preference=cost_first
        name: String,
        /// About how many tokens the request has
        #[arg(long, value_name = "TOKENS", default_value_t = 2_000)]
        tokens: u64,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Ask the source of the catalogue now, and keep its answer
    Refresh {
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
