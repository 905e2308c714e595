//! Trace ids, derived from known data.
//!
//! The trace comes from the caller's `traceparent` or from the turn's id (a UUID has 128 bits); each span comes from
//! its parent and its name. Turn, step and call therefore determine the ids, on both sides of a crash. Format: W3C
//! Trace Context.

use crate::ids::{Tail, TurnId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const TRACE_DIGITS: usize = 32;

/// The longest `tracestate` that is handed on; W3C asks for 512 at least.
const STATE_BYTES: usize = 1_024;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The flag of a trace id whose last 56 bits are random.
const RANDOM: u8 = 2;

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
    if let Some(digits) = digits_of(turn.as_str()) {
        return text(&digits).to_owned();
    }
    let bytes = turn.as_str().as_bytes();
    format!("{:016x}{:016x}", fnv64(bytes) | 1, fnv64(&[bytes, b"/"].concat()))
}

/// The digits of a UUID.
fn digits_of(id: &str) -> Option<[u8; TRACE_DIGITS]> {
    let (mut digits, mut at) = ([0; TRACE_DIGITS], 0);
    for byte in id.bytes().filter(|byte| *byte != b'-') {
        let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        *digits.get_mut(at).filter(|_| is_digit)? = byte;
        at += 1;
    }
    (at == TRACE_DIGITS && digits.iter().any(|digit| *digit != b'0')).then_some(digits)
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

/// The flags that the spans below a caller's header have: those of the header that are known, and "sampled" without one.
pub fn flags(traceparent: Option<&str>) -> Flags {
    let given = traceparent.filter(|header| parse(header).is_some()).and_then(|header| {
        let flags = header.split('-').nth(3)?;
        u8::from_str_radix(flags.get(..2)?, 16).ok()
    });
    Flags(given.map_or(SAMPLED, |flags| flags & (SAMPLED | RANDOM)))
}

/// The flags of a `traceparent`; by default "sampled".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags(u8);

impl Default for Flags {
    fn default() -> Self {
        Self(SAMPLED)
    }
}

impl Flags {
    /// Whether the caller records the trace.
    pub fn is_sampled(self) -> bool {
        self.0 & SAMPLED == SAMPLED
    }

    /// The flags as a number.
    pub fn bits(self) -> u32 {
        u32::from(self.0)
    }

    fn text(self) -> &'static str {
        ["00", "01", "02", "03"][usize::from(self.0 & (SAMPLED | RANDOM))]
    }
}

/// The header that carries a trace and a span on.
pub fn traceparent(trace: &str, span: &str, flags: Flags) -> String {
    ["00-", trace, "-", span, "-", flags.text()].concat()
}

/// The header that carries a trace and the span of a turn's step on. It is made for each step, so it is written without
/// pieces of its own.
pub fn step_traceparent(trace: &str, turn: &TurnId, step: u32, flags: Flags) -> Arc<str> {
    let span = step_digits(turn, step);
    if trace.len() != TRACE_DIGITS {
        return traceparent(trace, text(&span), flags).into();
    }
    let mut header = *b"00-00000000000000000000000000000000-0000000000000000-00";
    header[3..3 + TRACE_DIGITS].copy_from_slice(trace.as_bytes());
    header[4 + TRACE_DIGITS..20 + TRACE_DIGITS].copy_from_slice(&span);
    header[21 + TRACE_DIGITS..].copy_from_slice(flags.text().as_bytes());
    text(&header).into()
}

/// What a caller's `tracestate` hands on: nothing without a well-formed `traceparent`, and nothing that is too long for
/// it or could not stand in a header.
pub fn state<'a>(traceparent: Option<&str>, tracestate: Option<&'a str>) -> Option<&'a str> {
    traceparent.and_then(parse)?;
    tracestate.map(str::trim).filter(|state| {
        (1..=STATE_BYTES).contains(&state.len()) && state.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    })
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
    fn the_callers_flags_are_carried_on_as_far_as_they_are_known() {
        let of = |flags: &str| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let carried =
            [("00", "00"), ("01", "01"), ("02", "02"), ("03", "03"), ("ff", "03"), ("fc", "00"), ("zz", "01")];
        for (given, expected) in carried {
            assert_eq!(flags(Some(&of(given))).text(), expected, "{given}");
        }
        assert_eq!((flags(None).text(), flags(Some("no header")).text()), ("01", "01"));
        // A later version may have more behind the flags.
        assert!(!flags(Some(&of("00-more").replace("00-4b", "01-4b"))).is_sampled());
    }

    #[test]
    fn a_tracestate_goes_with_a_header_and_is_one_itself() {
        let header = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        assert_eq!(state(header, Some(" a=1,b@c=2 ")), Some("a=1,b@c=2"));
        assert_eq!(state(header, Some(&"x".repeat(STATE_BYTES + 1))), None);
        for (header, given) in [(header, "a=1\r\nx: y"), (header, ""), (Some("00-1"), "a=1"), (None, "a=1")] {
            assert_eq!(state(header, Some(given)), None, "{given:?}");
        }
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
            for flags in [flags(None), flags(Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"))] {
                let header = step_traceparent(&trace, &turn, 3, flags);
                assert_eq!(*header, *traceparent(&trace, &step_span(&turn, 3), flags));
            }
        }
    }
}
