//! Displays the privileges of a configuration, and the error where no question can be asked.

use bob_config::sanitise::one_line;
use bob_config::{Privilege, PrivilegeKind};

use super::Question;
use crate::runtime::command_files::{self, CommandFiles};
use crate::terminal::print;

/// How many things of a kind are named where there is one line for all.
const MOST_NAMED: usize = 3;

/// How many characters of a name are in such a line.
const MOST_OF_NAME: usize = 200;

/// With more lines than this the kinds are named again at the end.
const MOST_LINES: usize = 16;

/// How many characters of a command's first line are shown.
const MOST_DESCRIPTION: usize = 100;

/// How the names of those variables begin.
const VARIABLES: &str = "BOB__";

/// Shows new privileges in full, then removed and unchanged ones in one line.
pub(super) fn show(question: &Question<'_>) {
    let file = one_line(&question.config.file.display().to_string());
    let mut lines = 0;
    let is_known =
        |privilege: &&Privilege| question.before.as_ref().is_some_and(|known| known.contains(&privilege.text()));
    let (known, new): (Vec<_>, Vec<_>) = question.privileges.iter().partition(is_known);
    let has_changed = question.before.is_some() && !question.is_trusted;
    if has_changed {
        print::note(&format!("{file} {}", differs(&variables())));
    }
    // Without changes everything is shown.
    let shown = if has_changed { new } else { question.privileges.iter().collect() };
    for kind in PrivilegeKind::ALL {
        let of_kind: Vec<&&Privilege> = shown.iter().filter(|privilege| privilege.kind == kind).collect();
        if !of_kind.is_empty() {
            let also = if has_changed { "now " } else { "" };
            let has_variables = of_kind.iter().any(|privilege| privilege.has_variables());
            print::note(&format!("{file} would {also}{}:", heading(kind, has_variables)));
        }
        for privilege in of_kind {
            print::note(&format!("  {}", privilege.what));
            privilege.details.iter().for_each(|line| print::note(&format!("    {line}")));
            lines += 1 + privilege.details.len();
            let changed = privilege.changed_values(question.known());
            if !changed.is_empty() {
                print::note(&format!("    changed:     the value of {}", changed.join(", ")));
            }
        }
    }
    if has_changed {
        let texts = question.texts();
        let gone = question.before.iter().flatten().filter(|privilege| !texts.contains(privilege));
        let gone = gone.filter_map(|text| text.lines().next()).filter_map(|line| line.split_once(": "));
        // What is shown above as it is now is not gone.
        let is_gone = |(_, what): &(&str, &str)| question.privileges.iter().all(|privilege| privilege.what != *what);
        for (_, what) in gone.filter(is_gone) {
            print::note(&format!("it would no longer have: {what}"));
        }
        if !known.is_empty() {
            print::note(&format!("as it was trusted: {}", named(known.iter().map(|privilege| privilege.what.clone()))));
        }
        if shown.is_empty() {
            print::note("what it starts, sends to and loosens is as it was trusted; other parts of the file differ");
        }
    }
    if !question.commands.is_empty() {
        print::note("there are commands of a chat here, whose text is sent as your message when you type them:");
    }
    let files = CommandFiles::of(question.config);
    for (name, text) in &question.commands {
        let first: String = command_files::description(text).chars().take(MOST_DESCRIPTION).collect();
        let place = one_line(&files.file(name).display().to_string());
        print::note(&format!("  /{name}, {} bytes in {place}: {}", text.len(), one_line(&first)));
    }
    if let Some(store) = question.brings() {
        print::note("there are sessions here that none of your programs created. Approvals in them would");
        print::note("apply, and their open steps would be run:");
        print::note(&format!("  {}", one_line(&store.brings())));
    }
    // What came first may have left the screen.
    let parts = parts(question);
    if lines + question.commands.len() > MOST_LINES && !parts.is_empty() {
        print::note(&format!("in all, {file} would {}", joined(&parts)));
    }
}

/// What it is, and which of its values differ from those that are known.
pub(super) fn with_changed(privilege: &Privilege, known: &[String]) -> String {
    let changed = privilege.changed_values(known);
    match changed.is_empty() {
        true => privilege.what.clone(),
        false => format!("{} (another value of {})", privilege.what, changed.join(", ")),
    }
}

fn heading(kind: PrivilegeKind, has_variables: bool) -> &'static str {
    match kind {
        PrivilegeKind::Starts => "start",
        PrivilegeKind::Sends if !has_variables => "send conversations and files to",
        PrivilegeKind::Sends => "send conversations, files and the values of these environment variables to",
        PrivilegeKind::Fills => "use the values of these environment variables, or send them to the model",
        PrivilegeKind::Loosens => "relax the policy of tools and models",
        PrivilegeKind::Keeps => "keep sessions outside its folder",
    }
}

/// Why a found configuration is not used, and how it may be.
pub(super) fn refusal(question: &Question<'_>) -> String {
    let file = one_line(&question.config.file.display().to_string());
    let parts = parts(question);
    let would = match (question.before.is_some() && !question.is_trusted, parts.as_slice()) {
        (true, []) => differs(&variables()),
        (true, parts) => format!("{} and would now {}", differs(&variables()), joined(parts)),
        (false, parts) => format!("was found here and would {}", joined(parts)),
    };
    format!("the configuration {file} {would}; look at it with `cli-agent trust`, or name it: --config {file}")
}

/// What is new, a part for each kind.
fn parts(question: &Question<'_>) -> Vec<String> {
    let is_new =
        |privilege: &&Privilege| question.before.as_ref().is_none_or(|known| !known.contains(&privilege.text()));
    let of = |kind| {
        question
            .privileges
            .iter()
            .filter(is_new)
            .filter(move |privilege| privilege.kind == kind)
            .map(|privilege| with_changed(privilege, question.known()))
    };
    let mut parts: Vec<String> = Vec::new();
    if !question.is_trusted {
        for kind in PrivilegeKind::ALL.into_iter().filter(|kind| of(*kind).next().is_some()) {
            let of_kind = named(of(kind));
            parts.push(match kind {
                PrivilegeKind::Starts => format!("start {of_kind}"),
                PrivilegeKind::Sends => format!("send to {of_kind}"),
                PrivilegeKind::Fills => format!("put variables of the environment into {of_kind}"),
                PrivilegeKind::Loosens => format!("relax the policy ({of_kind})"),
                PrivilegeKind::Keeps => format!("keep sessions in {of_kind}"),
            });
        }
    }
    if question.brings().is_some() {
        parts.push("use sessions that came with it".to_owned());
    }
    parts
}

/// That a configuration is not as it was trusted: the variables of the environment are a part of it.
fn differs(variables: &[String]) -> String {
    match variables {
        [] => "has changed since it was trusted".to_owned(),
        set => format!("is not as it was trusted, with {} set", joined(set)),
    }
}

fn variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(VARIABLES)).collect();
    names.sort_unstable();
    names
}

fn joined(parts: &[String]) -> String {
    match parts {
        [all @ .., last] if !all.is_empty() => format!("{}, and {last}", all.join(", ")),
        parts => parts.join(", "),
    }
}

/// The first of them, and how many more there are.
fn named(all: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = all.map(|name| print::on_one_line(&name, MOST_OF_NAME)).collect();
    match names.len().saturating_sub(MOST_NAMED) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names[..MOST_NAMED].join(", ")),
    }
}
