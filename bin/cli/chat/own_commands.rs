//! Commands of the project: `.bob/commands/NAME.md` beside the configuration is the message that `/NAME` sends.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use super::help::COMMANDS;
use crate::exit::Failure;

/// The largest file, bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// How many commands are listed and completed.
const MOST_COMMANDS: usize = 100;

/// How many characters of a description are shown.
const MOST_DESCRIPTION: usize = 100;

/// Replaced by what stands behind the name of the command.
const ARGUMENTS: &str = "$ARGUMENTS";

/// The folder of the commands. It is read each time, so that a new file is a new command.
#[derive(Clone, Debug)]
pub(super) struct OwnCommands {
    folder: PathBuf,
}

impl OwnCommands {
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The commands, each with its slash and the first line of its file, by name.
    pub(super) fn listed(&self) -> Vec<(String, String)> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".md").filter(|name| is_name(name)).map(str::to_owned)
        });
        let mut names: Vec<String> = names.take(MOST_COMMANDS).collect();
        names.sort_unstable();
        let described = |name: String| {
            let text = self.read(&name).ok().flatten()?;
            let first = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty())?;
            Some((format!("/{name}"), first.chars().take(MOST_DESCRIPTION).collect()))
        };
        names.into_iter().filter_map(described).collect()
    }

    /// The message of a command line such as `/review src`; `None` if there is no such command.
    pub(super) fn message(&self, line: &str) -> Result<Option<String>, Failure> {
        let (name, arguments) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let Some(name) = name.strip_prefix('/').filter(|name| is_name(name)) else { return Ok(None) };
        let text = self.read(name).map_err(|why| {
            Failure::usage(format!("cannot use {}: {why}", self.folder.join(format!("{name}.md")).display()))
        })?;
        Ok(text.map(|text| filled(&text, arguments.trim())))
    }

    fn read(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.folder.join(format!("{name}.md"));
        // Checked before it is opened, since opening a pipe waits for a writer.
        if !fs::metadata(&path).is_ok_and(|what| what.is_file()) {
            return Ok(None);
        }
        let file = fs::File::open(&path).map_err(|error| error.to_string())?;
        let mut text = String::new();
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        match text.len() as u64 {
            0 => Err("it is empty".to_owned()),
            1..=MOST_BYTES => Ok(Some(text)),
            _ => Err(format!("it has more than {MOST_BYTES} bytes")),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(is_plain) && COMMANDS.iter().all(|command| &command.name[1..] != name)
}

/// The text with the arguments in their place, or behind it where it has none.
fn filled(text: &str, arguments: &str) -> String {
    match (text.contains(ARGUMENTS), arguments) {
        (true, _) => text.replace(ARGUMENTS, arguments),
        (false, "") => text.to_owned(),
        (false, _) => format!("{}\n\n{arguments}", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_command_and_takes_its_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnCommands::of(folder.path().to_owned());
        fs::write(folder.path().join("review.md"), "# Review the code\n\nLook at $ARGUMENTS with care.\n").unwrap();
        fs::write(folder.path().join("help.md"), "not mine").unwrap();
        fs::write(folder.path().join("empty.md"), "").unwrap();
        fs::write(folder.path().join("large.md"), "x".repeat(70_000)).unwrap();
        assert_eq!(own.listed(), [("/review".to_owned(), "Review the code".to_owned())]);
        let message = |line| own.message(line).unwrap();
        assert_eq!(message("/review src/a b").as_deref(), Some("# Review the code\n\nLook at src/a b with care.\n"));
        assert_eq!((message("/help"), message("/none"), message("/../x"), message("no")), (None, None, None, None));
        assert!(own.message("/empty").is_err() && own.message("/large").is_err());
        assert_eq!(filled("Say it.\n", "twice"), "Say it.\n\ntwice");
    }
}
