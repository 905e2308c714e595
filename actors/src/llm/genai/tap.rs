//! Reads over genai's shoulder: how much has arrived, and what the provider said
//! that genai does not pass on.

use ::genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// In how many frames the response's id and model are looked for.
const FRAMES_WITH_HEADLINES: u32 = 3;

/// The longest id or model name that is believed, in bytes.
const MOST_NAME_BYTES: usize = 256;

/// What was overheard of one stream.
#[derive(Debug, Default)]
pub(super) struct Tap {
    bytes: AtomicUsize,
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
}

impl Tap {
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
        let may_refuse = frame.data.contains(r#""refusal""#);
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
    }
}
