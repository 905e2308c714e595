//! Redaction of tapes.
//!
//! Secrets are found in every encoding that [`Secrets`] knows, and in adjacent pieces.

use crate::secrets::{Secrets, replaced};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Replaces a secret on a tape.
pub const MARK: &str = "[redacted]";

/// Replaces the working folder on a tape, since it differs between machines.
const FOLDER: &str = "[folder]";

/// Finds secrets in content to be written. Clones share the secrets, which are never shown.
///
/// Secrets of less than six bytes are ignored: they occur in many texts by chance.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Secrets,
    folder: Option<Arc<str>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
    }
}

impl Redactor {
    /// Finds these secrets, and each of their words.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self::default().with(secrets)
    }

    /// Searches for these too.
    #[must_use]
    pub fn with(self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let secrets: Vec<SecretString> = secrets.into_iter().collect();
        Self { secrets: self.secrets.and(secrets.iter().map(ExposeSecret::expose_secret)), ..self }
    }

    /// Sets the working folder, an absolute path: on the tape it has no name, and in a replay that of the replay's own.
    #[must_use]
    pub fn at(self, folder: &str) -> Self {
        let folder = folder.trim_end_matches('/');
        let is_place = folder.len() > 1 && folder.starts_with('/');
        Self { folder: is_place.then(|| folder.into()), ..self }
    }

    pub(super) fn with_folder(&self, value: &mut Value) {
        if let Some(folder) = &self.folder {
            each_text("", value, &mut |_name, text| *text = text.replace(FOLDER, folder));
        }
    }

    /// A text without them.
    pub fn text(&self, text: &str) -> String {
        let text = match &self.folder {
            Some(folder) => &text.replace(&**folder, FOLDER),
            None => text,
        };
        self.secrets.marked_in(text, MARK)
    }

    /// A value without them, wherever in it they stand.
    pub fn value(&self, value: &mut Value) {
        if let Some(folder) = &self.folder {
            each_text("", value, &mut |_name, text| *text = text.replace(&**folder, FOLDER));
        }
        if self.secrets.len() == 0 {
            return;
        }
        // Pieces of one secret have one name: the texts of a list, the parts of a message.
        let mut joined: BTreeMap<String, String> = BTreeMap::new();
        each_text("", value, &mut |name, text| joined.entry(name.to_owned()).or_default().push_str(text));
        let spans = joined.iter().map(|(name, text)| (name.as_str(), (self.secrets.spans(text), 0)));
        let mut spans: BTreeMap<&str, (Vec<Range<usize>>, usize)> = spans.collect();
        each_text("", value, &mut |name, text| {
            let Some((spans, begin)) = spans.get_mut(name) else { return };
            let length = text.len();
            *text = replaced(text, *begin, spans, MARK);
            *begin += length;
        });
        self.names_and_numbers(value);
    }

    fn names_and_numbers(&self, value: &mut Value) {
        match value {
            Value::Number(number) if !self.secrets.spans(&number.to_string()).is_empty() => *value = MARK.into(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.names_and_numbers(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.names_and_numbers(field));
                *fields = std::mem::take(fields).into_iter().map(|(name, field)| (self.text(&name), field)).collect();
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Calls back with each text in a value, and its field name.
fn each_text(name: &str, value: &mut Value, call: &mut dyn FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => call(name, text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(name, item, call)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| each_text(name, field, call)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
