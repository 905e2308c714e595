//! Tools with side effects: on a file, on the tool list, or on the server process.

use std::fs::OpenOptions;
use std::io::{self, Write};

use serde_json::Value;

use super::{Call, Outcome};

/// Appends a line to a file and waits for the disk: the line, a tab, and the idempotency key of the call if it has one.
/// A drill counts the lines to see how often an effect really happened.
pub(super) fn append(call: &Call<'_>) -> Result<Outcome, Outcome> {
    let (path, line) = (call.text("path")?, call.text("line")?);
    let key = key(call.meta()).map(|key| format!("\t{key}")).unwrap_or_default();
    let append = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(format!("{line}{key}\n").as_bytes())?;
        file.sync_all()
    };
    append().map_err(|error| Outcome::Failed(format!("cannot append to {path}: {error}")))?;
    Ok(Outcome::text("appended"))
}

/// The member of `_meta` that is called idempotency key, in whichever spelling and behind whichever prefix.
fn key(meta: &Value) -> Option<&str> {
    let is_key = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let letters = last.chars().filter(char::is_ascii_alphabetic).collect::<String>();
        letters.eq_ignore_ascii_case("idempotencykey")
    };
    meta.as_object()?.iter().find(|(name, _)| is_key(name)).and_then(|(_, value)| value.as_str())
}

pub(super) fn crash(call: &Call<'_>) -> Result<Outcome, Outcome> {
    call.server.exit(101)
}

pub(super) fn grow(call: &Call<'_>) -> Result<Outcome, Outcome> {
    let name = call.server.catalogue.grow();
    call.server.tell_changed();
    Ok(Outcome::text(&name))
}

pub(super) fn drift(call: &Call<'_>) -> Result<Outcome, Outcome> {
    call.server.catalogue.drift();
    call.server.tell_changed();
    Ok(Outcome::text("echo has changed"))
}
