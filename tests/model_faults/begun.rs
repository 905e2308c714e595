//! Streams made from calls that are known, and then numbered, cut and mixed in every way: what is read must be what the
//! stream was made from. No rule of the adapter is repeated here, since nothing is read back from the stream.
//!
//! Where a stream no longer says which pieces belong together, it has fewer calls at most, and none of its arguments is lost or
//! there twice.

#[path = "begun/blocks.rs"]
mod blocks;
#[path = "begun/openai.rs"]
mod openai;
#[path = "begun/parts.rs"]
mod parts;

use crate::model_faults::fuzz::{KINDS, answer};
use crate::model_faults::naive::{Reading, call, of};
use bob_actors::llm::providers::ProviderKind::{Anthropic, Gemini};
use bob_messages::llm::LlmAnswer;
use serde_json::json;

/// Choices made by the bytes of an input; behind its end each is the first.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    /// A number below this one.
    fn below(&mut self, most: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % most
    }

    /// Whether what happens one time in so many happens.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A text in up to so many pieces, some of them without a letter.
    fn pieces(&mut self, text: &str, most: usize) -> Vec<String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        for _ in 1..1 + self.below(most) {
            let mut at = self.below(rest.len() + 1);
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (piece, further) = rest.split_at(at);
            pieces.push(piece.to_owned());
            rest = further;
        }
        pieces.push(rest.to_owned());
        pieces
    }
}

/// A call as the model began it.
#[derive(Debug, Clone)]
struct Call {
    name: &'static str,
    /// An object of JSON, or nothing.
    arguments: String,
}

impl Call {
    /// A call whose arguments no other one has.
    fn any(dice: &mut Dice<'_>, number: usize) -> Self {
        const TEXTS: [&str; 8] = ["", "a", "}", "{[", "\"}", "\\", "\\\"}", "é\u{1f600}"];
        let arguments = match dice.below(8) {
            0 => String::new(),
            1 => json!({ "n": number, "in": { "s": [dice.any(&TEXTS), { "t": dice.any(&TEXTS) }] } }).to_string(),
            _flat => json!({ "n": number, "s": dice.any(&TEXTS) }).to_string(),
        };
        Self { name: dice.any(&["pay", "pay", "ask", "list"]), arguments }
    }
}

/// A stream and what it was made from.
struct Made {
    stream: String,
    text: String,
    calls: Vec<Call>,
    /// Whether the stream says of each piece to which call it belongs.
    is_told_apart: bool,
}

/// Why an answer is not what the stream was made from.
fn wrong(made: &Made, answer: Option<&LlmAnswer>) -> Option<String> {
    let calls = || made.calls.iter();
    if made.is_told_apart {
        let whole = Reading {
            text: made.text.clone(),
            calls: calls().map(|begun| call(begun.name, &begun.arguments)).collect(),
        };
        let got = answer.map(of);
        return (got.as_ref() != Some(&whole)).then(|| format!("began {whole:?}\n  got {got:?}"));
    }
    let Some(answer) = answer else { return Some("refused".to_owned()) };
    let mut begun = calls();
    let is_in_order = answer.calls.iter().all(|got| begun.any(|call| call.name == got.name));
    let letters = |all: Vec<&str>| {
        let mut letters: Vec<char> = all.concat().chars().collect();
        letters.sort_unstable();
        letters
    };
    let sent = letters(calls().map(|begun| begun.arguments.as_str()).collect());
    let got = letters(answer.calls.iter().map(|got| got.arguments.as_str()).collect());
    let is_right = answer.text == made.text
        && is_in_order
        && (sent == got || are_but_for_quotes(&sent, &got, answer.calls.len()))
        && !answer.calls.is_empty();
    (!is_right).then(|| format!("began {:?}\n  got {:?}", made.calls, answer.calls))
}

/// Whether what was got lacks no more than what was quoted once too often. Where pieces came to another call, a piece that is a
/// text of JSON can be all its arguments, which then are that text without its two quotes and without what escapes in it.
fn are_but_for_quotes(sent: &[char], got: &[char], calls: usize) -> bool {
    let but = |letters: &[char]| -> Vec<char> {
        letters.iter().copied().filter(|letter| !matches!(letter, '"' | '\\')).collect()
    };
    let lost = |of: char| {
        let count = |letters: &[char]| letters.iter().filter(|letter| **letter == of).count();
        count(sent).checked_sub(count(got))
    };
    let quotes = lost('"').is_some_and(|quotes| quotes % 2 == 0 && quotes <= 2 * calls);
    but(sent) == but(got) && quotes && lost('\\').is_some()
}

#[test]
fn fuzz_calls_are_read_as_they_were_begun_however_they_are_numbered_cut_and_mixed() {
    bolero::check!(name = "begun").with_iterations(400).with_max_len(160).for_each(|input: &[u8]| {
        let mut dice = Dice(input);
        let at = dice.below(KINDS.len());
        let made = match KINDS[at].1 {
            Anthropic => blocks::stream(&mut dice),
            Gemini => parts::stream(&mut dice),
            _speaks_openai => openai::stream(&mut dice),
        };
        let wrong = wrong(&made, answer(at, &made.stream).as_ref());
        assert_eq!(wrong, None, "{}:\n{}", KINDS[at].0, made.stream);
    });
}
