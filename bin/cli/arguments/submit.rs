//! The arguments of the commands with which processes share sessions.

use bob::sessions::PoolName;
use clap::Args;

use super::OutputForm;

/// `submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
The message is kept in the store (`store.kind` = \"postgres\", \"sqlite\" or \"json\") until `cli-agent work` has run its
turn, on this machine or on another one; without a worker it waits. Model, tools and what may run without asking are
those of the worker's configuration. Ctrl-C ends the waiting and not the turn: the same command with --request-id goes
on waiting, and never runs a turn twice.

Examples:
  cli-agent submit \"Which orders are late?\"
  cli-agent submit --session orders --follow \"And who is to be told?\"
  cli-agent submit --session orders --steer \"Only those of this week.\"
  cli-agent submit --session render --pool gpu \"Render the scene.\"
  cli-agent submit --session nightly --request-id 2026-05-01 --no-wait - < prompt.txt")]
pub(crate) struct SubmitArgs {
    /// The message; - or none: read stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Continue this session, or create it [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The name of the message: a repeated one has the first outcome [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// The model, as provider:model [default: the worker's]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Bind the session to a pool of machines, whose processes alone run it
    #[arg(long, value_name = "POOL", value_parser = pool)]
    pub(crate) pool: Option<PoolName>,
    /// Show what the turn does, as its journal has it
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) follow: bool,
    /// Print the session's id as soon as the message is accepted, and do not wait for its outcome
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Add the message to the turn that runs in the session, and begin none
    #[arg(long, requires = "session", conflicts_with_all = ["model", "pool", "follow", "no_wait"])]
    pub(crate) steer: bool,
    /// Print the result as JSON; with --no-wait the ids, with --follow one event a line before it
    #[arg(long)]
    pub(crate) json: bool,
}

impl SubmitArgs {
    /// The form in which the outcome is printed.
    pub(crate) fn form(&self) -> OutputForm {
        match (self.json, self.follow) {
            (false, _) => OutputForm::Text,
            (true, false) => OutputForm::Json,
            (true, true) => OutputForm::StreamJson,
        }
    }
}

/// The name of a pool.
pub(super) fn pool(text: &str) -> Result<PoolName, String> {
    PoolName::parse(text).map_err(|error| error.to_string())
}

/// `work`.
#[derive(Debug, Args)]
#[command(after_help = "\
Works until it is told to end. Any number of workers, on any number of machines, may share a store of the kind
\"postgres\"; those of one machine share \"sqlite\". When one dies, the others finish its turns, as `run --finish` does.
SIGTERM, Ctrl-C and `cli-agent drain` end it: no new turn is begun, running ones have runtime.shutdown_grace_ms, and
those that have not ended are left to the other workers. A second signal ends it at once.

Examples:
  cli-agent work
  cli-agent work --pool gpu
  cli-agent work --concurrency 16 --json >> results.jsonl")]
pub(crate) struct WorkArgs {
    /// The maximum number of sessions at a time [default: runtime.max_concurrent_turns, up to 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) concurrency: Option<u32>,
    /// Run sessions of this pool of machines, too; repeatable [default: runtime.pools]
    #[arg(long = "pool", value_name = "POOL", value_parser = pool)]
    pub(crate) pools: Vec<PoolName>,
    /// The model of messages that name none, as provider:model
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Print each result as one line of JSON, as batch does
    #[arg(long)]
    pub(crate) json: bool,
}
