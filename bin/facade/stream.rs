//! The events of one turn, as they happen.

use super::runtime::Runtime;
use bob_actors::feed::Subscription;
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, Envelope, StreamItem};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Answer;
use bob_messages::sessions::TurnOutcome;
use std::sync::Arc;

/// What dropping a stream means for its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// Nothing: the turn goes on and its outcome is in the session.
    #[default]
    Detach,
    /// The turn is cancelled.
    Cancel,
}

/// The stream of one turn. It ends after the one `Finished`.
///
/// A reader that falls more than 1,024 events behind is detached: the stream then
/// goes straight to `Finished`.
#[derive(Debug)]
pub struct AgentStream {
    pub(super) runtime: Runtime,
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    pub(super) subscription: Option<Subscription>,
    pub(super) outcome: Option<Answer<Result<Box<TurnOutcome>, AgentError>>>,
    pub(super) on_drop: OnDrop,
}

impl AgentStream {
    /// Chooses what dropping the stream means.
    #[must_use]
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// The turn's id.
    pub fn turn(&self) -> &TurnId {
        &self.turn
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Cancel && self.outcome.is_some() {
            self.runtime.cancel_later(&self.session, Some(self.turn.clone()));
        }
    }
}
