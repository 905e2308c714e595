//! The tape of a runtime that is made from a configuration.

use std::path::PathBuf;

use bob::AgentError;
use bob::model::providers::KNOWN;
use secrecy::SecretString;

use super::Lookup;
use crate::Config;
use bob::tape::{Recorder, Redactor, Tape, TapeError};

/// How a tape is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapeChoice {
    /// Everything is recorded into a file that is not there yet.
    Record(PathBuf),
    /// Everything is recorded into a file, which is replaced if it exists.
    Overwrite(PathBuf),
    /// Models and tools are this file's.
    Replay(PathBuf),
}

/// A tape that was opened.
#[derive(Clone, Debug)]
pub enum Opened {
    /// To be written.
    Recording(Recorder),
    /// To be read.
    Replaying(Tape),
}

/// Opens a tape. Secrets of the configuration and the environment are kept off it.
/// Errors: `Invalid` when the file exists and must not, when it is missing, or when it is not a tape.
pub(super) fn open(choice: &TapeChoice, config: &Config, environment: Lookup<'_>) -> Result<Opened, AgentError> {
    let workspace = super::workspace(config)?;
    let redactor = redactor(config, environment).at(&workspace.to_string_lossy());
    let opened = match choice {
        TapeChoice::Record(path) => Recorder::create(path, redactor, "").map(Opened::Recording),
        TapeChoice::Overwrite(path) => {
            // Removes the old file, so that its permissions or link target are not reused.
            match std::fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(AgentError::Invalid(format!("the tape {}: {error}", path.display()))),
            }
            Recorder::create(path, redactor, "").map(Opened::Recording)
        }
        TapeChoice::Replay(path) => Tape::load(path, redactor).map(Opened::Replaying),
    };
    opened.map_err(|error: TapeError| AgentError::Invalid(error.to_string()))
}

/// Redacts the configuration's secrets and the keys of well-known providers.
pub fn redactor(config: &Config, environment: Lookup<'_>) -> Redactor {
    let keys = KNOWN.iter().filter_map(|known| environment(known.key_variable?)).map(SecretString::from);
    Redactor::new(config.secrets().into_iter().chain(keys))
}
