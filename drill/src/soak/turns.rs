//! The content of turns: drawn from the seed, encoded in the prompt's first word, and played by the scripted model.
//!
//! Every side effect has a unique token of session, turn and call, so that a file of tokens shows which effects
//! happened and how often.

use bob::model::{LlmRequest, ScriptedCall, ScriptedReply};
use bob_messages::chat::{ContentPart, Message};
use serde_json::{Value, json};

use super::chaos::Kind;
use super::plan::Plan;
use super::schedule::{draw, meets};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) session: u32,
    pub(crate) turn: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Talk,
    Read,
    /// A tool server appends a token.
    Effect,
    /// A tool of the process appends a token.
    LocalEffect,
    /// Both, one after the other.
    Effects,
    Panic,
    Slow,
    Big,
    /// A tool of this sick server is called.
    Sick(&'static str),
    Malformed,
}

/// The tool servers that behave.
pub(crate) const HEALTHY: [&str; 4] = ["h0", "h1", "h2", "h3"];

/// Those of a run: one where each of several workers has servers of its own.
pub(crate) fn healthy(plan: &Plan) -> &'static [&'static str] {
    if plan.replicas.is_some() { &["h0"] } else { &HEALTHY }
}

/// The tool servers that do not, and how.
pub(crate) const SICK: [(&str, &str); 4] =
    [("crash", "crash-on=1"), ("deaf", "deaf"), ("flood", "stderr-flood=1000000"), ("hang", "silent-init")];

/// A very large result. A build without optimisation takes seconds for two megabytes and would be busy with nothing else.
const BIG_BYTES: u32 = if cfg!(debug_assertions) { 200_000 } else { 2_000_000 };

/// Separates these draws from others.
const PURPOSE: u64 = 1_000;

impl Place {
    pub(crate) fn session_name(self) -> String {
        format!("s{}", self.session)
    }

    pub(crate) fn request(self) -> String {
        format!("s{}t{}", self.session, self.turn)
    }

    pub(crate) fn token(self, call: u32) -> String {
        format!("s{}t{}c{call}", self.session, self.turn)
    }

    pub(crate) fn numbers(self) -> [u64; 2] {
        [self.session.into(), self.turn.into()]
    }

    /// Parses the text that [`Place::request`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (session, turn) = text.strip_prefix('s')?.split_once('t')?;
        Some(Self { session: session.parse().ok()?, turn: turn.parse().ok()? })
    }

    /// The place a model call belongs to, and its session's name: the newest message that begins with one.
    pub(crate) fn of(request: &LlmRequest) -> Option<Self> {
        request.messages.iter().rev().find_map(|message| match &**message {
            Message::User { parts } => parts.iter().find_map(|part| match part {
                ContentPart::Text { text } => Self::parse(text.split_whitespace().next()?),
                _other_parts_are_not_ours => None,
            }),
            Message::Assistant { .. } | Message::Tool { .. } => None,
        })
    }
}

impl Doing {
    pub(crate) fn of(plan: &Plan, place: Place) -> Self {
        let numbers = place.numbers();
        let met = |kind| meets(plan.seed, &plan.chaos, kind, &numbers);
        let drawn = draw(plan.seed, PURPOSE, &numbers);
        if met(Kind::ToolPanic) {
            return Self::Panic;
        }
        if met(Kind::ToolSick) {
            return Self::Sick(SICK.get(drawn as usize % SICK.len()).map_or("deaf", |(id, _)| id));
        }
        if met(Kind::ToolBig) {
            return Self::Big;
        }
        if met(Kind::ToolSlow) {
            return Self::Slow;
        }
        if met(Kind::Malformed) {
            return Self::Malformed;
        }
        match drawn % 100 {
            0..60 => Self::Talk,
            60..70 => Self::Read,
            70..83 => Self::Effect,
            83..93 => Self::LocalEffect,
            _ => Self::Effects,
        }
    }
}

pub(crate) fn prompt(place: Place) -> String {
    format!("{} please do what this turn is for", place.request())
}

pub(crate) fn reply(plan: &Plan, request: &LlmRequest) -> ScriptedReply {
    // Bursts are the only other requests.
    let Some(place) = Place::of(request) else { return ScriptedReply::text("yes, and what else?") };
    let drawn = draw(plan.seed, PURPOSE + 1, &place.numbers());
    let healthy = healthy(plan);
    let server = healthy.get(drawn as usize % healthy.len()).copied().unwrap_or("h0");
    let append = |call| {
        let path = plan.effects_path().to_string_lossy().into_owned();
        one(&format!("mcp/{server}/append"), json!({ "path": path, "line": place.token(call) }))
    };
    let local = |call| one("soak/append", json!({ "line": place.token(call) }));
    let last = || ScriptedReply::text(format!("{} is done: {drawn:x}, {}", place.request(), "and so on, ".repeat(12)));
    match (Doing::of(plan, place), request.step) {
        (Doing::Read, 1) => one(&format!("mcp/{server}/echo"), json!({ "text": place.request() })),
        (Doing::Effect, 1) => append(0),
        (Doing::LocalEffect, 1) => local(0),
        (Doing::Effects, 1) => append(0),
        (Doing::Effects, 2) => local(1),
        (Doing::Panic, 1) => one("soak/panic", json!({})),
        (Doing::Slow, 1) => one(&format!("mcp/{server}/sleep"), json!({ "ms": 300 })),
        (Doing::Big, 1) => one(&format!("mcp/{server}/big"), json!({ "bytes": BIG_BYTES })),
        (Doing::Sick(id), 1) => one(&format!("mcp/{id}/echo"), json!({ "text": place.request() })),
        (Doing::Malformed, 1) => one("soak/append", Value::String("{\"line\":".to_owned())),
        (Doing::Talk, _) => last(),
        (
            Doing::Read
            | Doing::Effect
            | Doing::LocalEffect
            | Doing::Effects
            | Doing::Panic
            | Doing::Slow
            | Doing::Big
            | Doing::Sick(_)
            | Doing::Malformed,
            _,
        ) => last(),
    }
}

fn one(name: &str, arguments: Value) -> ScriptedReply {
    ScriptedReply::Calls(vec![ScriptedCall { name: name.to_owned(), arguments }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = Place { session: 12, turn: 3 };
        assert_eq!(Place::parse(&place.request()), Some(place));
        assert_eq!(Place::parse("b0r17"), None);
        assert_eq!(place.token(1), "s12t3c1");
    }
}
