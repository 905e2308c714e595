//! Writing of input lines and reading of results.

use serde_json::{Value, json};

use crate::home::Home;
use crate::support::program::Run;

/// A line of the input.
pub(crate) fn line(session: &str, prompt: &str) -> String {
    format!("{}\n", json!({ "session": session, "prompt": prompt }))
}

/// A home whose model answers at once, but a prompt with "slow" after 400 ms, and one with "stall" never.
pub(crate) fn home() -> Home {
    Home::scripted(&json!([
        { "when": "slow", "replies": [{ "text": "slowly" }], "delay_ms": 400 },
        { "when": "stall", "replies": ["stall"] },
        { "when": "break", "replies": [{ "error": "rejected" }] },
        { "when": "list", "replies": [{ "calls": [{ "name": "local/list_dir", "arguments": { "path": "." } }] }] },
        { "replies": [{ "text": "hello" }] },
    ]))
}

/// The results, one a line.
#[track_caller]
pub(crate) fn results(run: &Run) -> Vec<Value> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line:?}\n{}", run.stderr));
    run.stdout.lines().map(read).collect()
}

/// The number of the line each result belongs to, in the order of the results.
#[track_caller]
pub(crate) fn numbers(run: &Run) -> Vec<u64> {
    results(run).iter().map(|result| result["line"].as_u64().expect("the number of a line")).collect()
}
