//! `cli-agent "words"` and `cli-agent -c`: a command line without a command is one of `chat`.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory;

use super::Cli;

/// Options of the program itself, with their number of arguments.
const OWN_OPTIONS: [(&str, usize); 6] =
    [("--config", 1), ("--plain", 0), ("-h", 0), ("--help", 0), ("-V", 0), ("--version", 0)];

/// Commands that are handled before the command line is parsed.
const HIDDEN_COMMANDS: [&str; 2] = ["help", "soak-worker"];

/// Inserts the command `chat` in front of the first argument that is an option of `chat` or the beginning of a message.
///
/// An argument that is the name of a command stays what it is. So does a single word that is nearly the name of one,
/// which is then refused with a suggestion: a word is near a name when at most one letter was added, left out,
/// replaced or exchanged with its neighbour. An argument with a blank in it is always a message.
pub(crate) fn with_chat(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    if let Some(at) = first(&arguments).filter(|at| is_of_chat(&arguments[*at])) {
        arguments.insert(at, "chat".into());
    }
    arguments
}

/// The first argument behind the options of the program itself.
fn first(arguments: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        let text = argument.to_string_lossy();
        match OWN_OPTIONS.iter().find(|(name, _)| *name == text) {
            Some((_, taken)) => at += 1 + taken,
            None if text.starts_with("--config=") => at += 1,
            None => return Some(at),
        }
    }
    None
}

fn is_of_chat(argument: &OsStr) -> bool {
    let Some(word) = argument.to_str() else { return true };
    if word.contains(char::is_whitespace) || word.starts_with('-') {
        return true;
    }
    let (command, word) = (Cli::command(), word.to_lowercase());
    let names = command.get_subcommands().map(clap::Command::get_name).chain(HIDDEN_COMMANDS);
    names.into_iter().all(|name| strsim::damerau_levenshtein(&word, name) > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Vec<String> {
        let arguments: Vec<OsString> = ["cli-agent"].iter().chain(line).map(OsString::from).collect();
        with_chat(&arguments).into_iter().skip(1).map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn words_and_options_of_chat_need_no_command() {
        for line in [
            &["fix the build"][..],
            &["hello"],
            &["list", "the", "files"],
            &["run it"],
            &["-c"],
            &["--resume", "abc"],
            &["--model", "a:b", "hello"],
        ] {
            assert_eq!(read(line), [&["chat"], line].concat());
        }
        assert_eq!(read(&["--config", "a.toml", "-c"]), ["--config", "a.toml", "chat", "-c"]);
        assert_eq!(read(&["--config=a.toml", "hello"]), ["--config=a.toml", "chat", "hello"]);
    }

    #[test]
    fn commands_and_what_is_nearly_one_stay_as_they_are() {
        for line in [&["run", "hello"][..], &["help", "run"], &["chta"], &["tool"], &["session", "list"], &["Doctor"]] {
            assert_eq!(read(line), line);
        }
        for line in [&[][..], &["--version"], &["--help"], &["--config", "a.toml"]] {
            assert_eq!(read(line), line);
        }
    }
}
