//! What stands before the history: the texts of the configuration and the files it names.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use bob_messages::error::AgentError;
use bob_messages::turn::PromptLayers;

use crate::config::Config;

/// The most of one file that is read, bytes. A prompt shows less of it; more is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The layers, files included: each is looked up in the working folder, then in the configuration's.
///
/// # Errors
/// When a file of `prompt.files` is missing, or one that is there cannot be read as text.
pub(super) fn layers(config: &Config, folder: &Path) -> Result<PromptLayers, AgentError> {
    let written = &config.prompt;
    let mut instructions = written.instructions.clone();
    for name in &written.files {
        let text = read(config, folder, "prompt.files", name)?.ok_or_else(|| {
            let places = [folder.join(name), config.resolve(name)].map(|path| path.display().to_string());
            let places = if places[0] == places[1] { places[0].clone() } else { places.join(" or ") };
            AgentError::Invalid(format!("prompt.files names {name:?}, and there is no {places}"))
        })?;
        if !instructions.is_empty() {
            instructions.push_str("\n\n");
        }
        instructions.push_str(text.trim_end());
    }
    Ok(PromptLayers {
        instructions,
        bootstrap: written.bootstrap.clone(),
        memory: read(config, folder, "prompt.memory", &written.memory)?.unwrap_or_default(),
        tool_notes: read(config, folder, "prompt.tool_notes", &written.tool_notes)?.unwrap_or_default(),
        ..PromptLayers::default()
    })
}

fn read(config: &Config, folder: &Path, key: &str, name: &str) -> Result<Option<String>, AgentError> {
    if name.is_empty() {
        return Ok(None);
    }
    for path in [folder.join(name), config.resolve(name)] {
        match text(&path) {
            Ok(text) => return Ok(Some(text)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(AgentError::Invalid(format!("{key}: cannot read {}: {error}", shown(path)))),
        }
    }
    Ok(None)
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

fn shown(path: PathBuf) -> String {
    path.display().to_string()
}
