//! The command line: commands, options and help.
//!
//! Only syntax is declared here. Ids and models are validated where they are used, so that the program controls the
//! error text.

mod artifacts;
mod batch;
mod chat;
mod choices;
mod config;
mod decisions;
mod groups;
mod memory;
mod mode;
mod models;
mod resume;
mod running;
mod sessions;
#[cfg(feature = "skills")]
mod skills;
mod submit;
mod taping;
mod words;

use std::path::PathBuf;

pub(crate) use artifacts::{ArtifactsAction, ArtifactsArgs};
pub(crate) use batch::BatchArgs;
#[cfg(feature = "soak")]
pub(crate) use bob_drill::soak::SoakArgs;
pub(crate) use chat::ChatArgs;
pub(crate) use choices::{ApprovalsArg, OutputForm, Part, output_form};
use clap::{Args, Parser, Subcommand};
pub(crate) use config::{ConfigAction, ConfigArgs, InitArgs, ToolsLevel};
pub(crate) use decisions::{DecisionsAction, DecisionsArgs};
pub(crate) use groups::grouped;
pub(crate) use memory::MemoryArgs;
pub(crate) use mode::ModeArgs;
pub(crate) use models::{ModelsAction, ModelsArgs};
pub(crate) use resume::ResumeArgs;
#[cfg(feature = "top")]
pub(crate) use running::TopArgs;
pub(crate) use running::{CancelArgs, DrainArgs, PsArgs};
pub(crate) use sessions::{SessionsAction, SessionsArgs};
#[cfg(feature = "skills")]
pub(crate) use skills::{SkillsAction, SkillsArgs};
pub(crate) use submit::{SubmitArgs, WorkArgs};
pub(crate) use taping::{ReplayArgs, TapeArg};
pub(crate) use words::with_chat;

/// Bob: an AI agent for the terminal, scripts and services.
#[derive(Debug, Parser)]
#[command(
    name = "cli-agent",
    version,
    after_help = "\
Examples:
  cli-agent                                      chat
  cli-agent init                                 choose a model and what tools may do
  cli-agent \"What is in this folder?\"            chat that begins with these words
  cli-agent -c                                   chat, in the conversation used last
  cli-agent chat --model openai:gpt-4o-mini      chat with a model of a provider
  cli-agent run \"List the files here.\"           one question, one answer
  git diff | cli-agent run \"Explain this:\"       one question about other output
  cli-agent batch questions.jsonl                many questions of many sessions
  cli-agent ps                                   what a running batch or chat is doing
  cli-agent doctor                               what is wrong, and what to do about it

Exit codes: 0 answer, 1 a soak's FAIL, a replay's difference or a broken skill, 2 usage or configuration, 3 a limit
ended the turn, 4 the turn waits for a person, 5 model, 6 tools, 7 store, 70 the runtime gave up, 75 try later,
129/130/143 ended by SIGHUP/SIGINT/SIGTERM.
Answers go to stdout, everything else to stderr."
)]
pub(crate) struct Cli {
    /// Read this configuration alone [default: the nearest agent.toml, over the user's own]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// For screen readers: no colour, no moving cursor, states as sentences; so it is with TERM=dumb
    #[arg(long, global = true)]
    pub(crate) plain: bool,
    /// The command [default: chat]
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start an interactive conversation (the default)
    Chat(ChatArgs),
    /// Run one turn without asking any questions, for scripts
    Run(RunArgs),
    /// Run many turns of many sessions: JSON lines in, one result a line out
    Batch(BatchArgs),
    /// Send a message to a session that a worker runs, perhaps on another machine
    Submit(SubmitArgs),
    /// Run what is submitted to the store, beside other workers
    Work(WorkArgs),
    /// Continue a turn that waits for a person
    Resume(ResumeArgs),
    /// List, search, show, rename, fork, export or delete stored sessions
    Sessions(SessionsArgs),
    /// List or export large results, pictures and sounds of a session
    Artifacts(ArtifactsArgs),
    /// Show what every prompt has from MEMORY.md, or add a line to it
    Memory(MemoryArgs),
    /// List or revoke lasting decisions about tools
    Approvals(DecisionsArgs),
    /// Replay a recorded journal, and report where it would continue differently now
    Replay(ReplayArgs),
    /// List the tools the model may use, with their risk and where they come from
    Tools(ListArgs),
    /// List, show or select models of the catalogue, or refresh it
    Models(ModelsArgs),
    /// List, show or check the skills of the configuration
    #[cfg(feature = "skills")]
    Skills(SkillsArgs),
    /// List the tool servers of the configuration, with their state and last error
    Mcp(McpArgs),
    /// Show the live tree of a running process
    Ps(PsArgs),
    /// Watch and control a running process, full screen
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Cancel the running turn of a session in a running process
    Cancel(CancelArgs),
    /// Make a running process finish its turns, start no new ones, and exit
    Drain(DrainArgs),
    /// Check configuration, keys, model, tools and store, and suggest a fix for each problem
    Doctor(ListArgs),
    /// Run many sessions with injected faults, and check the results
    #[cfg(feature = "soak")]
    Soak(SoakArgs),
    /// Show what the configuration in this folder would start and where it would send keys, and trust it
    #[command(after_help = "\
A configuration in the current folder or above it may have come with someone else's files. One that starts programs, or sends keys
of the environment to an address of its own, is trusted once, for exactly its content; naming a file with --config needs
no trust. What is trusted is kept in ~/.local/state/bob.")]
    Trust(TrustArgs),
    /// Print the JSON schema of the events that `run --output stream-json` prints
    EventsSchema,
    /// Write a configuration, to ./agent.toml or for all projects
    Init(InitArgs),
    /// Show, change or check the configuration
    Config(ConfigArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  cli-agent completions bash > ~/.local/share/bash-completion/completions/cli-agent"
    )]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a PROMPT, or with -, the prompt is all of stdin, at most 1048576 bytes. With one, stdin follows it, if stdin
is a file, or a pipe that has something or ends within 0.2 s; any other stdin is not waited for.
With --output json exactly one line is printed, whatever happens:
  {session_id, turn_id, request_id, model, finish_reason, guard_reason, content, question, token, stop_reason,
   tool_transcript, usage, steps, duration_ms, saved, denied, error}
and changes, a list of {path, before, after}, if files were changed.
With --output stream-json one event a line is printed: turn.started first, turn.finished (with the keys above) last.

Examples:
  cli-agent run \"Which files here mention TODO?\"
  cli-agent run --session review \"Look at src.\" && cli-agent run --session review \"And the tests?\"
  cli-agent run --output json --timeout-ms 20000 - < prompt.txt")]
pub(crate) struct RunArgs {
    /// The message; - or none: read stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Continue this session, or create it [default: a new one]
    #[arg(long, value_name = "ID", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) session: Option<String>,
    /// Continue an existing session, by its id or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
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
    /// A file beside the message: an image or a sound, for models that take them, or a text; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// The output format
    #[arg(long, alias = "output-format", value_enum, default_value_t = OutputForm::Text, value_name = "FORM")]
    pub(crate) output: OutputForm,
    /// The final answer must be JSON that fits the schema in this file; if it does not, the model is asked again
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// What may run without asking
    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    /// How to handle a call that needs an approval: end the turn, to be resumed later, or deny the call
    #[arg(long, value_enum, default_value_t = ApprovalsArg::Deny, value_name = "HOW")]
    pub(crate) approvals: ApprovalsArg,
    /// The maximum number of model calls in the turn
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// The time limit of the turn, milliseconds
    #[arg(long, value_name = "N")]
    pub(crate) timeout_ms: Option<u64>,
    /// First finish a turn of the session that a crash interrupted, instead of closing it
    #[arg(long)]
    pub(crate) finish: bool,
    /// Take over the session if another process holds it; its turn there ends with an error
    #[arg(long)]
    pub(crate) take_over: bool,
    /// record:FILE records the replies of model and tools (overwrite:FILE replaces FILE), replay:FILE plays them back
    #[arg(long, value_name = "HOW:FILE")]
    pub(crate) tape: Option<TapeArg>,
}

/// The one option of a command that prints a list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Do not ask; for scripts
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) yes: bool,
    /// Remove the trust
    #[arg(long)]
    pub(crate) revoke: bool,
}

/// `mcp`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cli-agent mcp list\n  cli-agent mcp list --json\n  cli-agent mcp restart files\n  \
    cli-agent mcp login search"
)]
pub(crate) struct McpArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: McpAction,
}

/// Actions on tool servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Start each server, wait until it is ready or has failed, show its state, and stop it
    List(ListArgs),
    /// Restart a server of a running process; in a chat: /mcp restart ID
    Restart {
        /// The server
        id: String,
        /// The process, if several use the store
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
    /// Sign in to a server that wants it, in a browser; the tokens are kept for the user
    #[cfg(feature = "mcp")]
    Login {
        /// The server
        id: String,
    },
    /// Remove the tokens of a server
    #[cfg(feature = "mcp")]
    Logout {
        /// The server
        id: String,
    },
    /// Make a running process reload its servers from the configuration; in a chat: /mcp reload
    Reload {
        /// The process, if several use the store
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_holds() {
        Cli::command().debug_assert();
    }
}
