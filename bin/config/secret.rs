//! What must not be shown: values that are secret by their place or by their name.
//!
//! Values are wrapped when they are parsed; for complaints, which quote the file, they are painted over. Painting works
//! twice, on the parsed tree and on the bare text, because a file with a broken line has no reliable tree around it.

use std::ops::Range;

use secrecy::{ExposeSecret, SecretString};
use toml_spanner::{Context, Failed, FromToml, Item, Table, Value};

use super::tree;

/// A value that is wrapped from the moment it is parsed: `Debug` shows that there is one and nothing of it.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// The wrapped value, to be handed on as it is.
    pub fn wrapped(&self) -> &SecretString {
        &self.0
    }

    /// The bare value, for the one place that sends it. It must not be stored or formatted.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl<'de> FromToml<'de> for Secret {
    fn from_toml(context: &mut Context<'de>, item: &Item<'de>) -> Result<Self, Failed> {
        String::from_toml(context, item).map(|value| Self(SecretString::from(value)))
    }
}

/// Whether what stands under this key is secret, whatever the schema says: misspelled keys hold real secrets, too.
pub(super) fn is_secret_key(key: &str) -> bool {
    const SIGNS: [&str; 9] = ["key", "secret", "passw", "token", "auth", "credential", "cookie", "bearer", "private"];
    let key = key.to_ascii_lowercase();
    let counts_tokens = key.ends_with("tokens") || key.starts_with("token_budget");
    matches!(key.as_str(), "env" | "headers") || (!counts_tokens && SIGNS.iter().any(|sign| key.contains(sign)))
}

/// The file as it may be quoted: every secret replaced by stars of the same number of bytes, so that spans still fit.
pub(super) fn masked(text: &str, root: &Table<'_>) -> String {
    let mut hidden = Vec::new();
    secrets_of_tree(root, false, 0, text, &mut hidden);
    secrets_of_text(text, &mut hidden);
    let mut bytes = text.as_bytes().to_vec();
    for span in hidden {
        for byte in bytes.get_mut(span).into_iter().flatten() {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    // Spans come from a parser and from a scan for ASCII characters, so they begin and end between characters.
    String::from_utf8(bytes).unwrap_or_default()
}

fn secrets_of_tree(table: &Table<'_>, inherited: bool, depth: usize, text: &str, hidden: &mut Vec<Range<usize>>) {
    for (key, item) in table.iter() {
        secrets_of_item(item, inherited || is_secret_key(key.name), depth, text, hidden);
    }
}

fn secrets_of_item(item: &Item<'_>, secret: bool, depth: usize, text: &str, hidden: &mut Vec<Range<usize>>) {
    if depth > tree::MAX_DEPTH {
        hidden.push(item.span().range());
        return;
    }
    match item.value() {
        Value::Table(table) => secrets_of_tree(table, secret, depth + 1, text, hidden),
        Value::Array(array) => {
            array.iter().for_each(|item| secrets_of_item(item, secret, depth + 1, text, hidden));
        }
        Value::String(value) => {
            let span = item.span().range();
            let is_reference = text.get(span.clone()).is_some_and(is_reference);
            if (secret && !is_reference) || has_credentials(value) {
                hidden.push(span);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::DateTime(_) if secret => {
            hidden.push(item.span().range());
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::DateTime(_) => {}
    }
}

/// Whether an address carries a user or a password in front of its host.
pub(super) fn has_credentials(address: &str) -> bool {
    address
        .split_once("://")
        .is_some_and(|(_, rest)| rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')))
}

/// A quoted `${NAME}` and nothing else: it says where the secret is, not what it is.
fn is_reference(quoted: &str) -> bool {
    let name = quoted.trim().strip_prefix("\"${").and_then(|rest| rest.strip_suffix("}\""));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'))
}

/// Finds secrets line by line, without trusting that the text is TOML.
fn secrets_of_text(text: &str, hidden: &mut Vec<Range<usize>>) {
    let mut scan = Scan::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(from) = scan.hidden_from(line) {
            hidden.push(start + from..start + line.len());
        }
        start += line.len();
    }
}

/// What the lines before this one have opened.
#[derive(Default)]
struct Scan {
    /// The current section holds nothing but secrets.
    section: bool,
    /// A secret value goes on until this text is seen.
    until: Option<&'static str>,
}

impl Scan {
    /// The offset from which a line must not be shown.
    fn hidden_from(&mut self, line: &str) -> Option<usize> {
        if let Some(end) = self.until {
            if line.contains(end) {
                self.until = None;
            }
            return Some(0);
        }
        if line.trim_start().starts_with('[') {
            self.section = key_parts(line).any(is_secret_key);
            return None;
        }
        if has_credentials(line) {
            return line.find("://");
        }
        let assignments = line.match_indices(['=', ':']).map(|(at, _)| at);
        let mut candidates = assignments.filter(|&at| self.section || key_parts(before(line, at)).any(is_secret_key));
        let from = match candidates.next() {
            Some(at) => at + 1,
            None if self.section => 0,
            None => return None,
        };
        let value = line[from..].trim();
        if is_reference(value) {
            return None;
        }
        self.until = ["\"\"\"", "'''"].into_iter().find(|quote| value.matches(quote).count() == 1).or(
            match value.chars().last() {
                Some('{') => Some("}"),
                Some('[') => Some("]"),
                _ => None,
            },
        );
        Some(from)
    }
}

/// The dotted key that ends at an offset.
fn before(line: &str, at: usize) -> &str {
    let line = line[..at].trim_end();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'' | '/');
    &line[line.trim_end_matches(is_part).len()..]
}

fn key_parts(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').map(|part| part.trim_matches(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"' | '\'')))
}

/// Whether a value at this path of the tree is a secret of the schema, for values that come from the environment.
pub(super) fn is_secret_path(path: &[String]) -> bool {
    path.iter().any(|part| is_secret_key(part))
}
