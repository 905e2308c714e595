//! The events of one session, for any number of readers.

use super::boxed::{AnyStream, Boxed};
use super::subscribe::Reader;
use bob_messages::error::AgentError;
use bob_messages::event::Envelope;
use bob_messages::ids::{SessionId, TenantId};
use futures_util::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The events of one session, all of them, as a [`Stream`] and by [`next`](Self::next). Dropping it only ends the reading;
/// turns continue.
///
/// The events of sub-agents that work for the session, at all levels, are between its own as they happen: they have their
/// own session and turn, and `parent` is set. They are live only, and only those of sub-agents that work in this process; a
/// reader of a sub-agent's session has all of them.
///
/// Within a run of a turn (from `turn.started` to `turn.finished`) the numbers increase by one over rebuilt and live
/// events. They are specific to this reader: joined text deltas, and live-only events before the reader joined, make
/// numbers differ between readers.
#[derive(Debug)]
pub struct AgentEvents {
    session: SessionId,
    source: Source,
    /// Only events of this tenant's turns are given.
    only: Option<TenantId>,
}

#[derive(Debug)]
enum Source {
    Runtime(Box<Reader>),
    /// From the program.
    Given(AnyStream<Result<Envelope, AgentError>>),
}

impl AgentEvents {
    pub(super) fn read_by(reader: Reader, session: SessionId) -> Self {
        Self { session, source: Source::Runtime(Box::new(reader)), only: None }
    }

    /// These events of one session, for an implementation of [`AgentRuntime`](super::AgentRuntime) that is no
    /// [`Runtime`](super::Runtime).
    pub fn of(
        session: SessionId,
        events: impl Stream<Item = Result<Envelope, AgentError>> + Send + Sync + 'static,
    ) -> Self {
        Self { session, source: Source::Given(Boxed(Box::pin(events))), only: None }
    }

    /// Gives only the events of this tenant's turns.
    pub(super) fn of_tenant(self, tenant: TenantId) -> Self {
        Self { only: Some(tenant), ..self }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The next event of any kind; `None` when the runtime has ended and everything was given. Cancel-safe.
    ///
    /// # Errors
    /// When the journal could not be read, with which this reader begins, or joins again when it fell behind, or reads what
    /// another process did before the event that comes next. The next call tries that once more. A store that cannot be read
    /// while no events come is no error: it is looked at again later.
    pub async fn next(&mut self) -> Option<Result<Arc<Envelope>, AgentError>> {
        poll_fn(|context| self.poll_event(context)).await
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Arc<Envelope>, AgentError>>> {
        loop {
            let event = match &mut self.source {
                Source::Runtime(reader) => ready!(reader.poll_event(context)),
                Source::Given(events) => ready!(events.0.as_mut().poll_next(context)).map(|event| event.map(Arc::new)),
            };
            let Some(Ok(envelope)) = &event else { return Poll::Ready(event) };
            if self.only.is_none() || self.only == envelope.tenant {
                return Poll::Ready(event);
            }
        }
    }
}

impl Stream for AgentEvents {
    type Item = Result<Arc<Envelope>, AgentError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}
