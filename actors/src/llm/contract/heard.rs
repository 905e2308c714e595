//! A reader of the pieces of one answer, for tests of a model's port.

use crate::feed::{Feed, Subscription};
use crate::llm::deltas::DeltaSink;
use bob_messages::event::{AgentEvent, Delta};
use bob_messages::llm::LlmRequest;
use bob_messages::reply::SoFar;
use futures_util::FutureExt;
use std::sync::Arc;

/// Reads what a port puts into its [`DeltaSink`].
#[derive(Debug)]
pub struct Heard {
    pieces: Subscription,
    text: String,
    reasoning: String,
}

impl Heard {
    /// A sink for a call of this request, and its reader.
    pub fn of(request: &Arc<LlmRequest>) -> (DeltaSink, Self) {
        let feed = Feed::new(Vec::new());
        let pieces = feed.subscribe(&request.session);
        let sink = DeltaSink::new(feed, Arc::clone(request), SoFar::default());
        (sink, Self { pieces, text: String::new(), reasoning: String::new() })
    }

    /// The text of all pieces so far.
    pub fn text(&mut self) -> &str {
        self.read();
        &self.text
    }

    /// The reasoning of all pieces so far.
    pub fn reasoning(&mut self) -> &str {
        self.read();
        &self.reasoning
    }

    fn read(&mut self) {
        while let Some(Ok(told)) = self.pieces.next().now_or_never() {
            match &told.event {
                AgentEvent::LlmStreamChunk { delta: Delta::Text(piece), .. } => self.text.push_str(piece),
                AgentEvent::LlmStreamChunk { delta: Delta::Reasoning(piece), .. } => self.reasoning.push_str(piece),
                AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. } => self.text.clear(),
                _not_a_piece => {}
            }
        }
    }
}
