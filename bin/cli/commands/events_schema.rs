//! `events-schema`: prints the schema of the events of `stream-json`.

use std::io;

/// The schema of one event as one flat JSON object, in the version its events carry.
pub(crate) const EVENTS_SCHEMA: &str = include_str!("../../../docs/events.schema.json");

pub(crate) fn print() -> io::Result<()> {
    crate::terminal::print::text(EVENTS_SCHEMA)
}
