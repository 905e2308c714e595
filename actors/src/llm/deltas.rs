//! Where the pieces of a growing answer go: from a provider's adapter to the feed.
//!
//! A sink belongs to one model call. It shows text and thoughts as events of that call; in JSON mode it shows only the
//! content of a final envelope. It never waits and, without readers, keeps nothing.

use super::envelope::GrowingEnvelope;
use crate::clock;
use crate::feed::{Feed, Piece};
use bob_messages::event::{AgentEvent, Delta, answer_id};
use bob_messages::llm::{LlmRequest, ToolMode};
use bob_messages::reply::{Pulse, SoFar};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A handle to show pieces by. Clones show the same message.
#[doc(alias = "LlmStream")]
#[derive(Debug, Clone)]
pub struct DeltaSink(Option<Arc<Showing>>);

#[derive(Debug)]
struct Showing {
    feed: Arc<Feed>,
    request: Arc<LlmRequest>,
    /// The id of the message, once a piece of it was shown.
    message_id: OnceLock<String>,
    /// Set once a piece passed unseen: an envelope without its beginning cannot be read.
    missed: AtomicBool,
    /// Whether readers have seen anything of this message.
    shown: AtomicBool,
    envelope: Mutex<GrowingEnvelope>,
    /// What readers have seen of the text, for the turn. Its pulse beats with each piece, watched or not.
    seen: SoFar,
}

impl DeltaSink {
    pub(crate) fn new(feed: Arc<Feed>, request: Arc<LlmRequest>, seen: SoFar) -> Self {
        let (message_id, envelope) = (OnceLock::new(), Mutex::default());
        let (missed, shown) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Some(Arc::new(Showing { feed, request, message_id, missed, shown, envelope, seen })))
    }

    /// Something of the answer has arrived that is not shown, such as a piece of a call.
    pub fn beat(&self) {
        self.0.iter().for_each(|showing| showing.seen.pulse().beat());
    }

    pub(crate) fn pulse(&self) -> Pulse {
        self.0.as_ref().map(|showing| showing.seen.pulse().clone()).unwrap_or_default()
    }

    /// A sink without readers.
    pub fn unread() -> Self {
        Self(None)
    }

    /// Whether a piece has a reader now; cutting text into pieces is worth it only then.
    pub fn is_read(&self) -> bool {
        self.0.as_ref().is_some_and(|showing| showing.feed.is_watched())
    }

    /// Shows a piece of what the model says.
    pub fn text(&self, piece: &str) {
        let Some(showing) = &self.0 else { return };
        showing.seen.pulse().beat();
        if !showing.feed.is_watched() {
            showing.missed.store(true, Ordering::Relaxed);
            return;
        }
        match showing.request.mode {
            ToolMode::Native => showing.show(piece, true),
            ToolMode::Json => showing.show_content(|envelope| envelope.push(piece)),
        }
    }

    /// Shows a piece of what the model thinks.
    pub fn reasoning(&self, piece: &str) {
        self.beat();
        if let Some(showing) = self.0.as_ref().filter(|showing| showing.feed.is_watched()) {
            showing.show(piece, false);
        }
    }

    /// The answer is whole: shows what was held back.
    pub(crate) fn end(&self) {
        if let Some(showing) = self.0.as_ref().filter(|showing| showing.request.mode == ToolMode::Json) {
            showing.show_content(GrowingEnvelope::finish);
        }
    }

    /// The attempt failed: what was shown of it is void, and the next one starts afresh.
    pub(crate) fn reset(&self) {
        if let Some(showing) = &self.0 {
            *showing.envelope() = GrowingEnvelope::default();
            showing.missed.store(false, Ordering::Relaxed);
            showing.seen.clear();
            if showing.shown.swap(false, Ordering::Relaxed) {
                showing.emit(Delta::Reset);
            }
        }
    }
}

impl Showing {
    fn show_content(&self, read: impl FnOnce(&mut GrowingEnvelope) -> Option<String>) {
        if self.missed.load(Ordering::Relaxed) {
            return;
        }
        let new = read(&mut self.envelope());
        if let Some(new) = new {
            self.show(&new, true);
        }
    }

    /// Shows a piece of the answer, or of the thoughts before it.
    fn show(&self, text: &str, is_answer: bool) {
        // The turn is over: what it does not keep is not shown.
        if is_answer && !self.seen.push(text.as_bytes()) {
            return;
        }
        self.shown.store(true, Ordering::Relaxed);
        let LlmRequest { session, turn, .. } = &*self.request;
        if self.feed.join(session, turn, Piece { message_id: self.message_id(), is_answer, text }) {
            return;
        }
        let text = text.to_owned();
        self.emit(if is_answer { Delta::Text(text) } else { Delta::Reasoning(text) });
    }

    fn emit(&self, delta: Delta) {
        let LlmRequest { session, turn, step, .. } = &*self.request;
        let piece = AgentEvent::LlmStreamChunk { message_id: self.message_id().to_owned(), delta };
        self.feed.emit(session, turn, clock::now(), piece.in_step(*step));
    }

    fn message_id(&self) -> &str {
        self.message_id.get_or_init(|| answer_id(&self.request.turn, self.request.step))
    }

    fn envelope(&self) -> MutexGuard<'_, GrowingEnvelope> {
        self.envelope.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "deltas_tests.rs"]
mod tests;
