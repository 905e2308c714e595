//! Recording to and replaying from a tape.

use super::builder::RuntimeBuilder;
use bob_actors::llm::RetryPolicy;
use bob_actors::model_server::ModelServers;
use bob_actors::tape::{Recorder, Tape};
use bob_messages::backoff::Backoff;

/// Whether there is a tape, and on which side of it the world is.
pub(super) enum Taped {
    No,
    /// The ports are real, and are recorded.
    Recording(Recorder),
    /// The world is the tape.
    Replaying(Tape),
}

impl Taped {
    pub(super) fn is_replay(&self) -> bool {
        matches!(self, Self::Replaying(_))
    }

    #[cfg(feature = "mcp")]
    pub(super) fn recorder(&self) -> Option<Recorder> {
        match self {
            Self::Recording(recorder) => Some(recorder.clone()),
            Self::No | Self::Replaying(_) => None,
        }
    }
}

impl RuntimeBuilder {
    /// Writes down everything the runtime's models and tools say, those of tool servers included. See [`crate::tape`].
    #[must_use]
    pub fn record(mut self, recorder: &Recorder) -> Self {
        self.taped = Taped::Recording(recorder.clone());
        self
    }

    /// Replays models and tools from a tape: other models and tools are neither called nor started, and retries do
    /// not wait. See [`crate::tape`].
    #[must_use]
    pub fn replay(mut self, tape: &Tape) -> Self {
        self.taped = Taped::Replaying(tape.clone());
        self
    }

    /// Puts the tape where it belongs, before or instead of the world.
    pub(super) fn on_tape(mut self) -> Self {
        match &self.taped {
            Taped::No => {}
            Taped::Recording(recorder) => {
                self.model = self.model.map(|model| recorder.model(model));
                self.tools = self.tools.into_iter().map(|tools| recorder.tools(tools)).collect();
            }
            Taped::Replaying(tape) => {
                self.model = Some(tape.model());
                self.tools = vec![tape.tools()];
                self.retry = RetryPolicy { backoff: Backoff { first_ms: 0, most_ms: 0 }, ..self.retry };
                self.model_servers = (ModelServers::default(), Vec::new());
                #[cfg(feature = "mcp")]
                self.tool_servers.clear();
            }
        }
        self
    }
}
