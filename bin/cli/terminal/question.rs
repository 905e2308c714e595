//! Approval of a call by a person at the keyboard: rendering of the question, and parsing of the decision.
//!
//! The question is rendered from typed data, each line behind a bar that no text of a model or a tool can draw. All
//! arguments are shown as they would run, those of an edit as a difference, a command as it is typed; invisible characters are shown by their number and never omitted. Invalid
//! input repeats the question; an empty line denies.

mod edits;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use bob::approvals::{ApprovalQuestion, Decision};
use bob::tools::Risk;
use serde_json::Value;

use crate::terminal::approval::visible;
use crate::terminal::print;
use crate::terminal::screen::look::Look;
use crate::terminal::show::took;

pub(crate) use edits::{difference_in, hide, keep_originals};

/// The tool whose argument is a command of the shell.
const SHELL: &str = "local/shell_exec";

/// Its title where no sandbox holds it.
const SHELL_TITLE: &str = "shell exec";

/// Longer arguments are shown in part until the person asks for all of them, lines.
const MOST_LINES: usize = 60;

/// The pause before a question takes the keyboard: the end of a line that was begun earlier, such as an `s` and Enter, must
/// not answer it.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

/// The reason of a denial for which the person gave none; the model reads it.
const BY_USER: &str = "denied by the user";

/// How many characters of texts from the tool or the policy are shown.
const MOST_WORDS: usize = 300;

/// How much of a decision is repeated, characters.
const MOST_TOLD: usize = 100;

pub(crate) fn shown_in(folder: &Path, question: &ApprovalQuestion, look: Look, is_whole: bool) -> String {
    rendered(question, edits::lines_in(folder, &question.call), look, is_whole)
}

/// Renders the question without a look at files.
#[cfg(test)]
fn shown(question: &ApprovalQuestion, look: Look, is_whole: bool) -> String {
    rendered(question, edits::lines(&question.call), look, is_whole)
}

fn rendered(question: &ApprovalQuestion, edit: Option<Vec<String>>, look: Look, is_whole: bool) -> String {
    let mut text = String::new();
    let risk = match question.risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    };
    let name = visible(question.call.name.as_str());
    // Descriptions are cut; the call itself is shown whole.
    let title = visible(&print::on_one_line(&question.title, MOST_WORDS));
    let reason = visible(&print::on_one_line(&question.reason, MOST_WORDS));
    let command = command(question);
    // What a command is held to; the title of a tool that names none is made of its own name.
    let (confined, title) = match (&command, title) {
        (Some(_), title) => (Some(title).filter(|title| !title.is_empty() && title != SHELL_TITLE), String::new()),
        (None, title) if title.is_empty() || title == name => (None, String::new()),
        (None, title) => (None, format!("{title}; ")),
    };
    match command {
        Some(_) => row(&mut text, "┌ ", &format!("allow this command? ({risk} risk)"), look),
        None => row(&mut text, "┌ ", &format!("allow this call? {name} ({title}{risk} risk)"), look),
    }
    confined.iter().for_each(|confined| row(&mut text, "│ ", confined, look));
    if !reason.is_empty() && reason != format!("the tool is of {risk} risk") {
        row(&mut text, "│ ", &reason, look);
    }
    if !question.agents.is_empty() {
        let agents = visible(&print::on_one_line(&question.agents.join(" > "), MOST_WORDS));
        row(&mut text, "│ ", &format!("asked by the agent {agents}"), look);
    }
    let is_edit = edit.is_some();
    let json = || serde_json::to_string_pretty(&question.call.arguments).unwrap_or_default();
    let arguments = edit.or(command).unwrap_or_else(|| json().lines().map(str::to_owned).collect());
    let mut lines: Vec<String> = Vec::new();
    for line in &arguments {
        let style = match line.chars().next().filter(|_| is_edit) {
            Some('+') => look.coloured(AnsiColor::Green),
            Some('-') => look.coloured(AnsiColor::Red),
            _ => Style::new(),
        };
        lines.extend(wrapped(&seen(line), look).into_iter().map(|line| format!("{style}{line}{style:#}")));
    }
    let most = if is_whole { usize::MAX } else { MOST_LINES };
    for line in lines.iter().take(most) {
        let _writing_to_a_string_cannot_fail = writeln!(text, "│ {line}");
    }
    if lines.len() > most {
        row(&mut text, "│ ", &format!("… and {} more lines; v shows all of them", lines.len() - most), look);
    }
    if let Some(changes) = &question.changes {
        row(&mut text, "│ ", "the tool has changed since you decided about it:", look);
        changes.lines().for_each(|line| row(&mut text, "│ ", &seen(line), look));
    }
    let until = match question.timeout_ms {
        0 => "waiting for your decision".to_owned(),
        ms => format!("denied automatically in {}", took(ms)),
    };
    row(&mut text, "└ ", &until, look);
    text = unframed(text);
    text.push_str(&choices(question, look));
    text
}

/// The text without its frame where it is read out, which is sign by sign.
pub(crate) fn unframed(text: String) -> String {
    if !print::speaks() {
        return text;
    }
    text.lines().map(|line| bare(line).to_owned() + "\n").collect()
}

/// A line without its frame. Further blanks are part of what it shows.
fn bare(line: &str) -> &str {
    let within = line.strip_prefix(['┌', '│', '└']);
    within.map_or(line, |within| within.strip_prefix(' ').unwrap_or(within))
}

/// The lines of a command of the shell behind signs that its further arguments do not have; `None` for any other call.
fn command(question: &ApprovalQuestion) -> Option<Vec<String>> {
    let fields = question.call.arguments.as_object().filter(|_| question.call.name.as_str() == SHELL)?;
    // No other character ends a line: one that hides another is shown by its number.
    let mut lines = fields.get("command")?.as_str()?.split('\n');
    let first = format!("$ {}", lines.next().unwrap_or_default());
    let further = fields.iter().filter(|(name, _)| *name != "command").map(|(name, value)| format!("{name}: {value}"));
    Some(std::iter::once(first).chain(lines.map(|line| format!("> {line}"))).chain(further).collect())
}

fn choices(question: &ApprovalQuestion, look: Look) -> String {
    let what = match (&question.like[..], question.exact) {
        ([], true) => "this exact call".to_owned(),
        ([], false) => "this tool".to_owned(),
        (rules, _) => {
            let patterns: Vec<String> = rules.iter().map(|rule| format!("`{}`", pattern(rule))).collect();
            visible(&print::on_one_line(&patterns.join(" and "), MOST_WORDS))
        }
    };
    // Rules narrow a yes only.
    let denied = if question.exact { "this exact call" } else { "this tool" };
    let choices = [
        ("allow_once", "y: yes, once".to_owned()),
        ("allow_session", format!("s: {what}, this session")),
        ("allow_always", format!("a: {what}, always")),
        ("edit", "e: edit".to_owned()),
        ("deny", "n [REASON]: no".to_owned()),
        ("deny_always", format!("never: always deny {denied}")),
    ];
    let offered = choices.into_iter().filter(|(name, _)| question.choices.iter().any(|choice| choice == name));
    let mut lines = vec![String::new()];
    for (_, choice) in offered {
        let last = lines
            .last_mut()
            .filter(|last| last.is_empty() || last.chars().count() + choice.chars().count() + 3 <= look.columns);
        match last {
            Some(last) if last.is_empty() => last.push_str(&choice),
            Some(last) => last.extend([" · ", choice.as_str()]),
            None => lines.push(choice),
        }
    }
    lines.iter().flat_map(|line| wrapped(line, look)).map(|line| line + "\n").collect()
}

/// What is in the parentheses of a rule: the tool is named above.
fn pattern(rule: &str) -> &str {
    rule.split_once('(').map_or(rule, |(_tool, about)| about.strip_suffix(')').unwrap_or(about))
}

pub(crate) fn unclear(question: &ApprovalQuestion) -> String {
    let words = [
        ("allow_once", "y"),
        ("allow_session", "s"),
        ("allow_always", "a"),
        ("edit", "e"),
        ("deny", "n"),
        ("deny_always", "never"),
    ];
    let offered = words.into_iter().filter(|(name, _)| question.choices.iter().any(|choice| choice == name));
    let mut offered: Vec<_> = offered.map(|(_, word)| word).collect();
    let last = offered.pop().unwrap_or("n");
    let or = if offered.is_empty() { "" } else { " or " };
    format!("[enter {}{or}{last}; Enter alone means no]", offered.join(", "))
}

/// The prompt behind which the person answers.
pub(crate) fn prompt(question: &ApprovalQuestion) -> String {
    let letters = [("allow_once", "y"), ("allow_session", "s"), ("allow_always", "a"), ("edit", "e"), ("deny", "N")];
    let offered = letters.into_iter().filter(|(name, _)| question.choices.iter().any(|choice| choice == name));
    let offered: Vec<_> = offered.map(|(_, letter)| letter).collect();
    format!("allow? [{}] ", offered.join("/"))
}

#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Decided(Decision),
    /// The arguments are to be edited.
    Edit,
    /// All of the question is to be shown.
    Whole,
    /// Nothing that was offered.
    Unclear,
}

pub(crate) fn understood(line: &str, question: &ApprovalQuestion) -> Said {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let is_offered = |name: &str| question.choices.iter().any(|choice| choice == name);
    let why = || match rest.trim() {
        "" => BY_USER.to_owned(),
        reason => reason.to_owned(),
    };
    let (name, said) = match word.to_lowercase().as_str() {
        "" => return Said::Decided(Decision::Deny { reason: why() }),
        "n" | "no" | "deny" => ("deny", Said::Decided(Decision::Deny { reason: why() })),
        "never" => ("deny_always", Said::Decided(Decision::DenyAlways { reason: why() })),
        // Text after a yes is ambiguous.
        _ if !rest.trim().is_empty() => return Said::Unclear,
        "y" | "yes" | "once" => ("allow_once", Said::Decided(Decision::AllowOnce)),
        "s" | "session" => ("allow_session", Said::Decided(Decision::AllowSession)),
        "a" | "always" => ("allow_always", Said::Decided(Decision::AllowAlways)),
        "e" | "edit" => ("edit", Said::Edit),
        "v" => return Said::Whole,
        _anything_else => return Said::Unclear,
    };
    if is_offered(name) { said } else { Said::Unclear }
}

pub(crate) fn told(decision: &Decision) -> String {
    match decision {
        Decision::AllowOnce => "[allowed once]".to_owned(),
        Decision::AllowSession => "[allowed in this session]".to_owned(),
        Decision::AllowAlways => "[allowed always]".to_owned(),
        Decision::Edit { arguments } => {
            format!("[allowed with {}]", print::on_one_line(&visible(&arguments.to_string()), MOST_TOLD))
        }
        Decision::Deny { reason } if reason == BY_USER => "[denied]".to_owned(),
        Decision::DenyAlways { reason } if reason == BY_USER => "[always denied]".to_owned(),
        Decision::Deny { reason } => format!("[denied: {}]", print::on_one_line(reason, MOST_TOLD)),
        Decision::DenyAlways { reason } => {
            format!("[always denied: {}]", print::on_one_line(reason, MOST_TOLD))
        }
    }
}

pub(crate) fn edited(line: &str) -> Result<Decision, String> {
    let arguments: Value = serde_json::from_str(line).map_err(|error| format!("invalid JSON: {error}"))?;
    match arguments.is_object() {
        true => Ok(Decision::Edit { arguments }),
        false => Err("not a JSON object".to_owned()),
    }
}

/// The arguments as they are edited: one line, without anything the line editor could not show.
pub(crate) fn to_edit(question: &ApprovalQuestion) -> String {
    print::json_text(&question.call.arguments)
}

/// A line of which nothing is hidden; the blanks it begins with are its place.
fn seen(line: &str) -> String {
    let words = line.trim_start_matches(' ');
    format!("{}{}", &line[..line.len() - words.len()], visible(words))
}

pub(crate) fn row(text: &mut String, bar: &str, line: &str, look: Look) {
    let mut bar = bar;
    for line in wrapped(line, look) {
        let _writing_to_a_string_cannot_fail = writeln!(text, "{bar}{line}");
        bar = if matches!(bar, "└ " | "  ") { "  " } else { "│ " };
    }
}

fn wrapped(line: &str, look: Look) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = " ".repeat(indent.min(look.columns / 2));
    let options = textwrap::Options::new(look.columns - 2).break_words(true).subsequent_indent(&rest);
    textwrap::wrap(line, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
