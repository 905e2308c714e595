//! Reads over genai's shoulder: how much has arrived, and what the provider said
//! that genai does not pass on.

use super::super::providers::ProviderKind;
use ::genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// In how many frames the response's id and model are looked for.
const FRAMES_WITH_HEADLINES: u32 = 3;

/// The longest id or model name that is believed, in bytes.
const MOST_NAME_BYTES: usize = 256;

/// What was overheard of one stream.
#[derive(Debug)]
pub(super) struct Tap {
    kind: ProviderKind,
    bytes: AtomicUsize,
    frames: AtomicUsize,
    torn: AtomicBool,
    overheard: Mutex<Overheard>,
}

/// What genai does not pass on.
#[derive(Debug, Clone, Default)]
pub(super) struct Overheard {
    /// The provider's id of the response.
    pub(super) id: Option<String>,
    /// The model the provider says it used.
    pub(super) model: Option<String>,
    /// OpenAI's refusals, which come beside the content.
    pub(super) refusal: String,
    /// Whether Gemini refused the prompt, for which it has no answer at all.
    pub(super) is_blocked: bool,
}

impl Tap {
    pub(super) fn new(kind: ProviderKind) -> Self {
        let (bytes, frames, torn) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Self { kind, bytes, frames, torn, overheard: Mutex::default() }
    }

    /// How many frames have arrived, those without data included.
    pub(super) fn frames(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }

    /// Whether a frame was taken apart on its way. genai takes a CR at the end of one
    /// read and the LF at the beginning of the next for the end of a frame; where the
    /// name of an event and its data go apart by that, it drops the data without a word.
    pub(super) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    /// How many bytes have arrived in whole frames.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What was overheard so far.
    pub(super) fn overheard(&self) -> Overheard {
        self.overheard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ChatFrameSink for Tap {
    fn on_frame(&self, _context: &FrameCtx, frame: RawFrameRef<'_>) {
        self.bytes.fetch_add(frame.data.len(), Ordering::Relaxed);
        self.frames.fetch_add(1, Ordering::Relaxed);
        // Only Anthropic's frames have a name, and all of them have one.
        if self.kind == ProviderKind::Anthropic && frame.event.is_some() == frame.data.is_empty() {
            self.torn.store(true, Ordering::Relaxed);
        }
        let may_refuse = [r#""refusal""#, r#""blockReason""#].iter().any(|word| frame.data.contains(word));
        let mut overheard = self.overheard.lock().unwrap_or_else(PoisonError::into_inner);
        let may_have_headlines = frame.index < FRAMES_WITH_HEADLINES && !overheard.has_headlines();
        if !may_have_headlines && !may_refuse {
            return;
        }
        if let Some(data) = frame.json() {
            overheard.read(&data);
        }
    }
}

impl Overheard {
    fn has_headlines(&self) -> bool {
        self.id.is_some() && self.model.is_some()
    }

    fn read(&mut self, data: &Value) {
        let said = |paths: [&str; 3]| {
            let found = paths.iter().find_map(|path| data.pointer(path)?.as_str());
            found.filter(|name| !name.is_empty() && name.len() <= MOST_NAME_BYTES && !name.contains(char::is_control))
        };
        if self.id.is_none() {
            self.id = said(["/id", "/message/id", "/responseId"]).map(str::to_owned);
        }
        if self.model.is_none() {
            self.model = said(["/model", "/message/model", "/modelVersion"]).map(str::to_owned);
        }
        if let Some(refusal) = data.pointer("/choices/0/delta/refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
        }
        self.is_blocked |= data.pointer("/promptFeedback/blockReason").is_some_and(Value::is_string);
    }
}
