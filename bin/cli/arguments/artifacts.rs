//! The arguments of `artifacts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `artifacts`.
#[derive(Debug, Args)]
#[command(after_help = "\
A result, a picture or a sound above 256 KiB is kept beside its session, and is deleted with it. A session and an artifact
are named by their ids, or by beginnings that no other one has.

Examples:
  cli-agent artifacts list notes
  cli-agent artifacts export notes 5e8f3a21 --output result.txt")]
pub(crate) struct ArtifactsArgs {
    /// The action
    #[command(subcommand)]
    pub(crate) action: ArtifactsAction,
}

/// Actions on the artifacts of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsAction {
    /// List the artifacts of a session, with their size and where they come from
    List {
        /// The session, or the beginning of its id
        session: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Write an artifact to a file that does not exist, or a text to stdout
    Export {
        /// The session, or the beginning of its id
        session: String,
        /// The artifact, or the beginning of its id
        artifact: String,
        /// The file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
