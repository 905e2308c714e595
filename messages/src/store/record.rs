//! One record of a journal, and how it is written: flat, with kind and body apart.

use super::Fact;
use crate::Millis;
use crate::chat::ContentPart;
use crate::ids::{RecordId, SessionId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One fact of a session's journal.
#[doc(alias = "TurnCheckpoint")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WireRecord", into = "WireRecord")]
pub struct Record {
    /// The format it was written in.
    pub format: u32,
    /// Made once, kept over retries: storing it twice stores it once.
    pub id: RecordId,
    /// Whose fact.
    pub session: SessionId,
    /// The session's version with this record, from 1.
    pub version: u64,
    /// Under which owner it was written.
    pub epoch: u64,
    /// Of which turn, if of one.
    pub turn: Option<TurnId>,
    /// When it was made.
    pub at: Millis,
    /// The fact itself.
    pub fact: Fact,
}

/// The record as it is written: flat, with kind and body apart.
#[derive(Serialize, Deserialize)]
struct WireRecord {
    format: u32,
    id: RecordId,
    session: SessionId,
    version: u64,
    epoch: u64,
    turn: Option<TurnId>,
    at: Millis,
    kind: String,
    body: Value,
}

impl From<Record> for WireRecord {
    fn from(record: Record) -> Self {
        let mut fact = serde_json::to_value(&record.fact).unwrap_or_default();
        let kind = fact.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            format: record.format,
            id: record.id,
            session: record.session,
            version: record.version,
            epoch: record.epoch,
            turn: record.turn,
            at: record.at,
            kind,
            body: fact.get_mut("body").map(Value::take).unwrap_or_default(),
        }
    }
}

impl Record {
    /// How many bytes of text it carries, about: enough to tell a large one.
    pub fn bytes(&self) -> usize {
        let parts = |parts: &[ContentPart]| parts.iter().map(ContentPart::bytes).sum::<usize>();
        match &self.fact {
            Fact::Input(input) => parts(&input.parts),
            Fact::Steered { parts: said, .. } => parts(said),
            Fact::Answered(answered) => {
                let thought = answered.reasoning.as_ref().map_or(0, |reasoning| reasoning.text.len());
                answered.text.len() + thought + answered.calls.iter().map(|call| call.argument_bytes).sum::<usize>()
            }
            Fact::Malformed { text, .. } => text.len(),
            Fact::Result(result) => result.output.bytes(),
            Fact::Resumed { reply, .. } => reply.len(),
            Fact::Outcome(ended) => ended.content.len(),
            Fact::Condensed(condensed) => condensed.summary.as_ref().map_or(0, |summary| summary.len()),
            Fact::Snapshot(snapshot) => snapshot.session.len(),
            Fact::Options(_)
            | Fact::Started { .. }
            | Fact::Intent { .. }
            | Fact::ApprovalAsked { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::LimitAsked { .. }
            | Fact::LimitDecided { .. }
            | Fact::Withdrawn
            | Fact::Configured { .. }
            | Fact::SkillsSelected(_)
            | Fact::SkillsReselected(_)
            | Fact::Waits { .. } => 0,
        }
    }
}

impl TryFrom<WireRecord> for Record {
    type Error = serde_json::Error;

    fn try_from(wire: WireRecord) -> Result<Self, Self::Error> {
        let fact = serde_json::from_value(serde_json::json!({ "kind": wire.kind, "body": wire.body }))?;
        Ok(Self {
            format: wire.format,
            id: wire.id,
            session: wire.session,
            version: wire.version,
            epoch: wire.epoch,
            turn: wire.turn,
            at: wire.at,
            fact,
        })
    }
}
