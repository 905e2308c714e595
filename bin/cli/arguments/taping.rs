//! The arguments about tapes and recorded journals.

use std::path::PathBuf;
use std::str::FromStr;

use bob_config::assemble::TapeChoice;
use clap::Args;

/// `--tape HOW:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TapeArg(TapeChoice);

impl TapeArg {
    /// Returns the mode and the file.
    pub(crate) fn choice(&self) -> TapeChoice {
        self.0.clone()
    }

    /// Whether models and tools come from a tape.
    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.0, TapeChoice::Replay(_))
    }
}

impl FromStr for TapeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write record:FILE, overwrite:FILE or replay:FILE".to_owned();
        let (how, file) = text.split_once(':').filter(|(_, file)| !file.is_empty()).ok_or_else(form)?;
        let file = PathBuf::from(file);
        match how {
            "record" => Ok(Self(TapeChoice::Record(file))),
            "overwrite" => Ok(Self(TapeChoice::Overwrite(file))),
            "replay" => Ok(Self(TapeChoice::Replay(file))),
            _ => Err(form()),
        }
    }
}

/// `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
The inputs, replies, verdicts, results and decisions of the journal are fed to the turn's state machine again, and the
records it writes are compared one by one, ids included, times excluded. Nothing is started, asked or stored.
Exit codes: 0 no difference, 1 a difference, 2 the journal cannot be read.

Examples:
  cli-agent sessions export notes > notes.jsonl && cli-agent replay notes.jsonl
  cli-agent replay --session notes               a session of the configured store")]
pub(crate) struct ReplayArgs {
    /// A journal, one JSON record a line, as `sessions export` prints it; - reads stdin
    #[arg(value_name = "FILE", required_unless_present = "session")]
    pub(crate) file: Option<String>,
    /// The session: of the store, or of a FILE with several sessions
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
