//! Text of records, shorter: what was said before is a reference to it.
//!
//! Records repeat their keys, and the steps of a turn each other. A reference is a length and a distance back, over the
//! text so far and a [`SAMPLE`] before it. JSON text has no control characters, so they are free to begin a reference;
//! all other bytes stand for themselves.

use std::fmt;

/// The shortest text that is worth a reference, which takes three bytes.
const SHORTEST: usize = 4;

/// The lengths that fit in the first byte of a reference; with the last of them a further byte is added.
const LENGTHS: u8 = 0x20;

/// How many places are remembered, each by the hash of the four bytes that stand there.
const PLACES: usize = 1 << 12;

/// What nearly every journal says. Only the size of what is kept depends on it.
const SAMPLE: &str = concat!(
    r#"{"kind":"malformed","body":{"kind":"intent","body":{"call":"traits":{"read_only":false,"idempotent":false}}}],"#,
    r#"["1-1",1,"-",{"kind":"options","body":{"cwd":null,"roots":[],"model":null,"instructions":null,"agent":null,"#,
    r#""allow_tools":null,"approve":null,"servers":[],"parent":null}}],["1-2",1,{"+":"{"kind":"input","body":{"turn":""#,
    r#"","request_id":"","at":"parts":[{"type":"text","text":""}],"labels":{},"model":null,"allow_tools":null,"#,
    r#""approve":null,"approvals":"wait","approvals":"deny","limits":{"max_steps":12,"max_tool_calls":8,"#,
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

/// The bytes are not what [`shortened`] made of a text.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its text cannot be read")
    }
}

/// The places where four bytes were seen last, in the sample and the text behind it.
struct Seen(Vec<u32>);

impl Seen {
    /// Notes that four bytes stand here; where they, or others of their hash, stood before.
    fn note(&mut self, four: &[u8], at: usize) -> Option<usize> {
        let number = four.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let hash = number.wrapping_mul(0x9e37_79b1) >> 20;
        let place = &mut self.0[hash as usize % PLACES];
        // One more than the place, so that zero is none.
        let before = std::mem::replace(place, u32::try_from(at + 1).unwrap_or(0));
        before.checked_sub(1).map(|at| at as usize)
    }
}

/// The text with references; `None` of one with control characters, which no JSON is.
pub(super) fn shortened(text: &str) -> Option<Box<[u8]>> {
    if text.bytes().any(|byte| byte < LENGTHS) {
        return None;
    }
    let whole = [SAMPLE.as_bytes(), text.as_bytes()].concat();
    let mut seen = Seen(vec![0; PLACES]);
    for (at, four) in SAMPLE.as_bytes().windows(SHORTEST).enumerate() {
        seen.note(four, at);
    }
    let (mut short, mut at) = (Vec::with_capacity(text.len() / 2), SAMPLE.len());
    while at < whole.len() {
        let before = whole.get(at..at + SHORTEST).and_then(|four| seen.note(four, at));
        let found = before.and_then(|before| Some((u16::try_from(at - before).ok()?, alike(&whole, before, at))));
        match found.filter(|(_, length)| *length >= SHORTEST) {
            Some((distance, length)) => {
                let more = length - SHORTEST;
                match u8::try_from(more).ok().filter(|more| *more < LENGTHS - 1) {
                    Some(more) => short.push(more),
                    None => short.extend([LENGTHS - 1, (more - usize::from(LENGTHS - 1)) as u8]),
                }
                short.extend(distance.to_be_bytes());
                for inside in at + 1..at + length {
                    if let Some(four) = whole.get(inside..inside + SHORTEST) {
                        seen.note(four, inside);
                    }
                }
                at += length;
            }
            None => {
                short.push(whole[at]);
                at += 1;
            }
        }
    }
    Some(short.into_boxed_slice())
}

/// How far the text at two places is alike, as far as a reference can say.
fn alike(whole: &[u8], before: usize, at: usize) -> usize {
    let most = SHORTEST + usize::from(LENGTHS - 1) + usize::from(u8::MAX);
    whole[before..].iter().zip(&whole[at..]).take(most).take_while(|(one, other)| one == other).count()
}

/// The text again.
///
/// # Errors
/// [`Broken`] for anything else than what [`shortened`] made.
pub(super) fn whole(short: &[u8]) -> Result<String, Broken> {
    let mut whole = SAMPLE.as_bytes().to_vec();
    let mut bytes = short.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte >= LENGTHS {
            whole.push(byte);
            continue;
        }
        let mut next = || bytes.next().map(usize::from).ok_or(Broken);
        let more = if byte == LENGTHS - 1 { next()? } else { 0 };
        let distance = next()? << 8 | next()?;
        let from = whole.len().checked_sub(distance).filter(|from| *from < whole.len()).ok_or(Broken)?;
        for at in from..from + SHORTEST + usize::from(byte) + more {
            whole.push(whole[at]);
        }
    }
    String::from_utf8(whole.split_off(SAMPLE.len())).map_err(|_cut| Broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_repeats_itself_becomes_shorter() {
        let step = r#"["1-4",1,"=",1795412093608,{"kind":"result","body":{"call":"c1","name":"local/echo"}}]"#;
        let text = step.repeat(20);
        let short = shortened(&text).expect("it is JSON");
        assert!(short.len() < text.len() / 10, "{} of {}", short.len(), text.len());
        assert_eq!(whole(&short).expect("it reads"), text);
    }

    #[test]
    fn a_text_with_control_characters_is_refused() {
        assert!(shortened("a\nb").is_none());
    }

    #[test]
    fn a_reference_to_what_is_not_there_is_broken() {
        for short in [&[0][..], &[0, 0], &[0, 0, 0], &[31, 1, 0], &[0, 0xff, 0xff], &[0xff]] {
            assert!(whole(short).is_err(), "{short:?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_reads_back(words in prop::collection::vec("[a-c]{0,9}|\\PC{0,5}|\"kind\":\"result\",", 0..200)) {
            let text = words.concat();
            if let Some(short) = shortened(&text) {
                prop_assert_eq!(whole(&short).expect("it reads"), text);
            } else {
                prop_assert!(text.bytes().any(|byte| byte < LENGTHS));
            }
        }

        #[test]
        fn no_bytes_are_read_as_text_by_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _text_or_error = whole(&bytes);
        }
    }
}
