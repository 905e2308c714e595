//! Hides values that are secret by their position or name.
//!
//! Values are wrapped when they are parsed. Error messages, which quote the file, mask: every value of a secret key,
//! every text under an unknown key (misspelled keys hold real secrets), every argument of a program, every address
//! with credentials or a query, every comment, and in a file that does not parse every word outside the parsed keys and
//! texts that is not in the schema.

use std::ops::Range;

use secrecy::{ExposeSecret, SecretString};

use super::problem::MAX_QUOTED_LINE;
use super::tree::{self, Item, Table, Value};

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

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(SecretString::from(value))
    }
}

/// Whether values of this key are secret, regardless of the schema.
pub(super) fn is_secret_key(key: &str) -> bool {
    const SIGNS: [&str; 9] = ["key", "secret", "passw", "token", "auth", "credential", "cookie", "bearer", "private"];
    let key = key.to_ascii_lowercase();
    let counts_tokens = key.ends_with("tokens") || key.starts_with("token_budget");
    matches!(key.as_str(), "env" | "headers") || (!counts_tokens && SIGNS.iter().any(|sign| key.contains(sign)))
}

/// Whether a value may hold a key beside a place: a user or a password in front of a host, or, where an address belongs,
/// something to ask for.
fn may_hold_key(value: &str, path: &[&str]) -> bool {
    let is_address = path.last().is_some_and(|key| key.ends_with("url"));
    has_credentials(value) || (is_address && value.contains(['?', '@']))
}

/// Whether an address carries a user or a password in front of its host.
pub(super) fn has_credentials(address: &str) -> bool {
    let authority = address.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// Returns the file for quoting: hidden text is replaced by stars, byte for byte, so that spans still fit.
///
/// `broken` lists positions of unparsable lines, `keys` the paths of all keys.
pub(super) fn masked(text: &str, root: &Table<'_>, broken: &[usize], keys: &[String]) -> String {
    let mut painter = Painter { text, keys, painted: text.as_bytes().to_vec(), quoted: Vec::new() };
    painter.table(root, &mut Vec::new());
    painter.quoted.sort_by_key(|span| span.start);
    painter.comments();
    if !broken.is_empty() {
        painter.unparsed();
    }
    broken.iter().for_each(|&at| painter.broken_line(at));
    // Only whole characters are masked, so the result is valid UTF-8; otherwise nothing is quoted.
    String::from_utf8(painter.painted).unwrap_or_default()
}

struct Painter<'t> {
    text: &'t str,
    keys: &'t [String],
    painted: Vec<u8>,
    /// Positions of keys and texts: a `#` inside them begins no comment.
    quoted: Vec<Range<usize>>,
}

impl<'t> Painter<'t> {
    fn table<'p>(&mut self, table: &'p Table<'p>, path: &mut Vec<&'p str>) {
        for (key, item) in table.iter() {
            path.push(key.get_ref());
            self.quoted.push(key.span());
            self.item(item, path);
            // Of a value that was cut off the tree may have nothing; a key of the schema is quoted for its value only.
            if !self.keys.iter().any(|key| begins(key, path)) {
                let line = self.text.get(key.span().end..).unwrap_or_default().lines().next().unwrap_or_default();
                self.words(key.span().end, line);
            }
            path.pop();
        }
    }

    fn item<'p>(&mut self, item: &'p Item<'p>, path: &mut Vec<&'p str>) {
        let span = item.span();
        if path.len() > tree::MAX_DEPTH {
            self.whole(item);
            return;
        }
        // Programs are often given their key as an argument.
        let is_secret = path.iter().any(|part| is_secret_key(part) || *part == "args");
        match item.get_ref() {
            Value::Table(table) => self.table(table, path),
            Value::Array(items) => items.iter().for_each(|item| {
                path.push("[]");
                self.item(item, path);
                path.pop();
            }),
            Value::String(value) => {
                let is_reference = is_secret && self.text.get(span.clone()).is_some_and(is_reference);
                if ((is_secret || !is_known(self.keys, path)) && !is_reference) || may_hold_key(value, path) {
                    self.paint(span.clone());
                }
                self.quoted.push(span);
            }
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
                if is_secret {
                    self.paint(span);
                }
            }
        }
    }

    /// Masks a subtree that is too deep for the schema, with its keys.
    fn whole(&mut self, item: &Item<'_>) {
        self.quoted.push(item.span());
        self.paint(item.span());
        match item.get_ref() {
            Value::Table(table) => table.iter().for_each(|(key, item)| {
                self.quoted.push(key.span());
                self.whole(item);
            }),
            Value::Array(items) => items.iter().for_each(|item| self.whole(item)),
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
        }
    }

    /// A value that was switched off by a comment is still a secret.
    fn comments(&mut self) {
        let mut from = 0;
        while let Some(at) = self.text[from..].find('#').map(|found| from + found) {
            let before = self.quoted.partition_point(|span| span.start <= at);
            let is_quoted = self.quoted[..before].last().is_some_and(|span| at < span.end);
            from = at + 1;
            if !is_quoted {
                from = self.text[at..].find('\n').map_or(self.text.len(), |length| at + length);
                self.paint(at + 1..from);
            }
        }
    }

    /// Masks what the parser passed over to continue behind an error: that can begin lines before the error is noticed.
    fn unparsed(&mut self) {
        let mut from = 0;
        let end = self.text.len()..self.text.len();
        for span in std::mem::take(&mut self.quoted).into_iter().chain(std::iter::once(end)) {
            if from < span.start {
                self.words(from, self.text.get(from..span.start).unwrap_or_default());
            }
            from = from.max(span.end);
        }
    }

    fn broken_line(&mut self, at: usize) {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        if line.len() > MAX_QUOTED_LINE {
            return;
        }
        self.words(start, line);
    }

    /// Masks every word of a text, which begins at `start`, that is not in the schema.
    fn words(&mut self, start: usize, line: &str) {
        let is_word = |c: char| !c.is_whitespace() && !"=[]{},.:#\"'".contains(c);
        let mut word_start = 0;
        for (at, character) in line.char_indices().chain([(line.len(), ' ')]) {
            if is_word(character) {
                continue;
            }
            if !is_ours(self.keys, &line[word_start..at]) {
                self.paint(start + word_start..start + at);
            }
            word_start = at + character.len_utf8();
        }
    }

    fn paint(&mut self, span: Range<usize>) {
        for byte in self.painted.get_mut(span).into_iter().flatten() {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
}

/// Whether the schema has this path.
pub(super) fn is_known(keys: &[String], path: &[&str]) -> bool {
    let path = match path {
        [list @ .., "[]"] => list,
        path => path,
    };
    keys.iter().any(|key| {
        let mut parts = key.split('.');
        path.iter().all(|part| parts.next().is_some_and(|wanted| wanted == "*" || wanted == *part))
            && parts.next().is_none()
    })
}

/// Whether a path of the schema is this one or one below it.
fn begins(key: &str, path: &[&str]) -> bool {
    let mut parts = key.split('.');
    path.iter()
        .filter(|part| **part != "[]")
        .all(|part| parts.next().is_some_and(|wanted| wanted == "*" || wanted == *part))
}

/// Whether a word of a broken line is in the schema, or a small number.
fn is_ours(keys: &[String], word: &str) -> bool {
    let is_number = word.len() <= 9 && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(word, "true" | "false") || keys.iter().any(|key| key.split('.').any(|part| part == word))
}

/// Whether a value is not shown where the configuration is printed.
pub(super) fn is_hidden(item: &Item<'_>, path: &[&str]) -> bool {
    // How a server signs in is a word of the schema.
    let is_word = matches!(path, ["mcp", "servers", "[]", "auth"]);
    let is_secret = !is_word && path.iter().any(|part| is_secret_key(part) || *part == "args");
    match item.get_ref() {
        Value::String(value) => (is_secret && !is_reference(value)) || may_hold_key(value, path),
        Value::Table(_) | Value::Array(_) => false,
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => is_secret,
    }
}

/// A quoted `${NAME}` only: it names a variable and contains no secret.
fn is_reference(quoted: &str) -> bool {
    let inner = quoted.trim_matches(['"', '\'']);
    let name = inner.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'))
}
