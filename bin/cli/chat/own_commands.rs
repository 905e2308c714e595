//! Commands of the project: `.bob/commands/NAME.md` beside the configuration is the message that `/NAME` sends. Those that
//! came with a folder are used once they are trusted.

use super::help::COMMANDS;
use crate::exit::Failure;
use crate::runtime::command_files::{self, CommandFiles};
use crate::runtime::trust;

/// How many characters of a description are shown.
const MOST_DESCRIPTION: usize = 100;

/// Replaced by what stands behind the name of the command.
const ARGUMENTS: &str = "$ARGUMENTS";

/// The commands of the project. They are read each time, so that a new file is a new command.
#[derive(Clone, Debug)]
pub(super) struct OwnCommands {
    pub(super) files: CommandFiles,
}

/// The message of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnMessage {
    pub(super) text: String,
    /// What the user typed behind the name of the command.
    pub(super) arguments: String,
}

impl OwnCommands {
    pub(super) fn of(files: CommandFiles) -> Self {
        Self { files }
    }

    /// The commands that are trusted, each with its slash and the first line of its file, by name.
    pub(super) fn listed(&self) -> Vec<(String, String)> {
        let names = self.files.names().into_iter().filter(|name| is_free(name));
        let described = |name: String| {
            let text = self.files.read(&name).ok().flatten()?;
            let first = command_files::description(&text);
            (!first.is_empty() && trust::is_command_trusted(&self.files, &name, &text))
                .then(|| (format!("/{name}"), first.chars().take(MOST_DESCRIPTION).collect()))
        };
        names.filter_map(described).collect()
    }

    /// A line about the commands that are not used; `None` where all are.
    pub(super) fn untrusted(&self) -> Option<String> {
        let names: Vec<String> =
            trust::untrusted_commands(&self.files).into_iter().map(|(name, _)| format!("/{name}")).collect();
        (!names.is_empty())
            .then(|| format!("[not used: {} of .bob/commands; look at them with `cli-agent trust`]", names.join(", ")))
    }

    /// The message of a command line such as `/review src`; `None` if there is no such command.
    pub(super) fn message(&self, line: &str) -> Result<Option<OwnMessage>, Failure> {
        let (name, arguments) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let Some(name) = name.strip_prefix('/').filter(|name| is_free(name)) else { return Ok(None) };
        let refuse = |why: String| Failure::usage(format!("cannot use {}: {why}", self.files.file(name).display()));
        let Some(text) = self.files.read(name).map_err(refuse)? else { return Ok(None) };
        if !trust::is_command_trusted(&self.files, name, &text) {
            return Err(refuse("it is not trusted as it is; look at it with `cli-agent trust`".to_owned()));
        }
        let arguments = arguments.trim();
        Ok(Some(OwnMessage { text: filled(&text, arguments), arguments: arguments.to_owned() }))
    }
}

/// Whether no command of the chat has this name.
fn is_free(name: &str) -> bool {
    COMMANDS.iter().all(|command| &command.name[1..] != name)
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
    use bob_config::{Environment, Overrides, parse};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn own(folder: &std::path::Path) -> OwnCommands {
        let (text, environment) = ("runtime.default_model = 'openai:m'\n", Environment::default());
        let config = parse(text, &folder.join("agent.toml"), &environment, &Overrides::default());
        fs::create_dir_all(folder.join(".bob/commands")).unwrap();
        OwnCommands::of(CommandFiles::of(&config.unwrap_or_else(|error| panic!("{error}"))))
    }

    #[test]
    fn a_file_is_a_command_and_takes_its_arguments() {
        let scratch = tempfile::tempdir().unwrap();
        let (own, folder) = (own(scratch.path()), scratch.path().join(".bob/commands"));
        fs::write(folder.join("review.md"), "# Review the code\n\nLook at $ARGUMENTS with care.\n").unwrap();
        fs::write(folder.join("help.md"), "not mine").unwrap();
        fs::write(folder.join("empty.md"), "").unwrap();
        fs::write(folder.join("large.md"), "x".repeat(70_000)).unwrap();
        assert_eq!(own.listed(), [("/review".to_owned(), "Review the code".to_owned())]);
        let message = |line| own.message(line).unwrap().map(|message| message.text);
        assert_eq!(message("/review src/a b").as_deref(), Some("# Review the code\n\nLook at src/a b with care.\n"));
        assert_eq!((message("/help"), message("/none"), message("/../x"), message("no")), (None, None, None, None));
        assert!(own.message("/empty").is_err() && own.message("/large").is_err());
        assert_eq!(filled("Say it.\n", "twice"), "Say it.\n\ntwice");
    }

    #[test]
    fn a_link_out_of_the_folder_or_to_a_secret_is_no_command() {
        let scratch = tempfile::tempdir().unwrap();
        let project = scratch.path().join("p");
        let (own, folder) = (own(&project), project.join(".bob/commands"));
        fs::write(scratch.path().join("outside.md"), "outside").unwrap();
        fs::write(project.join(".env"), "KEY=secret").unwrap();
        fs::write(project.join("shared.md"), "shared").unwrap();
        symlink(scratch.path().join("outside.md"), folder.join("out.md")).unwrap();
        symlink("../../.env", folder.join("env.md")).unwrap();
        symlink("../../shared.md", folder.join("shared.md")).unwrap();
        assert!(own.message("/out").is_err() && own.message("/env").is_err());
        assert_eq!(own.listed(), [("/shared".to_owned(), "shared".to_owned())]);
    }
}
