//! Event log of the drill server: one JSON object a line, appended to a file.
//!
//! Every line has `event`, `pid`, `at_ms` (milliseconds since this process began, monotonic) and `wall_ms`
//! (milliseconds since 1970). A line is written in one piece, so several servers may share a file. Write errors are
//! ignored: the test that needs the line fails.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Longer values are logged as their length, bytes.
const LONGEST_VALUE: usize = 4_096;

/// The file, if one was named.
pub(super) struct Log {
    file: Option<File>,
    began: Instant,
}

impl Log {
    /// Opens the file for appending and creates it if need be.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = match path {
            Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
            None => None,
        };
        Ok(Self { file, began: Instant::now() })
    }

    /// Writes one event; `details` is an object whose members are added to the line.
    pub(super) fn write(&self, event: &str, details: Value) {
        let Some(mut file) = self.file.as_ref() else { return };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = json!({
            "event": event, "pid": std::process::id(),
            "at_ms": self.began.elapsed().as_millis(), "wall_ms": wall.as_millis(),
        });
        if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
            line.extend(details);
        }
        let _lost = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// A value as it is logged: itself, or its length.
pub(super) fn brief(value: &Value) -> Value {
    let length = value.to_string().len();
    if length > LONGEST_VALUE { json!({ "bytes": length }) } else { value.clone() }
}
