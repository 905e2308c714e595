//! What must not reach a tape, found in whatever spelling and replaced by a mark.
//!
//! A secret is looked for as it is, in any case, in the escapes of JSON, HTML and addresses (also one in the other),
//! as hex, as numbers, as base64 wherever in it it begins, backwards, and in pieces that stand side by side. What is
//! shorter than six bytes is not looked for: it stands in many texts by chance.

use super::spelling::{self, Spellings};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What stands on a tape where a secret was.
pub const MARK: &str = "[redacted]";

/// The shortest part of a secret that is looked for, in bytes.
const SHORTEST: usize = 6;

/// Words that stand before a key and are none.
const SCHEMES: [&str; 4] = ["bearer", "basic", "digest", "apikey"];

/// What stands on a tape where the working folder was: another machine has another one.
const FOLDER: &str = "[folder]";

/// Finds secrets in what is about to be written. Clones share what they know; nothing of it is shown.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<[Arc<Spellings>]>,
    /// Where the house works.
    folder: Option<Arc<str>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
    }
}

impl Redactor {
    /// Looks for these, each as a whole and each of its words.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self::default().with(secrets)
    }

    /// The same, which looks for these, too.
    #[must_use]
    pub fn with(self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let secrets: Vec<SecretString> = secrets.into_iter().collect();
        let mut words: Vec<&str> = Vec::new();
        for secret in &secrets {
            let whole = secret.expose_secret().trim();
            words.extend(std::iter::once(whole).chain(whole.split_whitespace()));
        }
        words.retain(|word| word.len() >= SHORTEST && !SCHEMES.contains(&word.to_ascii_lowercase().as_str()));
        let mut known = self.secrets.to_vec();
        for word in words {
            let word = Spellings::of(word);
            if known.iter().all(|known| !known.is(&word)) {
                known.push(Arc::new(word));
            }
        }
        Self { secrets: known.into(), ..self }
    }

    /// The same in a house that works in this folder, an absolute path: on the tape it has no name, and in a replay the
    /// name of the replay's own.
    #[must_use]
    pub fn at(self, folder: &str) -> Self {
        let folder = folder.trim_end_matches('/');
        let is_place = folder.len() > 1 && folder.starts_with('/');
        Self { folder: is_place.then(|| folder.into()), ..self }
    }

    /// A value as it is in this house: with its folder where a tape has none.
    pub(super) fn at_home(&self, value: &mut Value) {
        if let Some(folder) = &self.folder {
            replace(value, FOLDER, folder);
        }
    }

    /// A text without them.
    pub fn text(&self, text: &str) -> String {
        let text = match &self.folder {
            Some(folder) => &text.replace(&**folder, FOLDER),
            None => text,
        };
        cut(text, 0, &self.spans(text))
    }

    /// A value without them, wherever in it they stand.
    pub fn value(&self, value: &mut Value) {
        if let Some(folder) = &self.folder {
            replace(value, folder, FOLDER);
        }
        if self.secrets.is_empty() {
            return;
        }
        // Pieces of one secret have the same name: the texts of a list, the parts of a message.
        let mut groups = Groups::default();
        collect("", value, &mut groups);
        let texts = groups.into_iter().map(|(name, text)| {
            let spans = self.spans(&text);
            (name, Group { spans, at: 0 })
        });
        let mut texts: BTreeMap<String, Group> = texts.collect();
        self.rewrite("", value, &mut texts);
    }

    fn rewrite(&self, name: &str, value: &mut Value, groups: &mut BTreeMap<String, Group>) {
        match value {
            Value::String(text) => {
                let Some(group) = groups.get_mut(name) else { return };
                let (begin, length) = (group.at, text.len());
                group.at += length;
                let here = |span: &&Range<usize>| span.start < begin + length && span.end > begin;
                let spans: Vec<_> = group.spans.iter().filter(here).cloned().collect();
                if !spans.is_empty() {
                    *text = cut(text, begin, &spans);
                }
            }
            Value::Number(number) => {
                if !self.spans(&number.to_string()).is_empty() {
                    *value = Value::String(MARK.to_owned());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite(name, item, groups)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (key, mut field) in old {
                    self.rewrite(&key, &mut field, groups);
                    fields.insert(self.text(&key), field);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Where in a text secrets stand, in order and apart.
    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        if self.secrets.is_empty() || text.len() < SHORTEST {
            return Vec::new();
        }
        let mut found = Vec::new();
        for view in spelling::views(text) {
            self.secrets.iter().for_each(|secret| secret.find(&view, &mut found));
        }
        found.sort_unstable_by_key(|span| (span.start, span.end));
        let mut apart: Vec<Range<usize>> = Vec::new();
        for span in found {
            match apart.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => apart.push(span),
            }
        }
        apart
    }
}

/// The texts of one name in a value, one after the other.
type Groups = BTreeMap<String, String>;

/// Where secrets stand in the texts of one name, and how far they were rewritten.
struct Group {
    spans: Vec<Range<usize>>,
    at: usize,
}

/// Replaces a part of every text.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text.contains(from) => *text = text.replace(from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, from, to)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn collect(name: &str, value: &Value, groups: &mut Groups) {
    match value {
        Value::String(text) => groups.entry(name.to_owned()).or_default().push_str(text),
        Value::Array(items) => items.iter().for_each(|item| collect(name, item, groups)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| collect(key, field, groups)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text that begins at `begin` of a longer one, with the mark in the place of these spans of that one.
fn cut(text: &str, begin: usize, spans: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        let from = text.floor_char_boundary(span.start.saturating_sub(begin).min(text.len()));
        let to = text.ceil_char_boundary(span.end.saturating_sub(begin).min(text.len()));
        kept.push_str(text.get(at..from).unwrap_or_default());
        kept.push_str(MARK);
        at = at.max(to);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
