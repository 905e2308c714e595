//! The lines of a journal: one JSON object each, with a checksum people can read over.
//! A journal in a file has all of them; a database keeps the records' lines.
//!
//! ```json
//! {"bob_journal":4,"session":"chat_42"}
//! {"sum":"0f1e2d3c4b5a6978","claim":{"epoch":1,"owner":"bob (process 7)"}}
//! {"sum":"8877665544332211","record":{"format":4,"id":"…","session":"chat_42",…}}
//! ```
//!
//! The header says the newest format of any line behind it. In format 1 a claim also names a `lock`, the file its owner
//! keeps locked, and a line `"release":{"epoch":1}` gives the session back: several processes shared a folder then.
//!
//! The sum is over the bytes between the colon after the kind and the last brace, with the kind before them: the first
//! 8 bytes of their BLAKE3 hash. Every byte of a line is thereby checked, since the others are fixed.
//!
//! A line that begins a write has a `+` before its kind in what is summed up, unless it
//! claims: whatever stands before such a line was on the disk when it was written. So
//! what a crash left of the last write is distinguished from damage to an earlier one.

use bob_messages::ids::SessionId;
use bob_messages::store::{BadRecord, Formats, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How deep a record may nest: the reader of JSON gives up at 128.
const MAX_DEPTH: usize = 120;

const START: &[u8] = b"{\"sum\":\"";

/// How many bytes a sum has.
const SUM: usize = 16;

/// What stands before the kind in the sum of a line that begins a write.
const FIRST: &str = "+";

/// A line behind the header.
#[derive(Debug)]
pub(super) enum Line {
    Record(Arc<Record>),
    Claim(ClaimLine),
    Release(ReleaseLine),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimLine {
    pub(super) epoch: u64,
    /// For people.
    pub(super) owner: String,
    /// The file the owner keeps locked while it lives; only in format 1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) lock: String,
    /// Of the first claim of a journal: a sum that shows whose it is ([`Own`](super::json::own)). Older programs read
    /// over it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) own: String,
}

/// The owner under this epoch lets go. Only in format 1.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ReleaseLine {
    pub(super) epoch: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadLine {
    TooNew(u32),
    Damaged(String),
}

impl BadLine {
    fn of(bad: BadRecord) -> Self {
        match bad {
            BadRecord::TooNew(found) => Self::TooNew(found),
            BadRecord::Damaged(what) => Self::Damaged(what),
        }
    }
}

#[derive(Deserialize)]
struct Header {
    bob_journal: u32,
}

#[derive(Deserialize)]
struct Whose {
    session: SessionId,
}

/// The first line of a session's journal of this format, without its end.
pub(super) fn header(format: u32, session: &SessionId) -> Vec<u8> {
    // An id consists of characters that JSON does not escape.
    format!("{{\"bob_journal\":{format},\"session\":\"{session}\"}}").into_bytes()
}

/// Checks a first line, which must be to the byte what a program of one of the formats writes. Answers its format.
pub(super) fn check_header(line: &[u8], session: &SessionId, formats: &Formats) -> Result<u32, BadLine> {
    if let Some(format) = formats.all().rev().find(|&format| line == header(format, session)) {
        return Ok(format);
    }
    if let Ok(Header { bob_journal: newer }) = serde_json::from_slice(line)
        && newer > formats.newest()
    {
        return Err(BadLine::TooNew(newer));
    }
    Err(BadLine::Damaged(match serde_json::from_slice(line) {
        Ok(Whose { session: other }) if other != *session => format!("it says that it is the journal of {other}"),
        Ok(_) | Err(_) => "it does not start as a journal".to_owned(),
    }))
}

/// Writes a record's line. Errors: a record that could not be read back is not written; the text says why.
pub(super) fn write_record(into: &mut Vec<u8>, record: &Record) -> Result<(), String> {
    let body = serde_json::to_vec(record).map_err(|error| format!("record {} is no JSON: {error}", record.id))?;
    if depth(&body) > MAX_DEPTH {
        return Err(format!("record {} nests deeper than {MAX_DEPTH} levels and could not be read back", record.id));
    }
    write(into, "record", &body);
    Ok(())
}

/// Notes that the line in this buffer, which is its only one, is the first of a write, and that
/// everything before it is durable.
pub(super) fn begin_write(line: &mut Vec<u8>) {
    let found = line.strip_suffix(b"\n").and_then(split);
    if let Some(sum) = found.map(|(_, kind, body)| sum(FIRST, kind, body)) {
        line.splice(START.len()..START.len() + SUM, sum.bytes());
    }
}

pub(super) fn write_claim(into: &mut Vec<u8>, claim: &ClaimLine) {
    // Strings and a number always are JSON.
    write(into, "claim", &serde_json::to_vec(claim).unwrap_or_default());
}

fn write(into: &mut Vec<u8>, kind: &str, body: &[u8]) {
    into.extend_from_slice(START);
    into.extend_from_slice(sum("", kind, body).as_bytes());
    into.extend_from_slice(b"\",\"");
    into.extend_from_slice(kind.as_bytes());
    into.extend_from_slice(b"\":");
    into.extend_from_slice(body);
    into.extend_from_slice(b"}\n");
}

/// Whether a line, without its end, is whole and the first of a write.
pub(super) fn begins_write(line: &[u8]) -> bool {
    split(line).is_some_and(|(found, kind, body)| sum(FIRST, kind, body).as_bytes() == found)
}

/// Reads a line without its end, of any of these formats.
pub(super) fn parse(line: &[u8], formats: &Formats) -> Result<Line, BadLine> {
    let (_, kind, body) = checked(line)?;
    let foreign = |error: serde_json::Error| BadLine::Damaged(format!("it is no {kind} of this program: {error}"));
    match kind {
        "record" => Ok(Line::Record(Arc::new(formats.read(body).map_err(BadLine::of)?))),
        "claim" => Ok(Line::Claim(serde_json::from_slice(body).map_err(foreign)?)),
        "release" => Ok(Line::Release(serde_json::from_slice(body).map_err(foreign)?)),
        other => Err(BadLine::Damaged(format!("{other:?} is no kind of line"))),
    }
}

/// What kind of line it says it is; nothing of it is checked.
pub(super) fn kind(line: &[u8]) -> Option<&str> {
    split(line).map(|(_, kind, _)| kind)
}

/// A line of an older format, with its end, as it is written today; `None` where it stands as
/// it is. The first line of a write stays one.
pub(super) fn brought_up(line: &[u8], formats: &Formats) -> Result<Option<Vec<u8>>, BadLine> {
    let (mark, kind, body) = checked(line)?;
    if kind != "record" {
        return Ok(None);
    }
    let Some(body) = formats.brought_up(body).map_err(BadLine::of)? else { return Ok(None) };
    let mut changed = Vec::new();
    write(&mut changed, kind, &body);
    if mark == FIRST {
        begin_write(&mut changed);
    }
    Ok(Some(changed))
}

/// A claim with its end, changed; `None` where the line is none.
pub(super) fn changed_claim<E>(
    line: &[u8],
    formats: &Formats,
    change: impl FnOnce(ClaimLine) -> Result<ClaimLine, E>,
) -> Result<Option<Vec<u8>>, E> {
    let Ok(Line::Claim(claim)) = parse(line, formats) else { return Ok(None) };
    let mut changed = Vec::new();
    write_claim(&mut changed, &change(claim)?);
    Ok(Some(changed))
}

/// The mark, kind and body of a line whose sum is right.
fn checked(line: &[u8]) -> Result<(&'static str, &str, &[u8]), BadLine> {
    let damaged = |what: &str| BadLine::Damaged(what.to_owned());
    let (found, kind, body) = split(line).ok_or_else(|| damaged("it is no line of a journal"))?;
    let mark = ["", FIRST].into_iter().find(|mark| sum(mark, kind, body).as_bytes() == found);
    mark.map(|mark| (mark, kind, body)).ok_or_else(|| damaged("its checksum does not match"))
}

/// Sum, kind and body of a line that has the form of one.
fn split(line: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let rest = line.strip_prefix(START)?.strip_suffix(b"}")?;
    let (found, rest) = rest.split_at_checked(SUM)?;
    let rest = rest.strip_prefix(b"\",\"")?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    let (kind, rest) = rest.split_at_checked(end)?;
    Some((found, std::str::from_utf8(kind).ok()?, rest.strip_prefix(b"\":")?))
}

fn sum(mark: &str, kind: &str, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(mark.as_bytes());
    hasher.update(kind.as_bytes());
    hasher.update(b":");
    hasher.update(body);
    hasher.finalize().to_hex().as_str().chars().take(SUM).collect()
}

fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a stack as small as any thread of ours has.
    fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test);
        thread.expect("a thread").join().expect("nothing overflows and nothing panics");
    }

    #[test]
    fn b5_a_line_that_nests_too_deeply_is_damaged_and_nothing_overflows() {
        on_a_small_stack(|| {
            let refused = |kind: &str, body: &str| {
                assert!(depth(body.as_bytes()) > MAX_DEPTH);
                let mut line = Vec::new();
                write(&mut line, kind, body.as_bytes());
                assert!(matches!(parse(&line[..line.len() - 1], &Formats::KNOWN), Err(BadLine::Damaged(_))), "{kind}");
            };
            for levels in [121, 128, 129, 100_000] {
                for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[", "")] {
                    let body = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                    ["record", "claim", "release", "other"].into_iter().for_each(|kind| refused(kind, &body));
                }
            }
            refused("record", &"[".repeat(10_000_000));
        });
    }

    #[test]
    fn b6_a_line_that_is_no_utf_8_is_damaged() {
        for body in [&b"\"caf\xe9\""[..], b"\xff", b"{\"a\":\"\xed\xa0\x80\"}"] {
            let mut line = Vec::new();
            write(&mut line, "record", body);
            assert!(matches!(parse(&line[..line.len() - 1], &Formats::KNOWN), Err(BadLine::Damaged(_))), "{body:?}");
        }
        assert_eq!(
            parse(b"{\"sum\":\"0123456789abcdef\",\"rec\xff\":1}", &Formats::KNOWN).unwrap_err(),
            BadLine::Damaged("it is no line of a journal".to_owned())
        );
    }
}
