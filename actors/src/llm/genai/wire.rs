//! What a provider's stream says, read from its frames.
//!
//! `direct`, or genai, opens the stream and splits it into frames; what they mean is decided here, before genai makes
//! anything of them. A call exists once, however the stream numbers it: an index is a name to find a call again by, and never a
//! place in a list. Everything is bounded, and the work grows with the bytes read. Pure: no clock and no I/O.

mod anthropic;
mod calls;
mod gemini;
mod index;
mod json;
mod openai;
mod usage;

pub(super) use super::super::bounds::{MOST_ANSWER_BYTES, MOST_CALLS};
use super::super::providers::ProviderKind;
use bob_messages::chat::Usage;
pub(super) use calls::Begun;
use calls::Calls;
use index::Index;
use json::Json;
use serde_json::Value;
use std::collections::HashMap;

/// The most that may come over the wire for one answer, in bytes.
pub(super) const MOST_WIRE_BYTES: usize = 64 * 1024 * 1024;

/// How much genai may copy for one answer, in bytes: at every piece of an Anthropic call it copies what there is of
/// the arguments. It allows 2.8 MiB of arguments in pieces of 1 KiB, or 490 KiB in pieces of 30 bytes.
const MOST_COPIED_BYTES: u64 = 4 << 30;

/// How many frames of one answer genai may read. It makes a tree of each, for about 6 µs of a processor, so that they cost
/// less than a second. With 56 bytes a frame they are as much as an answer may hold.
const MOST_FRAMES_OF_GENAI: usize = 150_000;

/// What a frame costs beside its data, in bytes, so that empty ones are counted, too.
const FRAME_BYTES: usize = 8;

/// The longest id, model name or reason to stop that is believed, in bytes.
const MOST_NAME_BYTES: usize = 256;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// A frame is no JSON, or arguments belong to no call.
    Unreadable,
    WireTooLarge,
    /// More than [`MOST_ANSWER_BYTES`], or in too many pieces.
    AnswerTooLarge,
    TooManyCalls,
    /// The provider reported an error, in these words.
    Reported(Value),
}

#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// OpenAI's refusals, which come beside the content.
    pub(super) refusal: String,
    pub(super) calls: Calls,
    /// Signatures that belong to the message and not to one of its calls.
    pub(super) signatures: Vec<String>,
    pub(super) stop: Option<String>,
}

#[derive(Debug)]
pub(super) struct Wire {
    kind: ProviderKind,
    pub(super) said: Said,
    /// Counts how often what was said before turned out to be another choice's.
    pub(super) turns: u32,
    /// The provider's id of the response.
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    /// The last usage that was reported.
    pub(super) usage: Option<Usage>,
    /// Whether Gemini refused the prompt, for which it has no answer at all.
    pub(super) is_blocked: bool,
    pub(super) has_ended: bool,
    pub(super) fault: Option<Fault>,
    /// Which choice is read.
    rank: Option<u128>,
    blocks: HashMap<Index, anthropic::Block>,
    last_block: Option<Index>,
    load: Load,
}

#[derive(Debug, Default)]
struct Load {
    frames: usize,
    wire: usize,
    said: usize,
    copied: u64,
    /// The arguments genai copies at each further piece.
    open: u64,
}

impl Load {
    fn add(&mut self, bytes: usize) -> Result<(), Fault> {
        self.said += bytes;
        if self.said > MOST_ANSWER_BYTES { Err(Fault::AnswerTooLarge) } else { Ok(()) }
    }
}

impl Wire {
    pub(super) fn new(kind: ProviderKind) -> Self {
        Self {
            kind,
            said: Said::default(),
            turns: 0,
            id: None,
            model: None,
            usage: None,
            is_blocked: false,
            has_ended: false,
            fault: None,
            rank: None,
            blocks: HashMap::new(),
            last_block: None,
            load: Load::default(),
        }
    }

    /// Reads the next frame; after the end or a fault nothing is read any more.
    pub(super) fn frame(&mut self, event: Option<&str>, data: &str) {
        if self.has_ended || self.fault.is_some() {
            return;
        }
        self.load.frames += 1;
        self.load.wire += event.map_or(0, str::len) + data.len() + FRAME_BYTES;
        let is_read_by_genai = !self.kind.has_openais_format();
        self.fault = match &self.load {
            load if load.wire > MOST_WIRE_BYTES => Some(Fault::WireTooLarge),
            load if is_read_by_genai && load.frames > MOST_FRAMES_OF_GENAI => Some(Fault::AnswerTooLarge),
            _within_the_bounds => self.read(event, data).err(),
        };
    }

    /// How many bytes of text, arguments, reasoning and signatures have arrived.
    pub(super) fn weight(&self) -> usize {
        self.load.said
    }

    fn read(&mut self, event: Option<&str>, data: &str) -> Result<(), Fault> {
        match self.kind {
            ProviderKind::Anthropic => anthropic::read(self, event, data),
            ProviderKind::Gemini => gemini::read(self, data),
            ProviderKind::OpenAi
            | ProviderKind::Ollama
            | ProviderKind::DeepSeek
            | ProviderKind::Groq
            | ProviderKind::Xai
            | ProviderKind::Mistral
            | ProviderKind::OpenRouter
            | ProviderKind::Together
            | ProviderKind::Fireworks
            | ProviderKind::Moonshot => openai::read(self, data),
        }
    }

    fn headlines(&mut self, id: Option<&Json<'_>>, model: Option<&Json<'_>>) {
        let said = |name: Option<&Json<'_>>| {
            let name = name?.text()?;
            let is_name = !name.is_empty() && name.len() <= MOST_NAME_BYTES && !name.contains(char::is_control);
            is_name.then(|| name.to_owned())
        };
        if self.id.is_none() {
            self.id = said(id);
        }
        if self.model.is_none() {
            self.model = said(model);
        }
    }

    /// The choice to read of those in a frame: one answer is asked for, and of several the one with index 0 is it,
    /// or where none has that, the lowest. A choice lower than what was read so far takes its place.
    fn chosen<'f, 'a>(&mut self, choices: Option<&'f Json<'a>>) -> Option<&'f Json<'a>> {
        let choices = choices?.list()?;
        let (at, rank) = choices.iter().map(rank).enumerate().min_by_key(|(_, rank)| *rank)?;
        if self.rank.is_some_and(|read| read < rank) {
            return None;
        }
        if self.rank.replace(rank).is_some_and(|read| read > rank) {
            self.said = Said::default();
            self.turns += 1;
        }
        Some(&choices[at])
    }

    fn text(&mut self, piece: &str) -> Result<(), Fault> {
        self.said.text.push_str(piece);
        self.load.add(piece.len())
    }

    fn reasoning(&mut self, piece: &str) -> Result<(), Fault> {
        self.said.reasoning.push_str(piece);
        self.load.add(piece.len())
    }

    fn stop(&mut self, reason: Option<&Json<'_>>) {
        if let Some(reason) = reason.and_then(Json::text).filter(|reason| reason.len() <= MOST_NAME_BYTES) {
            self.said.stop = Some(reason.to_owned());
        }
    }
}

/// Where a choice stands among others: 0 first, then upwards, then whatever has no such number.
fn rank(choice: &Json<'_>) -> u128 {
    match Index::read(choice.get("index")) {
        None => 0,
        Some(Index::Number(number)) => u128::try_from(number).unwrap_or(u128::MAX),
        Some(Index::Word(_)) => u128::MAX,
    }
}

fn json(data: &str) -> Result<Json<'_>, Fault> {
    serde_json::from_str(data).map_err(|_not_json| Fault::Unreadable)
}

fn words<'f>(value: Option<&'f Json<'_>>) -> &'f str {
    value.and_then(Json::text).unwrap_or_default()
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
