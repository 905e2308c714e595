//! Who watches what: events go from here to sinks and to the readers of sessions.
//!
//! Actors and tasks emit their events here; the feed sends no requests. Emitting never waits: a sink has a bounded
//! queue and a thread of its own, and a reader a bounded buffer. When a sink's queue is full, it loses events, which
//! are counted. When a buffer is full of states, the reader is detached, not the turn; pieces of text are joined until
//! they are read, so a slow reader costs bounded memory.

#[cfg(any(test, feature = "testing"))]
pub mod contract;
mod sink;
mod subscription;

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;

use bob_messages::Millis;
use bob_messages::agent::MAX_DEPTH;
use bob_messages::event::{AgentEvent, CallState, Envelope, StepEvent};
use bob_messages::ids::{SessionId, TenantId, TurnId};
use bob_messages::options::ParentTurn;
use foldhash::fast::RandomState;
use sink::SinkSeat;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use subscription::Buffer;
pub(crate) use subscription::Piece;
pub use subscription::{Detached, Subscription};

/// Port for receiving every event of a runtime.
pub trait EventSink: Send + Sync + 'static {
    /// Takes one event. Called by a thread of this sink, one event after the other, the events of a session in their
    /// order. It may block: no turn waits for it. A sink that falls more than 16,384 events (pieces of streams: half of
    /// it) or 64 MiB behind loses what comes meanwhile; that is counted in the metrics and logged. A panic in it loses
    /// that event for this sink only.
    fn emit(&self, event: &Envelope);

    /// A request was submitted that begins this turn, or a reply with this id to a suspended one. Called in the task of
    /// the caller, before the turn goes on, so it must not block: for what surrounds the caller, such as its span.
    /// Whether this sink needs to be told its end by [`answered`](Self::answered).
    fn submitted(&self, _submission: &TurnId) -> bool {
        false
    }

    /// A submission is over, also one that was refused or whose turn never began. Called as [`emit`](Self::emit), after
    /// the events of its turn.
    fn answered(&self, _submission: &TurnId) {}

    /// Whether events are told on the thread that makes them, before the turn goes on, and
    /// under the feed's lock: then it must neither block nor subscribe nor tell the progress of a call, since every session
    /// waits meanwhile. For tests and drills, which act between two moves of a turn.
    fn is_called_in_place(&self) -> bool {
        false
    }
}

/// The one place events pass through.
pub struct Feed {
    sinks: Vec<SinkSeat>,
    /// How many readers there are; without any and without sinks, nothing is made.
    readers: AtomicUsize,
    /// How many events of the tree were told.
    of_tree: AtomicU64,
    watched: Mutex<HashMap<SessionId, Watched, RandomState>>,
}

/// One session that has readers, or whose turn a sink follows.
#[derive(Default)]
struct Watched {
    turn: Option<TurnId>,
    /// That turn has had its last event.
    is_over: bool,
    seq: u64,
    traceparent: Option<String>,
    tenant: Option<TenantId>,
    /// The epoch under which its turn is written, as far as the turn has told it.
    epoch: Option<u64>,
    parent: Option<Arc<ParentTurn>>,
    buffers: Vec<Arc<Buffer>>,
}

impl Feed {
    /// A feed with these sinks, each with a thread of its own.
    pub fn new(sinks: Vec<Arc<dyn EventSink>>) -> Arc<Self> {
        let sinks = sinks.into_iter().map(SinkSeat::new).collect();
        Arc::new(Self { sinks, readers: AtomicUsize::new(0), of_tree: AtomicU64::new(0), watched: Mutex::default() })
    }

    /// Whether an event has a reader or a sink now.
    pub fn is_watched(&self) -> bool {
        !self.sinks.is_empty() || self.readers.load(Ordering::Acquire) > 0
    }

    /// The session's turn of which events were given to a reader or a sink, and not yet the last one.
    pub fn open_turn(&self, session: &SessionId) -> Option<TurnId> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.get(session).filter(|entry| !entry.is_over)?.turn.clone()
    }

    /// Watches a session from now on. Dropping the subscription ends it.
    pub fn subscribe(self: &Arc<Self>, session: &SessionId) -> Subscription {
        let buffer = Arc::new(Buffer::default());
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(session.clone()).or_default().buffers.push(Arc::clone(&buffer));
        self.readers.fetch_add(1, Ordering::Release);
        drop(watched);
        Subscription::new(Arc::clone(self), session.clone(), buffer)
    }

    /// Tells one event of a turn, from outside the turn. It has the epoch of the turn's own events.
    pub fn emit(&self, session: &SessionId, turn: &TurnId, at: Millis, event: impl Into<StepEvent>) {
        self.emit_under(None, session, turn, at, event);
    }

    /// The turn's owner writes under this epoch from now on.
    pub fn owned_under(&self, epoch: u64, session: &SessionId, turn: &TurnId) {
        if !self.is_watched() {
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = watched.get_mut(session).filter(|entry| entry.turn.as_ref() == Some(turn)) {
            entry.epoch = Some(epoch);
        }
    }

    /// Tells one event of a turn. The turn itself names the epoch under which it is written.
    pub fn emit_under(
        &self,
        epoch: Option<u64>,
        session: &SessionId,
        turn: &TurnId,
        at: Millis,
        event: impl Into<StepEvent>,
    ) {
        if !self.is_watched() {
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let told = event.into();
        let is_followed =
            watched.contains_key(session) || above(&told.event).is_some_and(|id| watched.contains_key(id));
        if self.sinks.is_empty() && !is_followed {
            return;
        }
        let (is_last, is_progress) = (told.event.is_terminal().is_some(), is_beside(&told.event));
        if is_progress && watched.get(session).is_none_or(|entry| !entry.expects(turn)) {
            return;
        }
        let entry = watched.entry(session.clone()).or_default();
        // An input that ended while it waited; the turn that runs goes on counting.
        let is_apart = is_last && !entry.is_over && entry.turn.as_ref().is_some_and(|running| running != turn);
        let envelope = Arc::new(if is_apart {
            Envelope::of_turn(session, turn, at, 1, None, told)
        } else {
            entry.count(turn, &told.event);
            entry.epoch = epoch.or(entry.epoch);
            let envelope = Envelope::of_turn(session, turn, at, entry.seq, entry.traceparent.as_deref(), told);
            Envelope { tenant: entry.tenant.clone(), epoch: entry.epoch, parent: entry.parent.clone(), ..envelope }
        });
        entry.buffers.retain(|buffer| buffer.push(&envelope));
        let mut parent = entry.parent.clone();
        if is_last && !is_apart && entry.buffers.is_empty() {
            watched.remove(session);
        }
        // A program may name sessions as parents of each other.
        for _level in 0..MAX_DEPTH {
            let Some(above) = parent.and_then(|parent| watched.get_mut(&parent.session)) else { break };
            above.buffers.retain(|buffer| !buffer.has_children() || buffer.push(&envelope));
            parent = above.parent.clone();
        }
        // Still under the lock, so that a sink gets a turn's events in their order.
        self.tell_sinks(&envelope, is_progress);
    }

    /// Joins a piece of a growing answer to the one before it, if the only reader of the session has not read that one
    /// yet: then it needs no event of its own. `false` when it was not joined, and must be told.
    pub(crate) fn join(&self, session: &SessionId, turn: &TurnId, piece: Piece<'_>) -> bool {
        if !self.sinks.is_empty() {
            return false;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = watched.get_mut(session).filter(|entry| entry.turn.as_ref() == Some(turn)) else {
            return false;
        };
        let is_joined = !entry.is_over && matches!(&*entry.buffers, [reader] if reader.join(piece, entry.seq + 1));
        entry.seq += u64::from(is_joined);
        is_joined
    }

    /// Tells the sinks that a request is submitted. What is returned is dropped when the submission is over.
    pub fn submitted(self: &Arc<Self>, submission: &TurnId) -> Option<Submitted> {
        // Each of them is told, also behind one that follows.
        let followers = self.sinks.iter().filter(|sink| sink.submitted(submission)).count();
        (followers > 0).then(|| Submitted { feed: Arc::clone(self), submission: submission.clone() })
    }

    /// The turn was refused: whatever was told of it, no last event follows.
    pub fn forget(&self, session: &SessionId, turn: &TurnId) {
        if !self.is_watched() {
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let is_its_own = |entry: &&mut Watched| entry.turn.as_ref() == Some(turn);
        let Some(entry) = watched.get_mut(session).filter(is_its_own) else { return };
        entry.is_over = true;
        if entry.buffers.is_empty() {
            watched.remove(session);
        }
    }

    /// Tells the sinks one event of the tree, which belongs to no session: readers of sessions do not get it.
    pub fn emit_of_tree(&self, at: Millis, event: AgentEvent) {
        if self.sinks.is_empty() {
            return;
        }
        // Sinks get the tree's events in their order.
        let _one_at_a_time = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = self.of_tree.fetch_add(1, Ordering::Relaxed) + 1;
        let envelope = Arc::new(Envelope::of_tree(seq, at, event));
        self.tell_sinks(&envelope, false);
    }

    fn tell_sinks(&self, envelope: &Arc<Envelope>, is_progress: bool) {
        self.sinks.iter().for_each(|sink| sink.take(envelope, is_progress));
    }

    /// How many events sinks have lost, since they took them too slowly.
    pub fn lost(&self) -> u64 {
        self.sinks.iter().map(SinkSeat::lost).sum()
    }

    /// Waits until every sink has had what was told so far, at most for this long in all. At the end of a runtime:
    /// sinks go on without it, but not without the process.
    pub async fn flush(self: &Arc<Self>, limit: Duration) {
        let feed = Arc::clone(self);
        let until = Instant::now() + limit;
        let wait =
            move || feed.sinks.iter().for_each(|sink| sink.flush(until.saturating_duration_since(Instant::now())));
        let _told_or_left = tokio::task::spawn_blocking(wait).await;
    }

    fn unsubscribe(&self, session: &SessionId, buffer: &Arc<Buffer>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        self.readers.fetch_sub(1, Ordering::Release);
        if let Some(entry) = watched.get_mut(session) {
            entry.buffers.retain(|other| !Arc::ptr_eq(other, buffer));
            let is_followed = !self.sinks.is_empty() && entry.turn.is_some() && !entry.is_over;
            if entry.buffers.is_empty() && !is_followed {
                watched.remove(session);
            }
        }
    }
}

/// A submission that sinks follow to its end.
#[derive(Debug)]
pub struct Submitted {
    feed: Arc<Feed>,
    submission: TurnId,
}

impl Drop for Submitted {
    fn drop(&mut self) {
        // Behind the events that were queued before.
        self.feed.sinks.iter().for_each(|sink| sink.answered(&self.submission));
    }
}

impl Watched {
    /// Whether a piece of this turn's answer comes in time. One that is told from
    /// outside the turn may come late; it then belongs to nothing.
    fn expects(&self, turn: &TurnId) -> bool {
        self.turn.as_ref().is_none_or(|current| current == turn && !self.is_over)
    }

    /// Counts an event of this turn, which is the current one from now on.
    fn count(&mut self, turn: &TurnId, event: &AgentEvent) {
        if self.turn.as_ref() != Some(turn) || (self.is_over && matches!(event, AgentEvent::TurnStarted { .. })) {
            self.turn = Some(turn.clone());
            self.seq = 0;
            (self.traceparent, self.tenant, self.epoch, self.parent) = (None, None, None, None);
        }
        if let AgentEvent::TurnStarted { traceparent, context, parent, .. } = event {
            self.parent = parent.as_ref().filter(|parent| parent.line.is_some()).cloned().map(Arc::new);
            self.traceparent.clone_from(traceparent);
            self.tenant = context.as_ref().and_then(|context| context.tenant.clone());
        }
        self.seq += 1;
        self.is_over = event.is_terminal().is_some();
    }
}

/// The session that waits for the turn that begins with this event, if it is that of a sub-agent.
fn above(event: &AgentEvent) -> Option<&SessionId> {
    let AgentEvent::TurnStarted { parent: Some(parent), .. } = event else { return None };
    parent.line.is_some().then_some(&parent.session)
}

/// Events that are told beside the turn's own walk, by the model side and by running calls.
fn is_beside(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::LlmStreamChunk { .. } | AgentEvent::LlmRetried { .. } => true,
        AgentEvent::ToolCalled { state, .. } => *state == CallState::Progress,
        _told_by_the_turn => false,
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("sinks", &self.sinks.len()).field("readers", &self.readers).finish()
    }
}
