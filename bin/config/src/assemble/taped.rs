//! The tape of a runtime that is made from a configuration.

use std::path::PathBuf;

use bob::AgentError;
use bob::llm::providers::KNOWN;
use secrecy::SecretString;

use super::Lookup;
use crate::Config;
use bob::tape::{Recorder, Redactor, Tape, TapeError};

/// What is done with a tape.
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

/// Opens a tape. What the configuration and the environment hold in confidence is kept off it.
///
/// # Errors
/// `Invalid` when the file is there and was not to be, when it is not, or when it is no tape.
pub(super) fn open(choice: &TapeChoice, config: &Config, environment: Lookup<'_>) -> Result<Opened, AgentError> {
    let workspace = super::workspace(config)?;
    let redactor = redactor(config, environment).at(&workspace.to_string_lossy());
    let opened = match choice {
        TapeChoice::Record(path) => Recorder::create(path, redactor, "").map(Opened::Recording),
        TapeChoice::Overwrite(path) => {
            // The file itself goes, so that who may read it or where it leads does not stay.
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

/// Finds what the configuration holds in confidence, and the keys of well-known providers.
pub fn redactor(config: &Config, environment: Lookup<'_>) -> Redactor {
    let keys = KNOWN.iter().filter_map(|known| environment(known.key_variable?)).map(SecretString::from);
    Redactor::new(config.secrets().into_iter().chain(keys))
}
