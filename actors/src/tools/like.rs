//! Calls like one that a person said yes to: the narrowest patterns that are still of use.
//!
//! Pure. A yes beyond its call is kept as rules of the grammar of `allow` (see [`call_rules`](super::call_rules)), and
//! judged as they are:
//!
//! - a shell line: each of its commands, by the subcommand if the program is known to have them (`git status *`), with any
//!   words if the program only tells about files (`ls *`), else as it is. A line of which nothing is a pattern that way is
//!   kept as it is, with all its arguments;
//! - a file: the folder it is in (`src/**`), or itself if that is the working folder;
//! - an address: its host.

use super::call_rules::{Subject, allows, is_command_allowed, subject};
use super::commands::base_name;
use super::shell_line::{Word, commands};
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolKind};
use std::path::{Component, Path};

/// Programs whose first word says what they do.
const WITH_SUBCOMMANDS: [&str; 24] = [
    "apt",
    "brew",
    "bundle",
    "cargo",
    "dotnet",
    "gem",
    "git",
    "go",
    "gradle",
    "just",
    "make",
    "mix",
    "mvn",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "swift",
    "systemctl",
    "uv",
    "yarn",
    "zig",
];
/// Subcommands that do what the word behind them says.
const THAT_RUN: [&str; 4] = ["exec", "run-script", "run", "x"];
/// Programs that tell about files, and write none.
const THAT_TELL: [&str; 9] = ["df", "du", "file", "ls", "pwd", "stat", "wc", "which", "whoami"];
/// Maximum of patterns for one line; a longer one is kept as it is.
const MOST_PATTERNS: usize = 8;

/// The rules that a lasting yes to this call would be kept as; empty if it is about its arguments or the tool.
pub(super) fn like(tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> Vec<String> {
    let abouts = match subject(tool, call) {
        Subject::Line(line) => of_line(line),
        Subject::Path(path) => of_path(tool.kind, path, context),
        Subject::Address(url) => of_address(url),
        Subject::Unknown => None,
    };
    let rules: Vec<String> =
        abouts.unwrap_or_default().iter().map(|about| format!("{}({about})", call.name.as_str())).collect();
    // What does not allow this very call is no pattern of it.
    if is_like(&rules, tool, call, context) { rules } else { Vec::new() }
}

/// Whether a lasting decision about this call without rules is about exactly its arguments, instead of about the tool.
///
/// What the model chooses must not widen a yes: a call that changes files, or that names a path or an address of which no
/// pattern is taken, is kept as it is.
pub(super) fn is_exact(tool: &ToolDescriptor, call: &ToolCall) -> bool {
    match (tool.kind, subject(tool, call)) {
        (ToolKind::Execute | ToolKind::Edit | ToolKind::Delete | ToolKind::Move, _)
        | (_, Subject::Line(_) | Subject::Path(_) | Subject::Address(_)) => true,
        (ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch | ToolKind::Other, Subject::Unknown) => {
            false
        }
    }
}

pub(super) fn is_like(rules: &[String], tool: &ToolDescriptor, call: &ToolCall, context: &CallContext) -> bool {
    !rules.is_empty() && allows(rules, tool, call, context)
}

fn of_line(line: &str) -> Option<Vec<String>> {
    let mut patterns: Vec<String> = Vec::new();
    for command in commands(line).ok()? {
        let words: Option<Vec<&str>> = command.iter().map(plain).collect();
        let by_name = named(&command).filter(|pattern| is_command_allowed(pattern, &command));
        let pattern = by_name.or_else(|| words.map(|words| words.join(" ")))?;
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let is_worth_it = patterns.iter().any(|pattern| pattern.ends_with(" *")) && patterns.len() <= MOST_PATTERNS;
    is_worth_it.then_some(patterns)
}

/// A word that stands for itself in a pattern.
fn plain(word: &Word) -> Option<&str> {
    match word {
        Word::Literal(word)
            if !word.is_empty() && !word.contains(|c: char| "*?()".contains(c) || c.is_whitespace()) =>
        {
            Some(word)
        }
        Word::Literal(_) | Word::Expanded(_) => None,
    }
}

/// The pattern of a command by what its first words are known to do.
fn named(command: &[Word]) -> Option<String> {
    let program = plain(command.first()?)?;
    if THAT_TELL.contains(&program) {
        return Some(format!("{program} *"));
    }
    if base_name(program) != program || !WITH_SUBCOMMANDS.contains(&program) {
        return None;
    }
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c))
    };
    let mut words = command[1..].iter().map(|word| plain(word).filter(is_name));
    let subcommand = words.next()??;
    if program != "cargo" && THAT_RUN.contains(&subcommand) {
        let what = words.next()??;
        return Some(format!("{program} {subcommand} {what} *"));
    }
    Some(format!("{program} {subcommand} *"))
}

fn of_path(kind: ToolKind, path: &str, context: &CallContext) -> Option<Vec<String>> {
    // A yes to one removal is none to the next.
    if matches!(kind, ToolKind::Delete | ToolKind::Move) {
        return None;
    }
    let folder = Path::new(context.roots.first().map(|root| &**root)?);
    let below = Path::new(path);
    let below = if below.is_absolute() { below.strip_prefix(folder).ok()? } else { below };
    let parts: Option<Vec<&str>> = below
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            Component::CurDir | Component::ParentDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect();
    let (file, folders) = parts?.split_last().map(|(file, folders)| ((*file).to_owned(), folders.join("/")))?;
    let escaped = |text: &str| globset::escape(text);
    Some(vec![if folders.is_empty() { escaped(&file) } else { format!("{}/**", escaped(&folders)) }])
}

fn of_address(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.split_once("://")?;
    let (host, _path) = rest.split_once('/')?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let is_known = matches!(scheme, "http" | "https") && !host.is_empty() && host.chars().all(is_host);
    is_known.then(|| vec![format!("{scheme}://{}/**", globset::escape(host))])
}

#[cfg(test)]
#[path = "like_tests.rs"]
mod tests;
