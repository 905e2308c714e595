//! Trace ids, derived from known data.
//!
//! The trace comes from the caller's `traceparent` or from the turn's id (a UUID has 128 bits); each span comes from
//! its parent and its name. Turn, step and call therefore determine the ids, on both sides of a crash. Format: W3C
//! Trace Context.

use crate::ids::{Tail, TurnId};
use std::sync::Arc;

/// How many digits a trace has.
const TRACE_DIGITS: usize = 32;

/// FNV-1a, 64 bits: a small, stable, well-spread hash. Not for secrets.
pub fn fnv64(bytes: &[u8]) -> u64 {
    Fnv64::default().with(bytes).0
}

/// FNV-1a computed over bytes that come in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Fnv64(pub u64);

impl Default for Fnv64 {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv64 {
    /// The hash with one more piece.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }
}

impl std::io::Write for Fnv64 {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self = self.with(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The trace a turn belongs to: 32 hex digits.
pub fn trace_id(turn: &TurnId, traceparent: Option<&str>) -> String {
    if let Some((trace, _)) = traceparent.and_then(parse) {
        return trace.to_owned();
    }
    let mut digits = String::with_capacity(32);
    turn.as_str().split('-').for_each(|part| digits.push_str(part));
    let is_id = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_id && digits.bytes().any(|b| b != b'0') {
        return digits;
    }
    let bytes = turn.as_str().as_bytes();
    format!("{:016x}{:016x}", fnv64(bytes) | 1, fnv64(&[bytes, b"/"].concat()))
}

/// The span of a turn: 16 hex digits.
pub fn turn_span(turn: &TurnId) -> String {
    span(&[turn.as_str()])
}

/// The span of one model call.
pub fn step_span(turn: &TurnId, step: u32) -> String {
    text(&step_digits(turn, step)).to_owned()
}

/// The span of one tool call.
pub fn call_span(turn: &TurnId, call: &str) -> String {
    span(&[turn.as_str(), "/call/", call])
}

/// The header that carries a trace and a span on.
pub fn traceparent(trace: &str, span: &str) -> String {
    ["00-", trace, "-", span, "-01"].concat()
}

/// The header that carries a trace and the span of a turn's step on. It is made for each step, so it is written without
/// pieces of its own.
pub fn step_traceparent(trace: &str, turn: &TurnId, step: u32) -> Arc<str> {
    let span = step_digits(turn, step);
    if trace.len() != TRACE_DIGITS {
        return traceparent(trace, text(&span)).into();
    }
    let mut header = *b"00-00000000000000000000000000000000-0000000000000000-01";
    header[3..3 + TRACE_DIGITS].copy_from_slice(trace.as_bytes());
    header[4 + TRACE_DIGITS..20 + TRACE_DIGITS].copy_from_slice(&span);
    text(&header).into()
}

/// The header that carries the trace of a step's header and the span of one of its calls on.
pub fn call_traceparent(header: &str, turn: &TurnId, call: &str) -> String {
    match parse(header) {
        Some((trace, _step)) => traceparent(trace, &call_span(turn, call)),
        None => header.to_owned(),
    }
}

/// The span a `traceparent` names, if it is well formed.
pub fn parent_span(traceparent: &str) -> Option<&str> {
    parse(traceparent).map(|(_, span)| span)
}

fn span(parts: &[&str]) -> String {
    text(&digits(parts)).to_owned()
}

fn step_digits(turn: &TurnId, step: u32) -> [u8; 16] {
    digits(&[turn.as_str(), "/step/", Tail::of(u64::from(step)).as_str()])
}

/// A hash of these parts in hexadecimal digits, which is never zero.
fn digits(parts: &[&str]) -> [u8; 16] {
    let hash = parts.iter().fold(Fnv64::default(), |hash, part| hash.with(part.as_bytes())).0.max(1);
    std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 0xf])
}

/// What was written here, which is ASCII.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn parse(header: &str) -> Option<(&str, &str)> {
    let lower_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let real = |text: &str| lower_hex(text) && text.bytes().any(|b| b != b'0');
    let mut parts = header.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let well_formed =
        version.len() == 2 && lower_hex(version) && version != "ff" && trace.len() == 32 && span.len() == 16;
    (well_formed && real(trace) && real(span)).then_some((trace, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turns_uuid_is_its_trace() {
        let turn = TurnId::new("01890a5d-ac96-774b-bcce-b302099a8057");
        assert_eq!(trace_id(&turn, None), "01890a5dac96774bbcceb302099a8057");
    }

    #[test]
    fn the_callers_trace_is_kept() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(trace_id(&TurnId::new("t"), Some(header)), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent_span(header), Some("00f067aa0ba902b7"));
    }

    #[test]
    fn a_malformed_header_is_ignored() {
        for bad in [
            "",
            "00-xyz-1-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parent_span(bad), None, "{bad}");
            assert_eq!(trace_id(&TurnId::new("t"), Some(bad)).len(), 32);
        }
    }

    #[test]
    fn spans_differ_and_repeat() {
        let turn = TurnId::new("t");
        assert_ne!(step_span(&turn, 1), step_span(&turn, 2));
        assert_eq!(call_span(&turn, "c1"), call_span(&turn, "c1"));
        assert_eq!(turn_span(&turn).len(), 16);
        assert_eq!(step_span(&turn, 12), span(&["t", "/step/", "12"]));
    }

    #[test]
    fn a_steps_header_is_that_of_its_span() {
        let turn = TurnId::new("01890a5d-ac96-774b-bcce-b302099a8057");
        for trace in [trace_id(&turn, None), "longer than any trace".repeat(4)] {
            let header = step_traceparent(&trace, &turn, 3);
            assert_eq!(*header, *traceparent(&trace, &step_span(&turn, 3)));
        }
    }
}
