//! What a provider said of an error: its message and its code, fit to be shown.
//!
//! Only these two are taken of a body, and of a body that is no JSON the text when it is a short one. Keys are
//! hidden: those configured, and whatever looks like one.

use super::NO_KEY;
use crate::secrets::Secrets;
use bob_messages::llm::LlmError;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// The longest that is shown, in characters.
const MOST_CHARS: usize = 500;

/// The shortest key that is hidden, in bytes. A shorter one is no secret (a local model takes any), and is a part of many words.
const SHORTEST_KEY: usize = 4;

const HIDDEN: &str = "[hidden]";

const PREFIXES: [&str; 14] =
    ["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "aiza", "ghp_", "gho_", "github_pat_", "hf_", "r8_", "eyj", "akia"];

/// Words that stand before a key.
const BEFORE_KEYS: [&str; 10] =
    ["bearer", "basic", "key", "api_key", "apikey", "api-key", "x-api-key", "token", "secret", "provided"];

/// From this length on letters and digits in a row are taken for a key.
const LONG: usize = 32;

/// The shortest word behind one of [`BEFORE_KEYS`] that is taken for a key.
const SHORT: usize = 8;

pub(super) fn with(mut error: LlmError, body: &str, keys: &[SecretString]) -> LlmError {
    if let Some(said) = of(body, keys) {
        error.message = format!("{}; it said: {said}", error.message);
    }
    error
}

/// The message and the code of a body; `None` when it has none that can be shown.
fn of(body: &str, keys: &[SecretString]) -> Option<String> {
    let said = match serde_json::from_str::<Value>(body) {
        Ok(body) => of_json(&body)?,
        // A page is not for reading, and a long text is no message.
        Err(_) if body.trim_start().starts_with(['<', '{', '[']) || body.chars().count() > MOST_CHARS => return None,
        Err(_) => body.to_owned(),
    };
    let said = sanitised(&said, keys);
    (!said.is_empty()).then_some(said)
}

fn of_json(body: &Value) -> Option<String> {
    // Some providers answer with a list of one error.
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    let fields = ["message", "msg", "detail", "error_description", "error"];
    let message = text(Some(error)).or_else(|| [error, body].iter().find_map(|part| first(part, &fields)));
    let code = first(error, &["code", "type", "status"]);
    match (message, code) {
        (Some(message), Some(code)) if !message.contains(code) => Some(format!("{message} ({code})")),
        (Some(words), _) | (None, Some(words)) => Some(words.to_owned()),
        (None, None) => None,
    }
}

fn first<'v>(object: &'v Value, fields: &[&str]) -> Option<&'v str> {
    fields.iter().find_map(|field| text(object.get(field)))
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// One line without control characters and keys, of bounded length.
pub(super) fn sanitised(said: &str, keys: &[SecretString]) -> String {
    let line: String = said.chars().map(|letter| if is_shown(letter) { letter } else { ' ' }).collect();
    let keys = keys.iter().map(|key| key.expose_secret()).filter(|key| *key != NO_KEY && key.len() >= SHORTEST_KEY);
    let line = Secrets::over(keys.collect()).marked_in(&line, HIDDEN);
    let mut words: Vec<&str> = Vec::new();
    let mut length = 0;
    for word in line.split_whitespace() {
        let before = words.last().copied().unwrap_or_default();
        let word = if is_key(word, before) { HIDDEN } else { word };
        length += word.chars().count() + 1;
        words.push(word);
        if length > MOST_CHARS {
            break;
        }
    }
    let line = words.join(" ");
    if line.chars().count() <= MOST_CHARS {
        return line;
    }
    line.chars().take(MOST_CHARS - 1).chain(['…']).collect()
}

/// Neither control characters nor those that turn the direction of writing or cannot be seen.
fn is_shown(letter: char) -> bool {
    let is_invisible =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !letter.is_control() && !is_invisible
}

fn is_key(word: &str, before: &str) -> bool {
    let before = before.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    let has_digit = bare.contains(|letter: char| letter.is_ascii_digit());
    if BEFORE_KEYS.contains(&before.as_str()) && bare.len() >= SHORT && (has_digit || before == "bearer") {
        return true;
    }
    let mut last = String::new();
    for part in word.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_*".contains(letter))) {
        let lower = part.to_ascii_lowercase();
        let begins_like_one =
            PREFIXES.iter().any(|prefix| lower.strip_prefix(prefix).is_some_and(|rest| rest.len() >= 4));
        let is_named = BEFORE_KEYS.contains(&last.as_str()) && part.len() >= SHORT;
        if begins_like_one || is_named || is_long(part) {
            return true;
        }
        if !part.is_empty() {
            last = lower;
        }
    }
    false
}

/// Letters and digits without an end, as no word has them.
fn is_long(part: &str) -> bool {
    part.split(['-', '_']).any(|run| {
        let has = |kind: fn(&char) -> bool| run.chars().any(|letter| kind(&letter));
        run.len() >= LONG && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
    })
}

#[cfg(test)]
#[path = "said_tests.rs"]
mod tests;
