//! Whether a final answer fits the schema it was asked for with.
//!
//! Schemas come from callers, and are as bounded as those of tools: read within limits,
//! checked within a budget, and nothing is fetched for one.

use super::schema::{Checker, Misfit};
use bob_messages::reply::Reply;
use serde_json::Value;
use std::sync::Arc;

/// How large a schema may be as JSON, in bytes; it is also told to the model in words.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Why answers cannot be checked against a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is no JSON object.
    #[error("a schema must be a JSON object")]
    NotAnObject,
    /// It is too large.
    #[error("it has {bytes} bytes; at most {most} are taken")]
    TooLarge {
        /// How many bytes it has as JSON.
        bytes: usize,
        /// How many are taken.
        most: usize,
    },
    /// It is no schema, or not one that is read here; the reason, with the place where there is one.
    #[error("{0}")]
    Invalid(String),
}

/// Whether this is a schema that answers can be checked against.
///
/// # Errors
/// Why it is not, naming the place where there is one.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    if !schema.is_object() {
        return Err(SchemaError::NotAnObject);
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(SchemaError::TooLarge { bytes, most: MAX_SCHEMA_BYTES });
    }
    Checker::read(schema).map(drop).map_err(SchemaError::Invalid)
}

/// Holds an answer against a schema.
///
/// # Errors
/// What does not fit, each complaint with its place, in words for the model.
pub fn check(schema: &Value, output: &Value) -> Result<(), String> {
    let checker = Checker::read(schema).map_err(|why| format!("the schema cannot be read: {why}"))?;
    checker.check(schema, output).map_err(|misfit| match misfit {
        Misfit::Complaints(complaints) => complaints.join("; "),
        Misfit::TooMuch => "it is too large to be checked; answer with less".to_owned(),
    })
}

/// Checks in a task of its own, since reading a schema takes milliseconds. A dropped reply counts as an answer.
pub(crate) fn check_apart(schema: Arc<Value>, output: Arc<Value>, reply: Reply<Result<(), String>>) {
    // An answer may be dropped while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn_blocking(move || reply.send(check(&schema, &output)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_fits_or_is_told_where_it_does_not() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "array", "items": {"type": "integer"}}}});
        assert_eq!(check(&schema, &json!({"n": [1, 2]})), Ok(()));
        let misfit = check(&schema, &json!({"n": [1, "two"]})).unwrap_err();
        assert!(misfit.starts_with("/n/1: ") && misfit.contains("integer"), "{misfit}");
        let missing = check(&schema, &json!({})).unwrap_err();
        assert!(missing.contains("\"n\""), "{missing}");
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        assert_eq!(check_schema(&json!({})), Ok(()));
        let why = |schema: Value| check_schema(&schema).unwrap_err().to_string();
        assert!(why(json!([])).contains("JSON object"));
        let wrong = why(json!({"properties": {"a": {"type": "strin"}}}));
        assert!(wrong.contains("strin"), "{wrong}");
        #[cfg(feature = "json-schema")]
        assert!(why(json!({"$ref": "http://127.0.0.1:1/x"})).contains("fetched"));
        assert!(why(json!({"title": "x".repeat(MAX_SCHEMA_BYTES)})).contains("bytes"));
    }
}
