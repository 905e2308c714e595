//! What the parser and the conversion complain about, in words a person can act on.

use std::ops::Range;

use toml_spanner::{Context, Error, ErrorKind, Table};

use super::keys::KEYS;
use super::problem::Findings;
use super::tree;

/// Takes the errors recorded so far and adds them to the complaints.
///
/// After a broken line, keys can stand in the wrong table or be lost; unknown keys of the top level and missing ones are
/// then its consequence.
pub(super) fn take_errors(
    context: &mut Context<'_>,
    root: &Table<'_>,
    source: &dyn Fn(Range<usize>) -> String,
    is_broken: bool,
    findings: &mut Findings,
) {
    for error in std::mem::take(&mut context.errors) {
        let span = error.span().range();
        if findings.is_full() {
            findings.count += 1;
            continue;
        }
        let path = tree::path_at(root, &span).unwrap_or_default();
        match error.kind() {
            ErrorKind::UnexpectedKey { .. } if is_broken && path.len() <= 1 => {}
            ErrorKind::MissingField(_) if is_broken => {}
            ErrorKind::UnexpectedKey { .. } => {
                let (message, help) = unknown_key(&path);
                findings.add_with_help(span, message, Some(help));
            }
            ErrorKind::MissingField(field) => {
                let head = head(span, source);
                let is_entry = path.last().is_some_and(|part| part.starts_with('['));
                let each = if is_entry { "" } else { "each entry of " };
                findings.add(head, format!("{each}`{}` needs `{field}`", tree::shown(&path)));
            }
            kind => {
                let (message, help) = wrong_value(&kind, &error);
                let message = if path.is_empty() { message } else { format!("`{}`: {message}", tree::shown(&path)) };
                findings.add_with_help(span, message, help);
            }
        }
    }
}

/// The place of a table: its first line when it has a header, its brace when it is written inline.
fn head(span: Range<usize>, source: &dyn Fn(Range<usize>) -> String) -> Range<usize> {
    let text = source(span.clone());
    let bytes = if text.starts_with('[') { text.find('\n').unwrap_or(text.len()) } else { text.len().min(1) };
    span.start..span.start + text[..bytes].trim_end().len()
}

fn wrong_value(kind: &ErrorKind<'_>, error: &Error) -> (String, Option<String>) {
    match kind {
        ErrorKind::Wanted { expected, found } => {
            let found = match **found {
                "string" => "a string",
                "integer" => "an integer",
                "float" => "a decimal number",
                "boolean" => "true or false",
                "array" => "a list",
                "table" => "a table",
                "datetime" => "a date or time",
                other => other,
            };
            let expected = match **expected {
                "a bool" => "true or false",
                "an array" => "a list",
                other => other,
            };
            let is_text_for_number = expected == "an integer" && found == "a string";
            let help = "write a plain number without quotes and without a unit; times are in milliseconds".to_owned();
            (format!("expected {expected}, found {found}"), is_text_for_number.then_some(help))
        }
        ErrorKind::UnexpectedVariant { expected } | ErrorKind::UnexpectedValue { expected } => {
            (format!("unknown word, expected one of: {}", expected.join(", ")), None)
        }
        ErrorKind::OutOfRange { ty, .. } if ty.contains("recursion") => ("nested too deeply".to_owned(), None),
        ErrorKind::OutOfRange { range, .. } => (format!("out of range, expected {range}"), None),
        ErrorKind::DuplicateKey { .. } => ("this key is set twice".to_owned(), None),
        ErrorKind::DuplicateTable { .. } => ("this table is opened twice".to_owned(), None),
        // The other messages of the parser speak about characters, never about values.
        _ => (error.message(""), None),
    }
}

/// What is wrong with a key nobody knows, and what was probably meant.
fn unknown_key(path: &[String]) -> (String, String) {
    let Some((name, parent)) = path.split_last() else {
        return ("unknown key".to_owned(), "remove it".to_owned());
    };
    let accepted = names_below(parent);
    let place = match parent {
        [] => "at the top level".to_owned(),
        parent => format!("in `{}`", tree::shown(parent)),
    };
    let message = format!("unknown key `{}` {place}", tree::shown(std::slice::from_ref(name)));
    let near = accepted
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, candidate)) = near {
        return (message, format!("did you mean `{candidate}`?"));
    }
    let elsewhere = KEYS.iter().find_map(|(key, _)| key.rsplit_once('.').filter(|(_, last)| last == name));
    match elsewhere {
        Some((table, _)) => (message, format!("`{name}` belongs to [{}]", table.replace(".*", ".<name>"))),
        None => (message, format!("accepted here: {}", accepted.join(", "))),
    }
}

/// The names accepted in a table.
fn names_below(parent: &[String]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for (key, _) in KEYS {
        let parts: Vec<&str> = key.split('.').collect();
        if let Some((above, below)) = parts.split_at_checked(parent.len())
            && let Some(name) = below.first().filter(|name| **name != "*" && !names.contains(name))
            && tree::fits(above, parent)
        {
            names.push(name);
        }
    }
    names
}
