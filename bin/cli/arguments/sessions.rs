//! The arguments of `sessions`.

use std::path::PathBuf;

use bob::sessions::PoolName;
use clap::{Args, Subcommand};

use super::choices::Part;
use super::mode::ModeArg;
use super::submit::pool;

/// `sessions`.
#[derive(Debug, Args)]
#[command(after_help = "\
A session is named by its id, or by a beginning of the id that no other session has.

Examples:
  cli-agent sessions list
  cli-agent sessions search flaky test
  cli-agent sessions fork 01a20425 --at 3
  cli-agent sessions export notes > notes.jsonl
  cli-agent sessions export --markdown notes > notes.md")]
pub(crate) struct SessionsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: SessionsAction,
}

/// Actions on stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List sessions, most recently used first, with their titles; those in use or waiting say so
    List {
        /// How many; 0: all [default: 30, with --json all]
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// Also those that work for calls of others, behind the one they work for
        #[arg(long)]
        children: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Find sessions in whose title or messages a text stands, in upper or lower case
    Search {
        /// The text
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
        /// How many sessions; 0: all
        #[arg(long, value_name = "N", default_value_t = 30)]
        limit: usize,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the conversation of a session
    Show {
        /// The session, or the beginning of its id
        id: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print the journal of a session, one JSON record a line, or the conversation as Markdown
    Export {
        /// The session, or the beginning of its id
        id: String,
        /// Print the conversation as Markdown, with calls and whole results
        #[arg(long)]
        markdown: bool,
        /// Accepted for symmetry: an export is JSON unless it is Markdown
        #[arg(long, hide = true)]
        json: bool,
    },
    /// Change options of a session, from its next turn on
    Set {
        /// The session, or the beginning of its id
        id: String,
        /// The model, as provider:model
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// The working folder, inside policy.workspace
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// The instructions instead of the configuration's
        #[arg(long, value_name = "TEXT")]
        instructions: Option<String>,
        /// What its turns may do without asking, unless a turn names a mode
        #[arg(long, value_enum, value_name = "MODE")]
        mode: Option<ModeArg>,
        /// Bind it to a pool of machines
        #[arg(long, value_name = "POOL", value_parser = pool)]
        pool: Option<PoolName>,
        /// Reset to the configured value; repeatable
        #[arg(long, value_name = "OPTION", value_parser = ["model", "cwd", "instructions", "mode", "pool"])]
        clear: Vec<String>,
        /// Leave the change to the process that has the session, or takes it next, and wait for it
        #[arg(long)]
        submit: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Give a session another title; by default it is the beginning of the first message
    Rename {
        /// The session, or the beginning of its id
        id: String,
        /// The title, one line, of which at most 72 characters are kept
        #[arg(required = true, value_name = "TITLE")]
        title: Vec<String>,
        /// Leave the change to the process that has the session, or takes it next, and wait for it
        #[arg(long)]
        submit: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Copy the beginning of a session into a new one, whose id is printed; files are not touched
    Fork {
        /// The session, or the beginning of its id
        id: String,
        /// How many turns to copy [default: all that are over]
        #[arg(long, value_name = "TURN")]
        at: Option<usize>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what a session changed of files, as a unified difference
    Diff {
        /// The session, or the beginning of its id
        id: String,
        /// Only this turn of the session, the first being 1 [default: all]
        #[arg(long, value_name = "TURN")]
        turn: Option<u64>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Put files back as they were before a turn of a session; what shell commands changed is not recorded
    Undo {
        /// The session, or the beginning of its id
        id: String,
        /// The turn, the first being 1 [default: the last one of which something is left to undo]
        #[arg(long, value_name = "TURN", conflicts_with = "all")]
        turn: Option<u64>,
        /// All turns of the session
        #[arg(long)]
        all: bool,
        /// Overwrite files that were changed since
        #[arg(long)]
        force: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Go back to the end of a turn: put files back as they were then, and copy the conversation up to it
    Rewind {
        /// The session, or the beginning of its id
        id: String,
        /// The turn, the first being 1; with --only files also 0, the beginning
        #[arg(long, value_name = "TURN")]
        to: usize,
        /// Only the files, or only the conversation [default: both]
        #[arg(long, value_enum, value_name = "PART")]
        only: Option<Part>,
        /// Overwrite files that were changed since
        #[arg(long)]
        force: bool,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Take a session from the process that owns it, also on another machine, and leave it to any that claims it
    Take {
        /// The session, or the beginning of its id
        id: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Delete a session permanently, with those of its sub-agents
    Delete {
        /// The session, or the beginning of its id
        id: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}
