//! The files of a project's commands: `.bob/commands/NAME.md` beside the configuration.
//!
//! They may have come with the folder, and what is in one is sent as the user's message. So only regular files within the
//! configuration's folder are read, and no files of secrets, also where a link leads to them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use bob::tools::Protection;
use bob_config::Config;

/// The largest file, bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// How many commands there are at most, and how many entries of the folder are looked at for them.
const MOST_COMMANDS: usize = 100;
const MOST_LOOKED_AT: usize = 10_000;

/// The folder of the commands. It is read each time, so that a new file is a new command.
#[derive(Clone, Debug)]
pub(crate) struct CommandFiles {
    folder: PathBuf,
    /// The configuration's folder, out of which no link leads.
    around: PathBuf,
    protection: Protection,
    /// Whether the configuration was named, and with it what lies beside it.
    is_named: bool,
}

impl CommandFiles {
    pub(crate) fn of(config: &Config) -> Self {
        let protection = Protection { secret_files: config.policy.secret_files.clone(), ..Protection::default() };
        Self {
            folder: config.resolve(".bob/commands"),
            around: config.folder.clone(),
            protection,
            is_named: config.files().is_named,
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The folder, with its links followed; `None` where there is none.
    pub(crate) fn place(&self) -> Option<PathBuf> {
        self.folder.canonicalize().ok()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.md"))
    }

    /// The names of the commands, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().take(MOST_LOOKED_AT).flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_suffix(".md").filter(|name| is_name(name)).map(str::to_owned)
            })
            .collect();
        names.sort_unstable();
        names.truncate(MOST_COMMANDS);
        names
    }

    /// The text of a command; `None` where there is no such file. Errors: why it is not used.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, String> {
        if !is_name(name) {
            return Ok(None);
        }
        let Ok(file) = self.file(name).canonicalize() else { return Ok(None) };
        if !is_within(&file, &self.around) {
            return Err("it is a link out of the configuration's folder".to_owned());
        }
        if self.protection.is_secret(&file) {
            return Err("it leads to a file of secrets".to_owned());
        }
        // Checked before it is opened, since opening a pipe waits for a writer.
        if !fs::metadata(&file).is_ok_and(|what| what.is_file()) {
            return Ok(None);
        }
        let file = fs::File::open(&file).map_err(|error| error.to_string())?;
        let mut text = String::new();
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        match text.len() as u64 {
            0 => Err("it is empty".to_owned()),
            1..=MOST_BYTES => Ok(Some(text)),
            _ => Err(format!("it has more than {MOST_BYTES} bytes")),
        }
    }

    /// Why the text of a command may not name this file, whose path may have links; `None` if it may.
    pub(crate) fn refuses(&self, file: &Path, workspace: &Path) -> Option<&'static str> {
        match file.canonicalize() {
            Ok(file) if !is_within(&file, workspace) => Some("it is outside the session's folder"),
            Ok(file) if self.protection.is_secret(&file) => Some("it is a file of secrets"),
            Ok(file) if file.components().any(|part| part.as_os_str() == ".bob") => Some("it is the agent's own"),
            Ok(_) => None,
            Err(_gone) => Some("it cannot be found"),
        }
    }
}

/// The first line of a command's text that says something.
pub(crate) fn description(text: &str) -> &str {
    let lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

fn is_within(file: &Path, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| file.starts_with(folder))
}
