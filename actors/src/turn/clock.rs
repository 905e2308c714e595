//! When the messages of a session's actor came.

use super::TurnArguments;
use bob_messages::turn::{Moment, TurnMessage};
use tokio::time::Instant;

/// The clocks of one machine.
#[derive(Debug)]
pub(super) struct Clock {
    /// When the actor began, on tokio's clock: the origin of the machine's own time.
    began: Instant,
    /// What the pulse had counted of waits then.
    waited_before_ms: u64,
    /// When the last message came; `None` before the first.
    last: Option<Moment>,
}

impl Clock {
    pub(super) fn new(started: &TurnArguments) -> Self {
        Self { began: Instant::now(), waited_before_ms: started.pulse.waited_ms(), last: None }
    }

    /// When this message came. A state that the turn sends to itself came with the message before it.
    pub(super) fn of(&mut self, message: &TurnMessage, started: &TurnArguments) -> Moment {
        use TurnMessage as M;
        let is_own = matches!(message, M::BuildPrompt | M::LlmInfer { .. } | M::CallTool | M::Done { .. });
        match self.last.filter(|_| is_own && started.rooms.clock.is_of_machine()) {
            Some(last) => last,
            None => self.now(started),
        }
    }

    /// Messages of one millisecond share their time, so that the wall clock is read once for them.
    pub(super) fn now(&mut self, started: &TurnArguments) -> Moment {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Waiting for a model to be installed does not count as time of the turn.
        let waited = started.pulse.waited_ms().saturating_sub(self.waited_before_ms);
        let ticks = passed.saturating_sub(waited);
        let clock = &started.rooms.clock;
        let known = self.last.filter(|last| last.ticks == ticks && clock.is_of_machine());
        *self.last.insert(known.unwrap_or_else(|| Moment { wall: clock.now(), ticks }))
    }
}
