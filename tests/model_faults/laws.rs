//! What holds for the answer of any stream. For OpenAI's format: laws that do not depend on the rule by which pieces of calls are
//! joined; for the others: the naive reader reads the same.

use crate::model_faults::naive::{self, index, words};
use bob_actors::llm::providers::ProviderKind;
use bob_messages::llm::LlmAnswer;
use serde_json::Value;
use std::collections::BTreeSet;

/// A piece of a call, as it was sent.
struct Piece {
    index: Option<String>,
    /// Whether it has a name or an id. Without either it begins no call.
    may_begin: bool,
    name: String,
    arguments: String,
}

impl Piece {
    fn of(said: &Value) -> Self {
        let name = words(said.pointer("/function/name"));
        let arguments = match said.pointer("/function/arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let may_begin = !name.is_empty() || !words(said.get("id")).is_empty();
        Self { index: index(said.get("index")), may_begin, name, arguments }
    }
}

/// Why this cannot be the answer that the stream is.
pub(crate) fn wrong(kind: ProviderKind, stream: &str, answer: Option<&LlmAnswer>) -> Option<String> {
    if !matches!(kind, ProviderKind::Anthropic | ProviderKind::Gemini) {
        return broken(stream, answer);
    }
    let (reading, got) = (naive::read(kind, stream), answer.map(naive::of));
    (got != reading).then(|| format!("got {got:?}\n  naive {reading:?}"))
}

/// The law that this answer breaks, if it breaks one.
fn broken(stream: &str, answer: Option<&LlmAnswer>) -> Option<String> {
    let said = naive::openai(stream).map(|(text, pieces)| (text, pieces.iter().map(Piece::of).collect::<Vec<_>>()));
    let law = match (said, answer) {
        (None, None) => return None,
        (None, Some(_)) => "a stream that is none is no answer",
        (Some((text, pieces)), None) => {
            let says_nothing = text.trim().is_empty() && !pieces.iter().any(|piece| piece.may_begin);
            let is_lost = |piece: &Piece| !piece.may_begin && !piece.arguments.trim().is_empty();
            if says_nothing || pieces.iter().any(is_lost) {
                return None;
            }
            "an answer of which each argument has a call is taken"
        }
        (Some((text, pieces)), Some(answer)) => of_calls(&text, &pieces, answer)?,
    };
    Some(format!("{law}: got {:?}", answer.map(naive::of)))
}

fn of_calls(text: &str, pieces: &[Piece], answer: &LlmAnswer) -> Option<&'static str> {
    let calls = &answer.calls;
    let names: BTreeSet<&str> =
        pieces.iter().map(|piece| piece.name.as_str()).filter(|name| !name.is_empty()).collect();
    let numbers: BTreeSet<&String> =
        pieces.iter().filter(|piece| !piece.name.is_empty()).filter_map(|piece| piece.index.as_ref()).collect();
    let letters = |all: &mut dyn Iterator<Item = &str>| {
        let mut letters: Vec<char> = all.flat_map(str::chars).filter(|letter| !letter.is_whitespace()).collect();
        letters.sort_unstable();
        letters
    };
    let sent = letters(&mut pieces.iter().map(|piece| piece.arguments.as_str()));
    let got = letters(&mut calls.iter().map(|call| call.arguments.as_str()));
    let laws = [
        (answer.text == text, "the text is the text"),
        (!text.trim().is_empty() || !calls.is_empty(), "what says nothing is no answer"),
        (
            calls.len() <= pieces.iter().filter(|piece| piece.may_begin).count(),
            "there are no more calls than were begun",
        ),
        (calls.len() >= names.len(), "two names are two calls"),
        (calls.len() >= numbers.len(), "two numbers, each with a name, are two calls"),
        (calls.iter().all(|call| call.name.is_empty() || names.contains(&*call.name)), "a name is one that was sent"),
        (sent == got, "no argument is lost, and none is there twice"),
    ];
    laws.into_iter().find(|(holds, _)| !holds).map(|(_, law)| law)
}
