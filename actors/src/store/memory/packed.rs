//! The records of a session that rests, in a fraction of the room.
//!
//! One short text for all of them instead of a dozen small pieces each. It is written when an owner lets the session go
//! and read when the next one comes; it never leaves the process, so its form may change at any time.

use bob_messages::Millis;
use bob_messages::ids::{RecordId, SessionId, TurnId};
use bob_messages::store::{FORMAT, Fact, Record};
use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What nearly every journal says. Only the size of what is kept depends on it.
const SAMPLE: &str = concat!(
    r#"{"kind":"malformed","body":{"kind":"intent","body":{"call":"traits":{"read_only":false,"idempotent":false}}}],"#,
    r#"["1-1",1,"-",{"kind":"options","body":{"cwd":null,"roots":[],"model":null,"instructions":null,"agent":null,"#,
    r#""allow_tools":null,"servers":[],"parent":null}}],["1-2",1,{"+":"{"kind":"input","body":{"turn":""#,
    r#"","request_id":"","at":"parts":[{"type":"text","text":""}],"labels":{},"model":null,"allow_tools":null,"#,
    r#""approvals":"wait","approvals":"deny","limits":{"max_steps":12,"max_tool_calls":8,"#,
    r#""max_consecutive_errors":2,"max_identical_calls":3,"max_total_tokens":0,"turn_timeout_ms":90000,"#,
    r#""tool_timeout_ms":15000,"approval_timeout_ms":600000,"suspend_timeout_ms":604800000},"options":null,"#,
    r#""traceparent":null,"token":"","interactive":true,"interactive":false}}],["1-3",1,"=","#,
    r#"{"kind":"started","body":{"model":"{"kind":"answered","body":{"text":"","calls":[{"id":"c00000001","name":"local/"#,
    r#","arguments":{"","argument_bytes":"tools":[{"title":""}],"kind":"read","cost":{"usage":{"input_tokens":"#,
    r#","output_tokens":,"total_tokens":,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"#,
    r#""prompt_bytes":,"stop_reason":"tool_calls","response_id":null,"model":"","latency_ms":0}}],["#,
    r#"{"kind":"result","body":{"call":"c00000001","name":"local/","status":"ok","output":{"parts":[{"type":"text","#,
    r#""text":""}],"is_error":false},"duration_ms":0}}],["1-10",1,"=",17{"kind":"answered","body":{"text":"","calls":[],"#,
    r#""stop_reason":"stop","{"kind":"outcome","body":{"finish_reason":"final","guard_reason":null,"content":"","#,
    r#""suspended":null,"error":null,"duration_ms":}}]]"#,
);

/// Some records of one session, one behind the other.
#[derive(Debug)]
pub(super) struct Packed {
    /// The version of the first.
    first: u64,
    /// Their text, compressed with the [`SAMPLE`] as its dictionary.
    compressed: Box<[u8]>,
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
        let text = serde_json::to_vec(&lines).ok()?;
        let compressed = compress_prepend_size_with_dict(&text, SAMPLE.as_bytes()).into_boxed_slice();
        Some(Self { first, compressed })
    }

    /// The records as they were. Errors: what does not read; a journal that was packed does.
    pub(super) fn unpack(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, String> {
        let text = decompress_size_prepended_with_dict(&self.compressed, SAMPLE.as_bytes());
        let text = text.map_err(|error| error.to_string())?;
        let lines: Vec<Line<RecordId, Fact>> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
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
