//! `init`: a configuration to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use bob_config::Config;

use crate::arguments::InitArgs;
use crate::exit::{Exit, Failure};
use crate::runtime::trust;
use crate::terminal::print;

/// The script that starts the shipped local model, relative to the configuration.
const MODEL_SCRIPT: &str = "scripts/local-model.sh";

/// Writes the shipped configuration to the current folder, or to the file that `--config` names.
///
/// # Errors
/// When the file is there already and was not to be replaced, or cannot be written.
pub(crate) fn init(args: &InitArgs, file: &Path) -> Result<Exit, Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options.open(file).and_then(|mut opened| opened.write_all(Config::example().as_bytes()));
    match written {
        Ok(()) => {
            // The user requested this file, so it is trusted.
            trust::take(file, Config::example());
            print::note(&format!("wrote {}; next: cli-agent doctor", file.display()));
            if !file.with_file_name(MODEL_SCRIPT).exists() {
                print::note(&format!(
                    "its model on this machine needs {MODEL_SCRIPT} of the repository beside it; without that, set \
                     runtime.default_model to a model of a provider, for example \"openai:gpt-4o-mini\""
                ));
            }
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure::usage(format!("{} already exists; use --force to overwrite it", file.display())))
        }
        Err(error) => Err(Failure::usage(format!("cannot write {}: {error}", file.display()))),
    }
}
