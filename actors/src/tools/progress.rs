//! Progress of a running call: events beside the machine, as the pieces of an answer are.
//!
//! Nothing waits for them, they are not stored, and without readers none is made.

use super::runtime_handle::RuntimeHandle;
use crate::clock;
use crate::feed::Feed;
use bob_messages::chat::ToolCall;
use bob_messages::event::{AgentEvent, CallState, Progress};
use bob_messages::reply::{Pulse, SoFar};
use bob_messages::tools::{CallContext, ToolKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How much time lies between two that are told of one call; what comes in between is left out.
const APART: Duration = Duration::from_millis(100);

/// The longest message that is told, in bytes.
const MESSAGE_BYTES: usize = 1024;

/// What a call has of its runtime: where its progress is reported, and the way to the runtime itself. For code that makes
/// an [`Invocation`](super::Invocation).
#[derive(Debug, Clone, Default)]
pub struct ProgressRoom {
    feed: Option<Arc<Feed>>,
    /// Where the call's output is kept until there is a result.
    so_far: SoFar,
    runtime: RuntimeHandle,
}

/// A handle by which one call tells its progress. Clones tell of the same call.
#[derive(Debug, Clone)]
pub struct ProgressSink(Option<Arc<Telling>>);

#[derive(Debug)]
struct Telling {
    feed: Arc<Feed>,
    call: Arc<ToolCall>,
    context: Arc<CallContext>,
    pulse: Pulse,
    told: Mutex<Option<Instant>>,
}

impl ProgressRoom {
    pub(crate) fn of(feed: Option<Arc<Feed>>) -> Self {
        Self { feed, ..Self::default() }
    }

    pub(crate) fn within(self, runtime: &RuntimeHandle) -> Self {
        Self { runtime: runtime.clone(), ..self }
    }

    /// For calls whose progress is not reported.
    pub fn unread() -> Self {
        Self::default()
    }

    /// The progress of one call, whose output is kept in `so_far`.
    pub(super) fn keeping(&self, so_far: &SoFar) -> Self {
        Self { feed: self.feed.clone(), so_far: so_far.clone(), runtime: self.runtime.clone() }
    }

    /// Where the call's output is kept until there is a result.
    pub(super) fn so_far(&self) -> &SoFar {
        &self.so_far
    }

    pub(super) fn runtime(&self) -> &RuntimeHandle {
        &self.runtime
    }

    pub(super) fn sink(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> ProgressSink {
        ProgressSink(self.feed.as_ref().map(|feed| {
            let (feed, call, context) = (Arc::clone(feed), Arc::clone(call), Arc::clone(context));
            let (pulse, told) = (self.so_far.pulse().clone(), Mutex::default());
            Arc::new(Telling { feed, call, context, pulse, told })
        }))
    }
}

impl ProgressSink {
    /// Tells how much is done, in the tool's own unit, of how much, if that is known, and what is done now. Never waits.
    /// At most ten of a call are told in a second; the others are left out.
    pub fn tell(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(telling) = &self.0 else { return };
        telling.pulse.beat();
        // JSON has no other numbers.
        if !telling.feed.is_watched() || !done.is_finite() || !telling.is_time() {
            return;
        }
        let message = message.map(|message| message[..message.floor_char_boundary(MESSAGE_BYTES)].to_owned());
        let progress = Some(Progress { done, total: total.filter(|total| total.is_finite()), message });
        let CallContext { session, turn, step, .. } = &*telling.context;
        let event = AgentEvent::ToolCalled {
            call: Arc::clone(&telling.call),
            title: String::new(),
            kind: ToolKind::default(),
            state: CallState::Progress,
            progress,
        };
        telling.feed.emit(session, turn, clock::now(), event.in_step(*step));
    }
}

impl Telling {
    fn is_time(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_time = told.is_none_or(|told| now.duration_since(told) >= APART);
        if is_time {
            *told = Some(now);
        }
        is_time
    }
}
