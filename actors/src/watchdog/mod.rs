//! Detects message handlers that block, in all actors of a runtime.
//!
//! Owns one stamp for each actor, which is written at the beginning and at the end of each handler. Every actor is
//! started inside the wrapper [`Watched`], which does just that; the handlers know nothing of it. No clock is read on
//! the way of a message, and no actor is ever touched.
//!
//! | file | owns |
//! |---|---|
//! | `watched` | the wrapper around an actor |
//! | `hook` | where a test can act on an actor |
//! | `kinds` | what kinds of messages there are, by name |
//! | `watch` | the thread that tells of handlers that block |

mod hook;
mod kinds;
mod watch;
mod watched;

pub use hook::{Hook, Kill};
pub use kinds::Kinds;
pub use watch::{BLOCKED_AFTER, Blocked};
pub use watched::Watched;

use bob_messages::ids::SessionId;
use ractor::ActorProcessingErr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The watchdog of one runtime. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Watchdog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Whether the thread runs, so that new stamps are to be added.
    is_watched: AtomicBool,
    /// The thread is to end.
    stopped: AtomicBool,
    /// The stamps of actors that started since the last check.
    new_stamps: Mutex<Vec<Arc<Stamp>>>,
    incidents: Mutex<Vec<Blocked>>,
    times_blocked: AtomicU64,
    hook: Option<Arc<dyn Hook>>,
}

/// The path of an actor in the tree: `store`, `tools/local`, `sessions/<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActorPath {
    /// The actor of a session.
    Session(SessionId),
    /// Any other, by the names of its supervisors below the root and its own with `/` between.
    Room(Arc<str>),
}

impl fmt::Display for ActorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => write!(f, "sessions/{session}"),
            Self::Room(path) => f.write_str(path),
        }
    }
}

impl Watchdog {
    /// Creates a watchdog whose wrappers call this hook, if there is one.
    pub fn with_hook(hook: Option<Arc<dyn Hook>>) -> Self {
        Self(Arc::new(Inner { hook, ..Inner::default() }))
    }

    /// Calls the hook before a session's actor performs one more effect of a message.
    pub(crate) fn before_effect(
        &self,
        session: &SessionId,
        of: &'static str,
        performed: usize,
    ) -> Result<(), ActorProcessingErr> {
        match &self.0.hook {
            Some(hook) => hook.effect(&ActorPath::Session(session.clone()), of, performed),
            None => Ok(()),
        }
    }

    /// Wraps an actor that is about to be started at this path.
    pub fn wrap<A: ractor::Actor<Msg: Kinds>>(&self, actor: A, path: ActorPath) -> Watched<A> {
        Watched::new(actor, self.monitor(path, A::Msg::KINDS))
    }

    fn monitor(&self, path: ActorPath, kinds: &'static [&'static str]) -> Monitor {
        let stamp = Arc::new(Stamp { word: AtomicU64::new(0), path, kinds });
        if self.0.is_watched.load(Ordering::Acquire) {
            self.0.new_stamps.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&stamp));
        }
        Monitor { stamp, hook: self.0.hook.clone() }
    }
}

#[derive(Debug)]
struct Monitor {
    stamp: Arc<Stamp>,
    hook: Option<Arc<dyn Hook>>,
}

#[derive(Debug)]
struct Stamp {
    /// The number of the message in the upper 56 bits; in the lower eight its kind plus
    /// one while its handler runs, and nothing between two messages.
    word: AtomicU64,
    path: ActorPath,
    kinds: &'static [&'static str],
}

/// Marks a running handler. Dropped at its end, also by a kill and a panic.
struct InHandler<'a> {
    word: &'a AtomicU64,
    number: u64,
}

impl Monitor {
    /// Calls the hook, if there is one.
    fn before(&self, kind: &'static str) -> Result<(), ActorProcessingErr> {
        match &self.hook {
            Some(hook) => hook.before(&self.stamp.path, kind),
            None => Ok(()),
        }
    }

    /// Only the actor's own handler stores, so a load and a store are enough.
    fn enter(&self, kind: u8) -> InHandler<'_> {
        let word = &self.stamp.word;
        let number = (word.load(Ordering::Relaxed) & !0xff).wrapping_add(0x100);
        word.store(number | (u64::from(kind) + 1), Ordering::Relaxed);
        InHandler { word, number }
    }
}

impl Drop for InHandler<'_> {
    fn drop(&mut self) {
        self.word.store(self.number, Ordering::Relaxed);
    }
}
