//! The formats of records.
//!
//! A record has a format. One of an older format is converted step by step to the current one; one of a newer format,
//! and an unknown kind of fact, is refused as [`TooNew`](BadRecord::TooNew), not as damaged. Unknown fields are
//! ignored.
//!
//! The format is raised by one if a program that knows only the previous one would misread a journal: for a new kind
//! of fact, a new value of a closed enumeration, or a field whose meaning changed. A new field with a default needs
//! no new format.
//!
//! | format | change |
//! |---|---|
//! | 1 | initial |
//! | 2 | may contain snapshots; refused by programs that know only 1. Records of format 1 are unchanged |
//! | 3 | a part may be an artifact. Records of format 2 are unchanged |
//! | 4 | skills may be selected again in a turn, and a call may wait for a sub-agent (`child`). Records of format 3 are unchanged |
//!
//! To raise it: add a [`Step`] to [`Formats::KNOWN`] and, if the step changes records, its function and a step in
//! `actors/src/store/sqlite/steps.rs`; add a row above; keep the journals of the previous format
//! (`tests/fixtures/journals`), and make those of the new one (`actors/src/store/fixtures_tests.rs`).

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
    /// The next format is a superset; older records are valid in it.
    Adds,
    /// Converts the record, given as a JSON object, or returns why that is impossible. The record's `format` is set
    /// afterwards.
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
    /// It is of this format, which is newer, or of a kind that only a program of this format or a later one can know.
    TooNew(u32),
    /// The error.
    Damaged(String),
}

impl Formats {
    /// The formats of this version.
    pub const KNOWN: Self = Self::new(1, &[Step::Adds, Step::Adds, Step::Adds]);

    /// Formats from `oldest` on. Programs use [`KNOWN`](Self::KNOWN); tests may use others.
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

    /// Reads a record of any supported format.
    ///
    /// # Errors
    /// `TooNew` for a newer format or an unknown kind of fact; `Damaged` for anything else that is not a record.
    pub fn read(&self, json: &[u8]) -> Result<Record, BadRecord> {
        // Nearly all records need no step and are read at once.
        let read = serde_json::from_slice::<Record>(json);
        match read {
            Ok(record) if record.format > self.newest() => Err(BadRecord::TooNew(record.format)),
            Ok(record) if self.all().contains(&record.format) && !self.changes(record.format) => Ok(record),
            Ok(_) | Err(_) => self.read_by_steps(json, read.err()),
        }
    }

    /// Converts a record's JSON to the newest format; `None` if it is unchanged.
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
    /// The kinds of facts of this version, as serialised.
    pub fn kinds() -> &'static [&'static str] {
        // The derived deserialiser lists them in the error for an unknown variant.
        let other = MapDeserializer::new(std::iter::once(("kind", "")));
        match Self::deserialize(other) {
            Err(Asked::Kinds(kinds)) => kinds,
            Err(Asked::Other) | Ok(_) => &[],
        }
    }
}

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
