//! Editing support: completion, hints, and detection of incomplete messages.
//!
//! Applies to messages only, not to answers.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bob::approvals::PermissionMode;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use super::help::{COMMANDS, Command, Takes};
use super::message;
use crate::terminal::print;

/// Kinds of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Session,
    Model,
    /// Ids of tool servers.
    Server,
    File,
    /// Commands of the project, without their slash.
    Own,
}

/// Looks up completions of a prefix. Runs on the editor's thread and returns quickly, if need be without results.
pub(super) type LookUp = Arc<dyn Fn(Wanted, &str) -> Vec<String> + Send + Sync>;

pub(super) struct Aid {
    /// Whether anything is typed on the line: the editor shows it each change, asking for a hint.
    is_typed: Rc<Cell<bool>>,
    /// Whether a message is being typed.
    is_message: Rc<Cell<bool>>,
    look_up: LookUp,
    is_coloured: bool,
}

impl Aid {
    pub(super) fn new(is_typed: Rc<Cell<bool>>, is_message: Rc<Cell<bool>>, look_up: LookUp) -> Self {
        Self { is_typed, is_message, look_up, is_coloured: print::stderr_takes_colour() }
    }
}

impl Helper for Aid {}

impl Completer for Aid {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        match self.is_message.get() {
            true => Ok(candidates(&line[..position], &self.look_up)),
            false => Ok((position, Vec::new())),
        }
    }
}

/// Returns the start of the last word, and its completions.
fn candidates(line: &str, look_up: &LookUp) -> (usize, Vec<Pair>) {
    let pair = |word: &str, end: &str| Pair { display: word.to_owned(), replacement: format!("{word}{end}") };
    let word = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    if let Some(path) = line[word..].strip_prefix('@') {
        // A completed folder is continued.
        let end = |path: &str| if path.ends_with('/') { "" } else { " " };
        let paths = look_up(Wanted::File, path).into_iter().map(|path| pair(&format!("@{path}"), end(&path))).collect();
        return (word, paths);
    }
    let Some(begun) = line.strip_prefix('/') else { return (line.len(), Vec::new()) };
    let Some((name, argument)) = line.split_once(' ') else {
        let fits = COMMANDS.iter().filter(|command| command.name.starts_with(line));
        let fits = fits.map(|command| pair(command.name, if command.takes == Takes::Nothing { "" } else { " " }));
        let own = look_up(Wanted::Own, begun).into_iter().map(|name| pair(&format!("/{name}"), " "));
        return (0, fits.chain(own).collect());
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else { return (line.len(), Vec::new()) };
    let begins = line.len() - argument.trim_start().len();
    let argument = argument.trim_start();
    let found = |wanted, prefix: &str| look_up(wanted, prefix).iter().map(|word| pair(word, "")).collect();
    match (command.takes, argument.split_once(' ')) {
        (Takes::Nothing | Takes::Text, _) => (line.len(), Vec::new()),
        (Takes::Session, _) => (begins, found(Wanted::Session, argument)),
        (Takes::Model, _) => (begins, found(Wanted::Model, argument)),
        (Takes::Mode, _) => {
            let modes = PermissionMode::ALL.into_iter().filter(|mode| mode.as_str().starts_with(argument));
            (begins, modes.map(|mode| pair(mode.as_str(), "")).collect())
        }
        (Takes::Action, None) => {
            let actions = [("restart", " "), ("reload", "")].into_iter().filter(|(name, _)| name.starts_with(argument));
            (begins, actions.map(|(name, end)| pair(name, end)).collect())
        }
        (Takes::Action, Some(("restart", server))) => (line.len() - server.len(), found(Wanted::Server, server)),
        (Takes::Action, Some(_)) => (line.len(), Vec::new()),
    }
}

/// The rest of a command, shown after the cursor.
pub(super) struct Rest {
    shown: String,
    /// The completion that the right arrow accepts.
    taken: usize,
}

impl Hint for Rest {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        Some(&self.shown[..self.taken]).filter(|taken| !taken.is_empty())
    }
}

impl Hinter for Aid {
    type Hint = Rest;

    fn hint(&self, line: &str, position: usize, _context: &Context<'_>) -> Option<Rest> {
        self.is_typed.set(!line.is_empty());
        if self.is_message.get() && position == line.len() { hint(line) } else { None }
    }
}

fn hint(line: &str) -> Option<Rest> {
    if let Some(name) = line.strip_suffix(' ') {
        let command = COMMANDS.iter().find(|command| command.name == name && command.takes != Takes::Nothing)?;
        return Some(Rest { shown: command.form.to_owned(), taken: 0 });
    }
    let mut fits = COMMANDS.iter().filter(|command| line.len() > 1 && command.name.starts_with(line));
    let (command, None) = (fits.next()?, fits.next()) else { return None };
    let rest = command.name[line.len()..].to_owned();
    let shown = match command {
        Command { form: "", .. } => rest.clone(),
        Command { form, .. } => format!("{rest} {form}"),
    };
    Some(Rest { shown, taken: rest.len() })
}

impl Highlighter for Aid {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.is_coloured { Cow::Owned(format!("\u{1b}[2m{hint}\u{1b}[0m")) } else { Cow::Borrowed(hint) }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _is_default: bool) -> Cow<'b, str> {
        if self.is_coloured { Cow::Owned(format!("\u{1b}[1m{prompt}\u{1b}[0m")) } else { Cow::Borrowed(prompt) }
    }
}

impl Validator for Aid {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        match self.is_message.get() && message::is_open(context.input()) {
            true => Ok(ValidationResult::Incomplete),
            false => Ok(ValidationResult::Valid(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> (usize, Vec<String>) {
        let look_up: LookUp = Arc::new(|wanted, prefix| {
            let all = match wanted {
                Wanted::Session => ["abc-1", "abd-2"],
                Wanted::Model => ["openai:gpt", "local:tiny"],
                Wanted::Server => ["files", "clock"],
                Wanted::File => ["src/", "notes.txt"],
                Wanted::Own => ["review", "resolve"],
            };
            all.iter().filter(|word| word.starts_with(prefix)).map(ToString::to_string).collect()
        });
        let (at, pairs) = candidates(line, &look_up);
        (at, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    fn is(line: &str, at: usize, words: &[&str]) {
        assert_eq!(completed(line), (at, words.iter().map(ToString::to_string).collect()), "{line}");
    }

    #[test]
    fn commands_and_what_they_take_are_completed() {
        is("/re", 0, &["/resume ", "/rename ", "/rewind ", "/review ", "/resolve "]);
        is("/c", 0, &["/context", "/cost", "/clear", "/compact", "/cancel"]);
        is("look at @n", 8, &["@notes.txt "]);
        is("@s", 0, &["@src/"]);
        is("ada@n", 5, &[]);
        is("/resume ", 8, &["abc-1", "abd-2"]);
        is("/resume abd", 8, &["abd-2"]);
        is("/model op", 7, &["openai:gpt"]);
        is("/mode a", 6, &["ask", "auto"]);
        is("/mcp re", 5, &["restart ", "reload"]);
        is("/mcp restart fi", 13, &["files"]);
        is("/mcp reload fi", 14, &[]);
        is("/quit ", 6, &[]);
        is("hello /re", 9, &[]);
    }

    #[test]
    fn a_hint_shows_the_rest_and_what_comes_after_it() {
        let shown = |line| hint(line).map(|rest| (rest.shown.clone(), rest.completion().map(str::to_owned)));
        assert_eq!(shown("/res"), Some(("ume [ID]".to_owned(), Some("ume".to_owned()))));
        assert_eq!(shown("/resume "), Some(("[ID]".to_owned(), None)));
        assert_eq!(shown("/qu"), Some(("it".to_owned(), Some("it".to_owned()))));
        assert_eq!((shown("/c"), shown("/"), shown("hello")), (None, None, None));
    }
}
