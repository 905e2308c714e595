//! The file of `run --output-schema`: read and judged before anything is sent.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bob::tools::{MAX_SCHEMA_BYTES, check_schema};
use serde_json::Value;

use crate::exit::Failure;

/// How large the file may be, in bytes: a schema may be written with much room.
const MAX_FILE_BYTES: u64 = 4 * MAX_SCHEMA_BYTES as u64;

/// Reads a schema. Errors: why there is none, with file, line and column; exit 2.
pub(crate) fn read(path: &Path) -> Result<Arc<Value>, Failure> {
    let shown = path.display();
    let say = |error: std::io::Error| Failure::usage(format!("--output-schema {shown}: {error}"));
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)).map_err(say)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::usage(format!("--output-schema {shown}: it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let schema: Value = serde_json::from_slice(&text).map_err(|error| {
        let whole = error.to_string();
        let what = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _place)| what);
        Failure::usage(format!("--output-schema {shown}:{}:{}: {what}", error.line(), error.column()))
    })?;
    let misfit = |why| Failure::usage(format!("--output-schema {shown} is no JSON schema that can be used: {why}"));
    check_schema(&schema).map_err(misfit)?;
    Ok(Arc::new(schema))
}
