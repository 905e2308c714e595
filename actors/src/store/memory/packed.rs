//! The records of a session that rests, in a tenth of the room.
//!
//! One short text for all of them instead of a dozen small pieces each. It is written when an
//! owner lets the session go and read when the next one comes; it never leaves the
//! process, so its form is nobody's contract.

use super::short;
use bob_messages::Millis;
use bob_messages::ids::{RecordId, SessionId, TurnId};
use bob_messages::store::{FORMAT, Fact, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Some records of one session, one behind the other.
#[derive(Debug)]
pub(super) struct Packed {
    /// The version of the first.
    first: u64,
    /// Their text, with references to what repeats.
    short: Box<[u8]>,
}

/// What of a record does not follow from its place.
type Line<R, F> = (R, u64, Of, Millis, F);

/// Whose record it is; mostly the same turn's as the one before.
#[derive(Serialize, Deserialize)]
enum Of {
    #[serde(rename = "=")]
    TheSame,
    #[serde(rename = "-")]
    NoTurn,
    #[serde(rename = "+")]
    Turn(TurnId),
}

impl Packed {
    /// `None` when there is something in them that does not read back from its place.
    pub(super) fn pack(records: &[Arc<Record>]) -> Option<Self> {
        let first = records.first().map_or(1, |first| first.version);
        let mut before: Option<&TurnId> = None;
        let mut lines: Vec<Line<&RecordId, &Fact>> = Vec::with_capacity(records.len());
        for (version, record) in (first..).zip(records) {
            if record.format != FORMAT || record.version != version {
                return None;
            }
            let of = match &record.turn {
                same if same.as_ref() == before => Of::TheSame,
                None => Of::NoTurn,
                Some(turn) => Of::Turn(turn.clone()),
            };
            before = record.turn.as_ref();
            lines.push((&record.id, record.epoch, of, record.at, &record.fact));
        }
        let short = short::shortened(&serde_json::to_string(&lines).ok()?)?;
        Some(Self { first, short })
    }

    /// The records as they were.
    ///
    /// # Errors
    /// What does not read; a journal that was packed does.
    pub(super) fn unpack(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, String> {
        let text = short::whole(&self.short).map_err(|broken| broken.to_string())?;
        let lines: Vec<Line<RecordId, Fact>> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let mut turn: Option<TurnId> = None;
        let record = |(version, (id, epoch, of, at, fact)): (u64, Line<RecordId, Fact>)| {
            match of {
                Of::TheSame => {}
                Of::NoTurn => turn = None,
                Of::Turn(other) => turn = Some(other),
            }
            let (session, turn) = (session.clone(), turn.clone());
            Arc::new(Record { format: FORMAT, id, session, version, epoch, turn, at, fact })
        };
        Ok((self.first..).zip(lines).map(record).collect())
    }
}
