//! Finding things in the parsed tree by a path, and the path of a thing by its place in the text.
//!
//! A path is a list of parts: keys, and array positions written `[0]`. A pattern is the same as one text with dots, in
//! which `*` stands for any key or position.

use std::ops::Range;

use toml_spanner::{Item, Table, Value};

/// How deep the tree is looked at. The deepest key of the schema lies at 5; what lies deeper is an unknown key's content.
pub(super) const MAX_DEPTH: usize = 8;

/// Calls `found` with every item whose path fits the pattern.
pub(super) fn visit<'t, 'de>(root: &'t Table<'de>, pattern: &str, found: &mut dyn FnMut(&[String], &'t Item<'de>)) {
    let parts: Vec<&str> = pattern.split('.').collect();
    visit_table(root, &parts, &mut Vec::new(), found);
}

fn visit_table<'t, 'de>(
    table: &'t Table<'de>,
    parts: &[&str],
    path: &mut Vec<String>,
    found: &mut dyn FnMut(&[String], &'t Item<'de>),
) {
    let Some(&part) = parts.first() else { return };
    for (key, item) in table.iter().filter(|(key, _)| part == "*" || key.name == part) {
        visit_item(item, key.name.to_owned(), &parts[1..], path, found);
    }
}

fn visit_item<'t, 'de>(
    item: &'t Item<'de>,
    name: String,
    rest: &[&str],
    path: &mut Vec<String>,
    found: &mut dyn FnMut(&[String], &'t Item<'de>),
) {
    path.push(name);
    match (rest, item.value()) {
        ([], _) => found(path, item),
        (_, Value::Table(table)) => visit_table(table, rest, path, found),
        (["*", rest @ ..], Value::Array(array)) => {
            for (index, item) in array.iter().enumerate() {
                visit_item(item, format!("[{index}]"), rest, path, found);
            }
        }
        _ => {}
    }
    path.pop();
}

/// The item at a plain path such as `runtime.max_steps`.
pub(super) fn get<'t, 'de>(root: &'t Table<'de>, path: &str) -> Option<&'t Item<'de>> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let item = root.get(first)?;
    match rest {
        Some(rest) => get(item.as_table()?, rest),
        None => Some(item),
    }
}

/// The path of the key or the value that stands at exactly this place.
pub(super) fn path_at(root: &Table<'_>, span: &Range<usize>) -> Option<Vec<String>> {
    let mut path = Vec::new();
    path_in_table(root, span, &mut path).then_some(path)
}

fn path_in_table(table: &Table<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    table.iter().any(|(key, item)| {
        path.push(key.name.to_owned());
        let found = key.span.range() == *span || path_in_item(item, span, path);
        if !found {
            path.pop();
        }
        found
    })
}

fn path_in_item(item: &Item<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    if item.span().range() == *span {
        return true;
    }
    if path.len() >= MAX_DEPTH {
        return false;
    }
    match item.value() {
        Value::Table(table) => path_in_table(table, span, path),
        Value::Array(array) => array.iter().enumerate().any(|(index, item)| {
            path.push(format!("[{index}]"));
            let found = path_in_item(item, span, path);
            if !found {
                path.pop();
            }
            found
        }),
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::DateTime(_) => false,
    }
}

/// The path as it is written in a file.
pub(super) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if part.starts_with('[') {
            text.push_str(part);
            continue;
        }
        if !text.is_empty() {
            text.push('.');
        }
        let is_bare = !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if is_bare {
            text.push_str(part);
        } else {
            text.push_str(&quoted(part));
        }
    }
    text
}

/// A text as a basic string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a path fits the parts of a pattern.
pub(super) fn fits(pattern: &[&str], path: &[String]) -> bool {
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(wanted, part)| *wanted == "*" || wanted == part)
}
