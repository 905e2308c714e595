//! The events of one turn, as they happen.

use super::boxed::{AnyStream, Boxed};
use super::request::AgentRunResult;
use super::runtime::{Owed, Runtime};
use bob_actors::clock;
use bob_actors::feed::Subscription;
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, Envelope, StreamItem, StreamView};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::outcome::TurnOutcome;
use futures_util::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The effect of dropping a stream on its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// None: the turn continues, and its outcome is in the session.
    #[default]
    Detach,
    /// The turn is cancelled.
    Cancel,
}

/// The events of one turn, ending after `Finished`. As a [`Stream`], and by [`next`](Self::next), it yields the events
/// that concern a reader of the answer; [`next_event`](Self::next_event) yields all.
///
/// A reader that falls more than 1,024 events or 16 MiB behind is detached: the stream then continues with
/// `Finished`. Unread text deltas are joined.
#[doc(alias = "AgentEventStream")]
#[derive(Debug)]
pub struct AgentStream {
    source: Source,
    session: SessionId,
    submission: TurnId,
    /// The turn whose events these are: the submission's own, or the suspended one that it resumed.
    turn: TurnId,
    ended: Option<Result<AgentRunResult, AgentError>>,
    view: StreamView,
    on_drop: OnDrop,
    /// The turns of sub-agents that work for this one, if their events are given.
    below: Option<Vec<TurnId>>,
}

#[derive(Debug)]
enum Source {
    Runtime(Live),
    /// From the program.
    Given(AnyStream<Envelope>),
}

#[derive(Debug)]
struct Live {
    runtime: Runtime,
    events: Subscription,
    owed: Option<Owed>,
    /// The outcome, until the events before it were read.
    told: Option<Result<Box<TurnOutcome>, AgentError>>,
}

enum Next {
    Event(Arc<Envelope>),
    /// The outcome, without an event that has it; `None` after the end.
    End(Option<Result<Box<TurnOutcome>, AgentError>>),
}

impl AgentStream {
    pub(super) fn new(
        runtime: Runtime,
        session: SessionId,
        submission: TurnId,
        events: Subscription,
        owed: Owed,
    ) -> Self {
        Self::from_source(Source::Runtime(Live { runtime, events, owed: Some(owed), told: None }), session, submission)
    }

    /// A stream of these events of one turn, for an implementation of [`AgentRuntime`](super::AgentRuntime) that is no
    /// [`Runtime`]. It ends with `turn.finished`, or with the events.
    pub fn of(session: SessionId, turn: TurnId, events: impl Stream<Item = Envelope> + Send + Sync + 'static) -> Self {
        Self::from_source(Source::Given(Boxed(Box::pin(events))), session, turn)
    }

    fn from_source(source: Source, session: SessionId, submission: TurnId) -> Self {
        Self {
            source,
            session,
            turn: submission.clone(),
            submission,
            ended: None,
            view: StreamView::default(),
            on_drop: OnDrop::Detach,
            below: None,
        }
    }

    /// Sets the effect of dropping the stream before its end.
    #[must_use]
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// Gives the events of the sub-agents that work for the turn, at all levels, by [`next_event`](Self::next_event): they
    /// are between those of the turn as they happen, with their own session and turn, and `parent` set.
    #[must_use]
    pub fn with_children(mut self) -> Self {
        self.below = Some(Vec::new());
        if let Source::Runtime(live) = &self.source {
            live.events.give_children();
        }
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
        poll_fn(|context| self.poll_item(context)).await
    }

    /// The next event of any kind; `None` after `turn.finished`. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Arc<Envelope>> {
        poll_fn(|context| self.poll_event(context)).await
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        while let Some(event) = ready!(self.poll_event(context)) {
            // What a sub-agent says is no part of the answer.
            if event.session_id.as_ref() == Some(&self.session)
                && let Some(item) = self.view.item(&event)
            {
                return Poll::Ready(Some(item));
            }
        }
        Poll::Ready(None)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<Envelope>>> {
        loop {
            let next = match &mut self.source {
                Source::Runtime(live) => ready!(live.poll_next(context)),
                Source::Given(_) if self.ended.is_some() => Next::End(None),
                Source::Given(events) => ready!(events.0.as_mut().poll_next(context))
                    .map_or(Next::End(None), |event| Next::Event(Arc::new(event))),
            };
            match next {
                Next::Event(event) if self.is_ours(&event) || self.is_below(&event) => return Poll::Ready(Some(event)),
                Next::Event(_of_another_turn) => {}
                Next::End(told) => return Poll::Ready(told.and_then(|told| self.end_with(told))),
            }
        }
    }

    /// Reads on to the end; the outcome, or why the request was refused.
    ///
    /// # Errors
    /// When the request was refused.
    pub async fn finish(mut self) -> Result<AgentRunResult, AgentError> {
        while self.next_event().await.is_some() {}
        self.ended.take().unwrap_or_else(|| match &self.source {
            Source::Runtime(live) => Err(live.runtime.gone()),
            Source::Given(_) => Err(AgentError::Internal("the events ended without an outcome".into())),
        })
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
            if let Source::Runtime(live) = &mut self.source {
                (live.owed, live.told) = (None, None);
            }
            self.ended = Some(Ok(outcome.clone().into()));
        }
        true
    }

    fn is_below(&mut self, event: &Envelope) -> bool {
        let (Some(below), Some(parent)) = (&mut self.below, &event.parent) else { return false };
        let is_below = parent.turn == self.turn || below.contains(&parent.turn);
        if let (true, AgentEvent::TurnStarted { .. }, Some(turn)) = (is_below, &event.event, &event.turn_id) {
            below.push(turn.clone());
        }
        is_below
    }

    fn end_with(&mut self, result: Result<Box<TurnOutcome>, AgentError>) -> Option<Arc<Envelope>> {
        let last = result.as_ref().ok().map(|outcome| Arc::new(Envelope::finished(clock::now(), outcome.clone())));
        self.ended = Some(result.map(AgentRunResult::from));
        last
    }
}

impl Live {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if let Some(owed) = &mut self.owed {
            if let Poll::Ready(Ok(event)) = self.events.poll_next(context) {
                return Poll::Ready(Next::Event(event));
            }
            // A detached reader learns the end from the outcome.
            let result = ready!(Pin::new(owed).poll(context));
            self.owed = None;
            self.told = Some(result.unwrap_or_else(|| Err(self.runtime.gone())));
        }
        let Some(told) = self.told.take() else { return Poll::Ready(Next::End(None)) };
        // The events of a turn are published before its outcome is told, perhaps between the two looks above.
        if let Poll::Ready(Ok(event)) = self.events.poll_next(context) {
            self.told = Some(told);
            return Poll::Ready(Next::Event(event));
        }
        // Without a last event before it: refused, answered before, or detached.
        Poll::Ready(Next::End(Some(told)))
    }
}

impl Stream for AgentStream {
    type Item = StreamItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        self.poll_item(context)
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        if let Source::Runtime(live) = &self.source
            && self.on_drop == OnDrop::Cancel
            && live.owed.is_some()
        {
            live.runtime.cancel_later(&self.session, Some(self.submission.clone()));
        }
    }
}
