//! Rules over single calls: patterns over a tool and its arguments.
//!
//! Pure. A rule is the pattern of a tool's name, with or without a pattern over what its call is about in parentheses:
//!
//! - of a tool that executes, the `command`: words, in which `*` and `?` stand for characters, and a `*` at the end for any
//!   further words, also none: `local/shell_exec(git status *)`;
//! - of every other tool, its `path`, else its `url`: a glob in which `*` stays inside one part and `**` crosses parts. A
//!   pattern that does not begin with `/` is of a path below the working folder: `local/edit_file(src/**)`.
//!
//! A rule that allows must know what is called: it covers a shell line only when it covers each command of it, and no
//! path with `..`. A rule that asks or denies applies when it may be about a call: to each part of a line that the shell
//! may turn into what the rule names, and to arguments that it cannot read. A path is judged as it is written here, and by
//! the gate's actor once more where it leads (see [`leading`](super::leading)).

use super::commands::{base_name, is_assignment, may_begin};
use super::patterns::{BadPattern, glob};
use super::shell_line::{Word, commands};
use super::starting::{is_shifty, may_start};
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolKind};
use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, Default)]
pub(crate) struct CallRules {
    allow: Vec<CallRule>,
    ask: Vec<CallRule>,
    deny: Vec<CallRule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRuling<'a> {
    /// Nothing.
    Nothing,
    Allowed,
    /// A person must be asked, by this rule.
    Asks(&'a str),
    /// A person must be asked, since it names this command.
    AsksCommand(&'a str),
    Denied(&'a str),
}

impl CallRules {
    pub(super) fn new(allow: &[String], ask: &[String], deny: &[String]) -> Result<Self, (&'static str, BadPattern)> {
        let read = |key, list: &[String]| -> Result<Vec<CallRule>, (&'static str, BadPattern)> {
            list.iter().map(|rule| CallRule::new(rule).map_err(|bad| (key, bad))).collect()
        };
        Ok(Self { allow: read("allow", allow)?, ask: read("ask", ask)?, deny: read("deny", deny)? })
    }

    /// Judges a call: deny beats ask, and ask beats allow.
    pub(super) fn judge(&self, tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> CallRuling<'_> {
        let may = |rule: &&CallRule| rule.is_of(tool) && rule.may_be_about(tool, call, context);
        if let Some(rule) = self.deny.iter().find(may) {
            return CallRuling::Denied(&rule.text);
        }
        if let Some(rule) = self.ask.iter().find(may) {
            return CallRuling::Asks(&rule.text);
        }
        let allowing: Vec<&CallRule> = self.allow.iter().filter(|rule| rule.is_of(tool)).collect();
        match covers(&allowing, tool, call, context) {
            true => CallRuling::Allowed,
            false => CallRuling::Nothing,
        }
    }

    pub(super) fn have_arguments_of(&self, tool: &ToolDescriptor) -> bool {
        let mut all = self.deny.iter().chain(&self.ask).chain(&self.allow);
        all.any(|rule| rule.about.is_some() && rule.is_of(tool))
    }

    pub(super) fn denied_tools(deny: &[String]) -> impl Iterator<Item = &String> {
        deny.iter().filter(|rule| !rule.contains('('))
    }
}

/// Whether the rules allow a call together: each command of a line may be covered by another one.
fn covers(rules: &[&CallRule], tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
    if rules.iter().any(|rule| rule.about.is_none()) {
        return true;
    }
    let abouts: Vec<&About> = rules.iter().filter_map(|rule| rule.about.as_ref()).collect();
    if abouts.is_empty() {
        return false;
    }
    match subject(tool, call) {
        Subject::Line(line) => match commands(line) {
            Ok(commands) => {
                !commands.is_empty() && commands.iter().all(|words| abouts.iter().any(|about| about.line.covers(words)))
            }
            Err(_not_understood) => false,
        },
        Subject::Path(path) => abouts.iter().any(|about| about.path.covers_path(path, context)),
        Subject::Address(url) => abouts.iter().any(|about| about.path.glob.is_match(url)),
        Subject::Unknown => false,
    }
}

/// Whether stored rules, which may be invalid, allow a call together.
pub(super) fn allows(rules: &[String], tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
    let rules: Vec<CallRule> = rules.iter().filter_map(|rule| CallRule::new(rule).ok()).collect();
    let rules: Vec<&CallRule> = rules.iter().filter(|rule| rule.is_of(tool)).collect();
    covers(&rules, tool, call, context)
}

pub(super) fn is_command_allowed(pattern: &str, command: &[Word]) -> bool {
    LinePattern::new(pattern).covers(command)
}

pub(super) enum Subject<'a> {
    Line(&'a str),
    Path(&'a str),
    Address(&'a str),
    /// Nothing that a rule can name.
    Unknown,
}

pub(super) fn subject<'a>(tool: &ToolDescriptor, call: &'a ToolCall) -> Subject<'a> {
    let text = |key: &str| call.arguments.get(key).and_then(Value::as_str);
    match tool.kind {
        ToolKind::Execute => text("command").map_or(Subject::Unknown, Subject::Line),
        ToolKind::Read
        | ToolKind::Edit
        | ToolKind::Delete
        | ToolKind::Move
        | ToolKind::Search
        | ToolKind::Think
        | ToolKind::Fetch
        | ToolKind::Other => match (text("path"), text("url")) {
            (Some(path), _) => Subject::Path(path),
            (None, Some(url)) => Subject::Address(url),
            (None, None) => Subject::Unknown,
        },
    }
}

#[derive(Debug)]
pub(crate) struct CallRule {
    text: String,
    tool: GlobMatcher,
    about: Option<About>,
}

/// The pattern in the parentheses, read in both ways: what kind of tool it is about is known with the call.
#[derive(Debug)]
struct About {
    line: LinePattern,
    path: PathPattern,
}

impl CallRule {
    pub(super) fn new(text: &str) -> Result<Self, BadPattern> {
        let bad = |reason: &str| BadPattern { pattern: text.to_owned(), reason: reason.to_owned() };
        let (tool, about) = match text.split_once('(') {
            None => (text, None),
            Some((tool, about)) => {
                let about = about.strip_suffix(')').ok_or_else(|| bad("the parenthesis is not closed at its end"))?;
                if about.trim().is_empty() {
                    return Err(bad("nothing is in the parentheses"));
                }
                (tool, Some(About { line: LinePattern::new(about), path: PathPattern::new(about)? }))
            }
        };
        Ok(Self { text: text.to_owned(), tool: glob(tool)?.compile_matcher(), about })
    }

    pub(super) fn is_of(&self, tool: &ToolDescriptor) -> bool {
        self.tool.is_match(tool.id.as_str())
    }

    pub(super) fn may_be_about(&self, tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
        self.about.as_ref().is_none_or(|about| about.may(tool, call, context))
    }
}

impl About {
    /// Whether a call may be what this names.
    fn may(&self, tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
        match subject(tool, call) {
            Subject::Line(line) => self.line.may_be_in(line),
            Subject::Path(path) => self.path.may_be(path, context),
            Subject::Address(url) => self.path.glob.is_match(url),
            Subject::Unknown => true,
        }
    }
}

#[derive(Debug)]
struct LinePattern {
    words: Vec<String>,
    /// Whether any further words may follow.
    goes_on: bool,
}

impl LinePattern {
    fn new(text: &str) -> Self {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let goes_on = words.pop_if(|last| last == "*").is_some();
        Self { words, goes_on }
    }

    /// Whether this allows a command. A program that runs what its other words say is covered only word by word, and so is
    /// one that is not named behind its assignments.
    fn covers(&self, command: &[Word]) -> bool {
        let fits = |(pattern, word): (&String, &Word)| match word {
            Word::Literal(word) => is_like(pattern, word),
            Word::Expanded(_) => false,
        };
        let is_long_enough =
            if self.goes_on { command.len() >= self.words.len() } else { command.len() == self.words.len() };
        if !is_long_enough || !self.words.iter().zip(command).all(fits) {
            return false;
        }
        let is_exact = !self.goes_on && !self.words.iter().any(|word| word.contains(['*', '?']));
        let mut programs = command.iter().enumerate().skip_while(|(_, word)| match word {
            Word::Literal(word) | Word::Expanded(word) => is_assignment(word),
        });
        // With no words of its own, the pattern is any command that sets nothing.
        let is_named = |at: usize| at == 0 || at < self.words.len();
        // How many words behind the program the rule has as they are.
        let is_literal = |word: &&String| !word.contains(['*', '?']);
        let literal = self.words.iter().take_while(is_literal).count();
        is_exact
            || match programs.next() {
                Some((at, Word::Literal(program))) => {
                    let seen = literal.saturating_sub(at + 1);
                    is_named(at) && !is_shifty(base_name(program)) && !may_start(program, &command[at + 1..], seen)
                }
                Some((_, Word::Expanded(_))) | None => false,
            }
    }

    /// Whether this may be a command that the line runs.
    fn may_be_in(&self, line: &str) -> bool {
        let tests: Vec<_> =
            self.words.iter().map(|pattern| move |word: &str| is_like_whatever_case(pattern, word)).collect();
        may_begin(line, &tests, self.goes_on)
    }
}

/// Whether the word is like the pattern, in which `*` stands for any characters and `?` for one.
fn is_like(pattern: &str, word: &str) -> bool {
    let (pattern, word): (Vec<char>, Vec<char>) = (pattern.chars().collect(), word.chars().collect());
    let (mut at, mut of, mut again) = (0, 0, None);
    while at < word.len() {
        match pattern.get(of) {
            Some('*') => {
                again = Some((at, of));
                of += 1;
            }
            Some(c) if *c == '?' || *c == word[at] => (at, of) = (at + 1, of + 1),
            _ => {
                // The last `*` takes one more.
                let Some((from, star)) = again else { return false };
                again = Some((from + 1, star));
                (at, of) = (from + 1, star + 1);
            }
        }
    }
    pattern[of..].iter().all(|c| *c == '*')
}

pub(super) fn is_like_whatever_case(pattern: &str, word: &str) -> bool {
    is_like(&pattern.to_lowercase(), &word.to_lowercase())
}

#[derive(Debug)]
struct PathPattern {
    glob: GlobMatcher,
    /// As `glob`, ignoring case.
    caseless: GlobMatcher,
    is_absolute: bool,
}

impl PathPattern {
    fn new(text: &str) -> Result<Self, BadPattern> {
        let caseless = GlobBuilder::new(text).literal_separator(true).case_insensitive(true).build();
        let caseless = caseless.map_err(|error| BadPattern::new(text, &error))?;
        Ok(Self {
            glob: glob(text)?.compile_matcher(),
            caseless: caseless.compile_matcher(),
            is_absolute: text.starts_with('/'),
        })
    }

    fn covers_path(&self, path: &str, context: &CallContext) -> bool {
        if Path::new(path).components().any(|part| part == Component::ParentDir) {
            return false;
        }
        let folder = context.roots.first().map_or("", |root| root);
        let path = clean(&Path::new(folder).join(path));
        match self.is_absolute {
            true => self.glob.is_match(path),
            false => path.strip_prefix(folder).is_ok_and(|path| self.glob.is_match(path)),
        }
    }

    /// Below any folder of the session, and as it is written.
    fn may_be(&self, path: &str, context: &CallContext) -> bool {
        let folder = context.roots.first().map_or("", |root| root);
        let whole = clean(&Path::new(folder).join(path));
        let below = context.roots.iter().filter_map(|root| whole.strip_prefix(root.as_str()).ok());
        self.caseless.is_match(&whole)
            || self.caseless.is_match(clean(Path::new(path)))
            || below.into_iter().any(|path| self.caseless.is_match(path))
    }
}

/// A path without `.` and `..`, as it is written: links are not followed.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
#[path = "call_rules_tests.rs"]
mod tests;
