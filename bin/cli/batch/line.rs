//! One line of the input: its fields, and errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use bob::sessions::RequestId;
use bob::{ModelName, SessionId};
use serde::Deserialize;
use serde_json::Value;

use crate::commands::prompt::MAX_BYTES;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchLine {
    /// Line number, from 1.
    pub(crate) number: u64,
    pub(crate) session: SessionId,
    /// The user's message; not blank.
    pub(crate) prompt: String,
    /// The model, if the line names one.
    pub(crate) model: Option<ModelName>,
    /// The caller's name for it.
    pub(crate) request_id: Option<RequestId>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The schema its answer must fit; judged when it is run.
    pub(crate) output_schema: Option<Arc<Value>>,
}

/// A line that is no turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Line number, from 1.
    pub(crate) number: u64,
    /// The session it names, if it could be read that far.
    pub(crate) session: Option<String>,
    /// The error, beginning with the line number.
    pub(crate) message: String,
}

/// The keys of a line. Others are ignored.
#[derive(Deserialize)]
struct Written {
    session: String,
    prompt: String,
    model: Option<String>,
    request_id: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    output_schema: Option<Value>,
}

impl BatchLine {
    /// Parses a line; `bytes` is at most one byte longer than the limit, without the newline.
    pub(crate) fn read(number: u64, bytes: &[u8]) -> Result<Self, BadLine> {
        let bad = |session: Option<String>, what: &str| BadLine {
            number,
            session,
            message: format!("line {number}: {what}"),
        };
        if bytes.len() > MAX_BYTES {
            return Err(bad(None, &format!("larger than {MAX_BYTES} bytes; shorten it, or put the text into a file")));
        }
        // The parser would take a list for the keys in their order.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(bad(None, &format!("it is a list; expected {EXPECTED}")));
        }
        let Written { session, prompt, model, request_id, labels, output_schema } = serde_json::from_slice(bytes)
            .map_err(|error| bad(named_in(bytes), &format!("{}; expected {EXPECTED}", in_one_line(&error))))?;
        let named = Some(session.clone());
        let session = SessionId::parse(&session).map_err(|error| bad(named.clone(), &error.to_string()))?;
        if prompt.trim().is_empty() {
            return Err(bad(named, "the prompt is empty"));
        }
        let model = model.as_deref().map(ModelName::parse).transpose();
        let model = model.map_err(|error| bad(named, &error.to_string()))?;
        let (request_id, output_schema) = (request_id.map(RequestId::new), output_schema.map(Arc::new));
        Ok(Self { number, session, prompt, model, request_id, labels, output_schema })
    }

    /// About how much memory it takes while it waits, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        // A value in memory takes more than its text; a schema is at most a line.
        let schema = self.output_schema.as_ref().map_or(0, |schema| 4 * schema.to_string().len());
        size_of::<Self>() + self.prompt.len() + labels + schema
    }
}

const EXPECTED: &str = r#"{"session": ID, "prompt": TEXT}"#;

/// The parser's message without its line number, which is always one.
fn in_one_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _place)) if error.column() > 0 => format!("{what} at column {}", error.column()),
        _ => text,
    }
}

/// The session that a line names which is refused for something else.
fn named_in(bytes: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(bytes).ok()?;
    line.get("session")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> BadLine {
        BatchLine::read(7, text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_line_says_who_and_what_and_may_say_more() {
        let text = r#"{"session":"s","prompt":"hi","model":"a:b","labels":{"k":"v"},"request_id":"r","theirs":[1]} "#;
        let line = BatchLine::read(3, text.as_bytes()).unwrap();
        assert_eq!((line.number, line.session.as_str(), line.prompt.as_str()), (3, "s", "hi"));
        assert_eq!(line.model.as_ref().map(ModelName::as_str), Some("a:b"));
        assert_eq!((line.request_id, line.labels["k"].as_str()), (Some(RequestId::new("r")), "v"));
    }

    #[test]
    fn a_refusal_names_the_line_the_fault_and_the_session() {
        let cases = [
            ("{", None, "EOF while parsing an object at column 1; expected"),
            (r#"["s","hi",null,null,{},null]"#, None, "it is a list; expected {"),
            (r#"{"session":"s"}"#, Some("s"), "missing field `prompt`"),
            (r#"{"prompt":"hi"}"#, None, "missing field `session`"),
            (r#"{"session":"../s","prompt":"hi"}"#, Some("../s"), "letters, digits"),
            (r#"{"session":"s","prompt":" \n"}"#, Some("s"), "the prompt is empty"),
            (r#"{"session":"s","prompt":"hi","model":"gpt"}"#, Some("s"), "provider:model"),
            (r#"{"session":"s","prompt":7}"#, Some("s"), "invalid type"),
            ("\u{fffd}", None, "expected value at column 1"),
        ];
        for (text, session, what) in cases {
            let bad = refused(text);
            assert!(bad.message.starts_with("line 7: ") && bad.message.contains(what), "{text}: {bad:?}");
            assert_eq!((bad.number, bad.session.as_deref()), (7, session), "{text}");
        }
    }

    #[test]
    fn the_largest_line_is_exact() {
        let line = |bytes: usize| format!(r#"{{"session":"s","prompt":"{}"}}"#, "a".repeat(bytes - 27));
        let largest = line(MAX_BYTES);
        assert_eq!(largest.len(), MAX_BYTES);
        assert!(BatchLine::read(1, largest.as_bytes()).is_ok());
        assert!(refused(&line(MAX_BYTES + 1)).message.contains("1048576"));
    }
}
