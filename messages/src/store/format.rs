//! The formats of records: what this program writes, reads and refuses.
//!
//! A record says its format. One of an older format is read by the steps from its format to
//! today's; one of a newer format, and a fact of a kind that is not known here, is refused as
//! [`TooNew`](BadRecord::TooNew) and is no damage. Unknown fields are ignored.
//!
//! The format rises by one when a program that knows only the last one would misread a
//! journal: with a new kind of fact, a new value where a list of values is closed, or a field
//! whose meaning changed. A new field that has a default needs no new format.
//!
//! | format | what is new |
//! |---|---|
//! | 1 | the first |
//! | 2 | may contain snapshots; a program that knows only 1 refuses it. Format 1 stands in it as it is |
//!
//! To raise it: add a [`Step`] to [`Formats::KNOWN`] and, where the step changes records, its
//! function and a step in `actors/src/store/sqlite/steps.rs`; write the row above; keep the
//! journals of the format that was (`tests/fixtures/journals`).

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;

use super::{Fact, Record};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::Value;
use std::fmt;

/// The format of the records this program writes.
pub const FORMAT: u32 = Formats::KNOWN.newest();

/// How a record of one format becomes one of the next.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The next format can say more; what is written in the older one stands as it is.
    Adds,
    /// Changes the record, given as a JSON object, or says why that cannot be done. The
    /// record's `format` is set afterwards.
    Changes(fn(&mut Value) -> Result<(), String>),
}

/// The formats a program reads: an oldest one, and the steps from each to the next.
#[derive(Debug, Clone, Copy)]
pub struct Formats {
    oldest: u32,
    steps: &'static [Step],
}

/// Why a text is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadRecord {
    /// It is of this format, which is newer, or of a kind that only a program of this format
    /// or a later one can know.
    TooNew(u32),
    /// What is wrong with it.
    Damaged(String),
}

impl Formats {
    /// What this program reads.
    pub const KNOWN: Self = Self::new(1, &[Step::Adds]);

    /// Formats from this one on. Programs use [`KNOWN`](Self::KNOWN); a test may know others.
    pub const fn new(oldest: u32, steps: &'static [Step]) -> Self {
        Self { oldest, steps }
    }

    /// The format that is written.
    pub const fn newest(&self) -> u32 {
        self.oldest + self.steps.len() as u32
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> std::ops::RangeInclusive<u32> {
        self.oldest..=self.newest()
    }

    /// The steps from a format to the newest, each with the format it leads to.
    fn steps_from(&self, format: u32) -> impl Iterator<Item = (u32, &'static Step)> {
        let have = format.saturating_sub(self.oldest) as usize;
        (self.oldest + 1..).zip(self.steps).skip(have)
    }

    /// Reads a record of any of the formats.
    ///
    /// # Errors
    /// `TooNew` for one of a newer format and for a kind of fact that is not known here;
    /// `Damaged` for anything else that is no record.
    pub fn read(&self, json: &[u8]) -> Result<Record, BadRecord> {
        // Nearly all records need no step and are read at once.
        let read = serde_json::from_slice::<Record>(json);
        match read {
            Ok(record) if record.format > self.newest() => Err(BadRecord::TooNew(record.format)),
            Ok(record) if self.all().contains(&record.format) && !self.changes(record.format) => Ok(record),
            Ok(_) | Err(_) => self.read_by_steps(json, read.err()),
        }
    }

    /// A record's JSON as a program that knows only the newest format reads it; `None` where it stands as it is.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn brought_up(&self, json: &[u8]) -> Result<Option<Vec<u8>>, BadRecord> {
        let Head { format, .. } = self.head(json)?;
        if !self.changes(format) {
            return Ok(None);
        }
        let record = serde_json::to_vec(&self.read(json)?);
        record.map(Some).map_err(|error| BadRecord::Damaged(error.to_string()))
    }

    /// Whether a record of any of the formats is changed on its way to the newest.
    pub fn rewrites(&self) -> bool {
        self.changes(self.oldest)
    }

    fn changes(&self, format: u32) -> bool {
        self.steps_from(format).any(|(_, step)| matches!(step, Step::Changes(_)))
    }

    fn head(&self, json: &[u8]) -> Result<Head, BadRecord> {
        let head: Head = serde_json::from_slice(json).map_err(|error| no_record(&error))?;
        match head.format {
            newer if newer > self.newest() => Err(BadRecord::TooNew(newer)),
            known if self.all().contains(&known) => Ok(head),
            older => Err(BadRecord::Damaged(format!("it has format {older}, which there never was"))),
        }
    }

    fn read_by_steps(&self, json: &[u8], error: Option<serde_json::Error>) -> Result<Record, BadRecord> {
        let Head { format, .. } = self.head(json)?;
        let failed = match error {
            Some(error) if !self.changes(format) => error,
            Some(_) | None => match self.steps_taken(json, format)? {
                Ok(record) => return Ok(record),
                Err(error) => error,
            },
        };
        let kind = serde_json::from_slice::<Kind>(json).ok().map(|Kind { kind }| kind);
        match kind {
            Some(kind) if !Fact::kinds().contains(&kind.as_str()) => Err(BadRecord::TooNew(self.newest() + 1)),
            Some(_) | None => Err(no_record(&failed)),
        }
    }

    fn steps_taken(&self, json: &[u8], format: u32) -> Result<Result<Record, serde_json::Error>, BadRecord> {
        let mut record: Value = serde_json::from_slice(json).map_err(|error| no_record(&error))?;
        for (leads_to, step) in self.steps_from(format) {
            if let Step::Changes(change) = step {
                change(&mut record).map_err(BadRecord::Damaged)?;
                record["format"] = leads_to.into();
            }
        }
        Ok(serde_json::from_value(record))
    }
}

#[derive(Deserialize)]
struct Head {
    format: u32,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

fn no_record(error: &serde_json::Error) -> BadRecord {
    BadRecord::Damaged(format!("it is no record: {error}"))
}

impl Fact {
    /// The kinds of facts this program knows, as they are written.
    pub fn kinds() -> &'static [&'static str] {
        // Whoever derives the reading of a fact knows them; it says so when it is asked for another one.
        let other = MapDeserializer::new(std::iter::once(("kind", "")));
        match Self::deserialize(other) {
            Err(Asked::Kinds(kinds)) => kinds,
            Err(Asked::Other) | Ok(_) => &[],
        }
    }
}

/// What is said of a fact whose kind is not known.
#[derive(Debug)]
enum Asked {
    Kinds(&'static [&'static str]),
    Other,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is no fact")
    }
}

impl std::error::Error for Asked {}

impl serde::de::Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }

    fn unknown_variant(_: &str, kinds: &'static [&'static str]) -> Self {
        Self::Kinds(kinds)
    }
}
