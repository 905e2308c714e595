//! One sink: its bounded queue, and the thread that calls it.

use super::EventSink;
use crate::panics::Panics;
use bob_messages::event::Envelope;
use bob_messages::ids::TurnId;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// How many events wait for a sink at most. Beyond half of it, pieces of a stream and other progress are dropped, so that
/// there is room for beginnings and ends.
const MOST_EVENTS: usize = 16_384;

/// How many bytes wait for a sink at most, by the size of what events carry. One event that is larger is still taken when
/// nothing waits.
const MOST_BYTES: usize = 64 * 1024 * 1024;

pub(super) enum SinkSeat {
    /// Called by the thread that tells the event.
    InPlace(Sink),
    /// Called by a thread of its own.
    Queued(Arc<Queue>, Arc<Sink>),
}

/// A sink whose panics do not reach the emitter. One that panics has lost what it was told.
pub(super) struct Sink {
    port: Arc<dyn EventSink>,
    panics: Panics,
}

impl Sink {
    fn emit(&self, envelope: &Envelope) {
        let _told_or_lost = self.panics.catch("emit", || self.port.emit(envelope));
    }

    fn submitted(&self, submission: &TurnId) -> bool {
        self.panics.catch("submitted", || self.port.submitted(submission)).unwrap_or(false)
    }

    fn answered(&self, submission: &TurnId) {
        let _told_or_lost = self.panics.catch("answered", || self.port.answered(submission));
    }
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Told>,
    /// What they carry, in bytes.
    bytes: usize,
    /// How many events were queued, and for how many of them the sink has returned.
    queued: u64,
    done: u64,
    /// How many were dropped, and how many of these the log was told of.
    lost: u64,
    told: u64,
    /// The feed is gone, or there is no thread: nothing more comes, or nothing is taken.
    is_closed: bool,
}

enum Told {
    Event(Arc<Envelope>),
    Answered(TurnId),
}

impl SinkSeat {
    /// Seats a sink. Its thread has the async runtime of the caller, if there is one, and ends with the feed, when it has
    /// told what was queued.
    pub(super) fn new(port: Arc<dyn EventSink>) -> Self {
        let sink = Sink { port, panics: Panics::of("event sink") };
        if sink.panics.catch("is_called_in_place", || sink.port.is_called_in_place()).unwrap_or(false) {
            return Self::InPlace(sink);
        }
        let sink = Arc::new(sink);
        let (queue, runtime) = (Arc::new(Queue::default()), Handle::try_current().ok());
        let (of_thread, of_seat) = (Arc::clone(&queue), Arc::clone(&sink));
        let started = thread::Builder::new().name("event-sink".into()).spawn(move || {
            let _runtime = runtime.as_ref().map(Handle::enter);
            of_thread.tell(&sink);
        });
        if let Err(error) = started {
            tracing::error!(%error, "a sink of events has no thread and gets nothing");
            queue.lock().is_closed = true;
        }
        Self::Queued(queue, of_seat)
    }

    /// Takes one event. Waits for nothing, unless the sink is called in place.
    pub(super) fn take(&self, envelope: &Arc<Envelope>, is_progress: bool) {
        match self {
            Self::InPlace(sink) => sink.emit(envelope),
            Self::Queued(queue, _) => queue.push(envelope, is_progress),
        }
    }

    /// How many events this sink has lost, since it took them too slowly.
    pub(super) fn lost(&self) -> u64 {
        match self {
            Self::InPlace(_) => 0,
            Self::Queued(queue, _) => queue.lock().lost,
        }
    }

    /// Tells of a submission, in the task of its caller; whether its end is to be told as well.
    pub(super) fn submitted(&self, submission: &TurnId) -> bool {
        match self {
            Self::InPlace(sink) => sink.submitted(submission),
            Self::Queued(queue, sink) => !queue.lock().is_closed && sink.submitted(submission),
        }
    }

    /// Tells that a submission is over, after the events before it.
    pub(super) fn answered(&self, submission: &TurnId) {
        match self {
            Self::InPlace(sink) => sink.answered(submission),
            Self::Queued(queue, _) => queue.push_answered(submission.clone()),
        }
    }

    /// Waits until the sink has had everything queued so far, at most for this long. Blocks.
    pub(super) fn flush(&self, limit: Duration) {
        if let Self::Queued(queue, _) = self {
            queue.wait_done(limit);
        }
    }
}

impl Drop for SinkSeat {
    fn drop(&mut self) {
        if let Self::Queued(queue, _) = self {
            queue.lock().is_closed = true;
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    fn push(&self, envelope: &Arc<Envelope>, is_progress: bool) {
        let bytes = envelope.event.bytes();
        let most = if is_progress { MOST_EVENTS / 2 } else { MOST_EVENTS };
        let mut state = self.lock();
        let is_too_much = !state.waiting.is_empty() && state.bytes + bytes > MOST_BYTES;
        if state.is_closed || is_too_much || state.waiting.len() >= most {
            state.lost += 1;
            return;
        }
        state.waiting.push_back(Told::Event(Arc::clone(envelope)));
        state.bytes += bytes;
        state.queued += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// An end is never dropped: a sink keeps something until it comes.
    fn push_answered(&self, submission: TurnId) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.waiting.push_back(Told::Answered(submission));
        state.queued += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Calls the sink with what comes, until the feed is gone.
    fn tell(&self, sink: &Sink) {
        loop {
            let state = self.lock();
            let waited = self.changed.wait_while(state, |state| state.waiting.is_empty() && !state.is_closed);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            match state.waiting.pop_front() {
                Some(Told::Event(envelope)) => {
                    state.bytes -= envelope.event.bytes();
                    drop(state);
                    sink.emit(&envelope);
                }
                Some(Told::Answered(submission)) => {
                    drop(state);
                    sink.answered(&submission);
                }
                None => return,
            }
            let mut state = self.lock();
            state.done += 1;
            let untold = if state.waiting.is_empty() { state.lost - state.told } else { 0 };
            state.told += untold;
            drop(state);
            self.changed.notify_all();
            if untold > 0 {
                tracing::warn!(lost = untold, "a sink of events was too slow and has lost some");
            }
        }
    }

    fn wait_done(&self, limit: Duration) {
        let state = self.lock();
        let wanted = state.queued;
        let is_open = |state: &mut State| state.done < wanted && !state.is_closed;
        let _in_time_or_not = self.changed.wait_timeout_while(state, limit, is_open);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
