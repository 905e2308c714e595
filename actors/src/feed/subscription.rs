//! One reader of a session's events and its bounded buffer.

use super::Feed;
use bob_messages::event::{AgentEvent, Delta, Envelope};
use bob_messages::ids::SessionId;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many events wait for a reader at most; then the reader is detached.
const MOST_EVENTS: usize = 1_024;

/// How many bytes wait for a reader at most, by the size of what events carry; then the reader is detached. One event
/// larger than that is still given to a reader that has read all before it.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes of joined text one waiting event holds at most.
const MOST_TEXT_BYTES: usize = 256 * 1024;

/// A reader of one session's events, from the moment it subscribed. Dropping it ends the reading and nothing else. What
/// waits for it is bounded by events and by bytes; pieces of text that wait are joined.
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<Feed>,
    session: SessionId,
    buffer: Arc<Buffer>,
}

/// The reader was too slow: it missed events and was let go. What the turn did is in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader fell more than {MOST_EVENTS} events or {MOST_BYTES} bytes behind and was detached")]
pub struct Detached;

impl Subscription {
    pub(super) fn new(feed: Arc<Feed>, session: SessionId, buffer: Arc<Buffer>) -> Self {
        Self { feed, session, buffer }
    }

    /// Takes the events of sub-agents from now on, at all levels below the session.
    #[must_use]
    pub fn with_children(self) -> Self {
        self.give_children();
        self
    }

    /// As [`with_children`](Self::with_children).
    pub fn give_children(&self) {
        self.buffer.with_children.store(true, Ordering::Relaxed);
    }

    /// How many events wait, and how many bytes they carry.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> (usize, usize) {
        self.buffer.waiting()
    }

    /// The next event. Waits for one; cancel-safe.
    ///
    /// # Errors
    /// When the reader was detached; what was buffered before is still given first.
    pub async fn next(&mut self) -> Result<Arc<Envelope>, Detached> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, or a wake-up when there is one; as [`next`](Self::next).
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Envelope>, Detached>> {
        self.buffer.poll(context)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(&self.session, &self.buffer);
    }
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    waiting: Mutex<Waiting>,
    with_children: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Arc<Envelope>>,
    /// What they carry, in bytes.
    bytes: usize,
    overflowed: bool,
    reader: Option<Waker>,
}

impl Buffer {
    pub(super) fn has_children(&self) -> bool {
        self.with_children.load(Ordering::Relaxed)
    }

    /// Takes an event in; `false` when the reader must be let go.
    pub(super) fn push(&self, event: &Arc<Envelope>) -> bool {
        let mut waiting = self.lock();
        if Piece::of(&event.event).is_some_and(|piece| waiting.join(piece, event.seq)) {
            return true;
        }
        let bytes = event.event.bytes();
        if waiting.has_no_room_for(bytes) || waiting.events.len() >= MOST_EVENTS {
            waiting.overflowed = true;
            wake(waiting);
            return false;
        }
        waiting.events.push_back(Arc::clone(event));
        waiting.bytes += bytes;
        wake(waiting);
        true
    }

    /// Joins a piece of text to one that waits, if the last event that waits is of the same message.
    pub(super) fn join(&self, piece: Piece<'_>, seq: u64) -> bool {
        self.lock().join(piece, seq)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn waiting(&self) -> (usize, usize) {
        let waiting = self.lock();
        (waiting.events.len(), waiting.bytes)
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Arc<Envelope>, Detached>> {
        let mut waiting = self.lock();
        match waiting.events.pop_front() {
            Some(event) => {
                waiting.bytes = waiting.bytes.saturating_sub(event.event.bytes());
                Poll::Ready(Ok(event))
            }
            None if waiting.overflowed => Poll::Ready(Err(Detached)),
            None => {
                match &mut waiting.reader {
                    Some(reader) => reader.clone_from(context.waker()),
                    None => waiting.reader = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

/// Wakes the reader, after the lock is released.
fn wake(mut waiting: MutexGuard<'_, Waiting>) {
    let reader = waiting.reader.take();
    drop(waiting);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Waiting {
    fn has_no_room_for(&self, bytes: usize) -> bool {
        // What carries nothing costs nothing.
        bytes > 0 && !self.events.is_empty() && self.bytes + bytes > MOST_BYTES
    }

    /// The reader was told of the event that waits, so it is not told again.
    fn join(&mut self, piece: Piece<'_>, seq: u64) -> bool {
        let bytes = piece.text.len();
        let is_joined =
            !self.has_no_room_for(bytes) && self.events.back_mut().is_some_and(|last| piece.join_to(last, seq));
        if is_joined {
            self.bytes += bytes;
        }
        is_joined
    }
}

/// A piece of a growing answer, or of the thoughts before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) is_answer: bool,
    pub(crate) text: &'a str,
}

impl<'a> Piece<'a> {
    /// The piece that an event tells; `None` of every other event.
    fn of(event: &'a AgentEvent) -> Option<Self> {
        let AgentEvent::LlmStreamChunk { message_id, delta } = event else { return None };
        let (is_answer, text) = match delta {
            Delta::Text(text) => (true, text),
            Delta::Reasoning(text) => (false, text),
            Delta::Reset => return None,
        };
        Some(Self { message_id, is_answer, text })
    }

    /// Joins it to the piece before it, if both are of one message and of one kind.
    fn join_to(self, last: &mut Arc<Envelope>, seq: u64) -> bool {
        let fits = |before: Piece<'_>| {
            before.is_answer == self.is_answer
                && before.text.len() + self.text.len() <= MOST_TEXT_BYTES
                && before.message_id == self.message_id
        };
        if !Piece::of(&last.event).is_some_and(fits) {
            return false;
        }
        let joined = Arc::make_mut(last);
        joined.seq = seq;
        if let AgentEvent::LlmStreamChunk { delta: Delta::Text(text) | Delta::Reasoning(text), .. } = &mut joined.event
        {
            text.push_str(self.text);
        }
        true
    }
}
