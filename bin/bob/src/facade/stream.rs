//! The events of one turn, as they happen.

use super::request::AgentRunResult;
use super::runtime::{Owed, Runtime};
use bob_actors::clock;
use bob_actors::feed::Subscription;
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, Envelope, StreamItem, StreamView};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::outcome::TurnOutcome;
use futures_util::FutureExt;
use std::sync::Arc;
use tokio::task::unconstrained;

/// The effect of dropping a stream on its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// None: the turn continues, and its outcome is in the session.
    #[default]
    Detach,
    /// The turn is cancelled.
    Cancel,
}

/// The events of one turn, ending after `Finished`.
///
/// A reader that falls more than 1,024 events or 16 MiB behind is detached: the stream then continues with
/// `Finished`. Unread text deltas are joined.
#[derive(Debug)]
pub struct AgentStream {
    runtime: Runtime,
    session: SessionId,
    submission: TurnId,
    /// The turn whose events these are: the submission's own, or the suspended one that it resumed.
    turn: TurnId,
    events: Subscription,
    owed: Option<Owed>,
    /// The outcome, until the events before it were read.
    told: Option<Result<Box<TurnOutcome>, AgentError>>,
    ended: Option<Result<AgentRunResult, AgentError>>,
    view: StreamView,
    on_drop: OnDrop,
}

impl AgentStream {
    pub(super) fn new(
        runtime: Runtime,
        session: SessionId,
        submission: TurnId,
        events: Subscription,
        owed: Owed,
    ) -> Self {
        Self {
            runtime,
            session,
            turn: submission.clone(),
            submission,
            events,
            owed: Some(owed),
            told: None,
            ended: None,
            view: StreamView::default(),
            on_drop: OnDrop::Detach,
        }
    }

    /// Sets the effect of dropping the stream before its end.
    #[must_use]
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// The session of the turn.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The turn's id.
    pub fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// The next event that concerns a reader of the answer; `None` after the last,
    /// and at once for a request that was refused. Cancel-safe.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            let event = self.next_event().await?;
            if let Some(item) = self.view.item(&event) {
                return Some(item);
            }
        }
    }

    /// The next event of any kind; `None` after `turn.finished`. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Arc<Envelope>> {
        loop {
            let event = if let Some(owed) = &mut self.owed {
                tokio::select! {
                    biased;
                    // A detached reader learns the end from the outcome.
                    Ok(event) = self.events.next() => event,
                    result = owed => {
                        self.owed = None;
                        self.told = Some(result.unwrap_or_else(|| Err(self.runtime.gone())));
                        continue;
                    }
                }
            } else {
                // The events of a turn are published before its outcome is told, perhaps between the two looks above.
                let told = self.told.take()?;
                match unconstrained(self.events.next()).now_or_never() {
                    Some(Ok(event)) => {
                        self.told = Some(told);
                        event
                    }
                    // Without a last event before it: refused, answered before, or detached.
                    Some(Err(_)) | None => return self.end_with(told),
                }
            };
            if self.is_ours(&event) {
                return Some(event);
            }
        }
    }

    /// Reads on to the end; the outcome, or why the request was refused.
    ///
    /// # Errors
    /// When the request was refused.
    pub async fn finish(mut self) -> Result<AgentRunResult, AgentError> {
        while self.next_event().await.is_some() {}
        self.ended.take().unwrap_or_else(|| Err(self.runtime.gone()))
    }

    /// The outcome or the refusal, once the stream has ended.
    pub fn ended(&self) -> Option<&Result<AgentRunResult, AgentError>> {
        self.ended.as_ref()
    }

    /// Whether the event is of this turn, and not of one before it in the session.
    fn is_ours(&mut self, event: &Envelope) -> bool {
        if let AgentEvent::TurnStarted { submission, .. } = &event.event
            && *submission == self.submission
            && let Some(turn) = &event.turn_id
        {
            self.turn.clone_from(turn);
        }
        if event.turn_id.as_ref() != Some(&self.turn) {
            return false;
        }
        if let AgentEvent::TurnFinished { outcome } = &event.event {
            (self.owed, self.told) = (None, None);
            self.ended = Some(Ok(outcome.clone().into()));
        }
        true
    }

    fn end_with(&mut self, result: Result<Box<TurnOutcome>, AgentError>) -> Option<Arc<Envelope>> {
        let last = result.as_ref().ok().map(|outcome| Arc::new(Envelope::finished(clock::now(), outcome.clone())));
        self.ended = Some(result.map(AgentRunResult::from));
        last
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Cancel && self.owed.is_some() {
            self.runtime.cancel_later(&self.session, Some(self.submission.clone()));
        }
    }
}
