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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// How much time lies between two that are told of one call; of what comes in between, the last is told behind it.
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
pub struct ProgressSink(Option<Arc<Open>>);

/// The call may go on: nothing is told any more when the last clone of a sink is dropped.
#[derive(Debug)]
struct Open(Arc<Telling>);

#[derive(Debug)]
struct Telling {
    feed: Arc<Feed>,
    call: Arc<ToolCall>,
    context: Arc<CallContext>,
    pulse: Pulse,
    told: Mutex<Told>,
    /// Where what has to wait waits; `None` outside of one, and nothing is told later then.
    runtime: Option<Handle>,
}

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    /// What came too soon behind it.
    waits: Option<Progress>,
    is_over: bool,
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
            let runtime = Handle::try_current().ok();
            Arc::new(Open(Arc::new(Telling { feed, call, context, pulse, told, runtime })))
        }))
    }
}

impl ProgressSink {
    /// Tells how much is done, in the tool's own unit, of how much, if that is known, and what is done now. Never waits.
    /// At most ten of a call are told in a second. Of those that come sooner the last one is told when its time has come, if
    /// the call has not ended by then and this was made within a tokio runtime; the others are left out.
    pub fn tell(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(Open(telling)) = self.0.as_deref() else { return };
        telling.pulse.beat();
        // JSON has no other numbers.
        if !telling.feed.is_watched() || !done.is_finite() {
            return;
        }
        let message = message.map(|message| message[..message.floor_char_boundary(MESSAGE_BYTES)].to_owned());
        telling.tell(Progress { done, total: total.filter(|total| total.is_finite()), message });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.told().is_over = true;
    }
}

impl Telling {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(self: &Arc<Self>, progress: Progress) {
        let mut told = self.told();
        let now = Instant::now();
        match told.last.map(|last| last + APART).filter(|next| *next > now) {
            None => {
                (told.last, told.waits) = (Some(now), None);
                self.emit(progress);
            }
            Some(next) => {
                let is_first = told.waits.replace(progress).is_none();
                if let Some(runtime) = self.runtime.as_ref().filter(|_| is_first) {
                    let telling = Arc::clone(self);
                    runtime.spawn(async move {
                        sleep_until(next).await;
                        telling.tell_waiting();
                    });
                }
            }
        }
    }

    /// The lock is held until it is told, so that nothing comes behind the result of the call.
    fn tell_waiting(&self) {
        let mut told = self.told();
        let now = Instant::now();
        if told.last.is_some_and(|last| last + APART > now) {
            // One was told meanwhile; what came too soon behind that has its own time.
            return;
        }
        if let Some(progress) = told.waits.take().filter(|_| !told.is_over) {
            told.last = Some(now);
            self.emit(progress);
        }
    }

    fn emit(&self, progress: Progress) {
        let CallContext { session, turn, step, .. } = &*self.context;
        let event = AgentEvent::ToolCalled {
            call: Arc::clone(&self.call),
            title: String::new(),
            kind: ToolKind::default(),
            state: CallState::Progress,
            progress: Some(progress),
        };
        self.feed.emit(session, turn, clock::now(), event.in_step(*step));
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
