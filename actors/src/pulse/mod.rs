//! Whether the actors of a runtime get on with their messages.
//!
//! Owns one stamp for each actor: two words are stored for each message, one at the head
//! of its handler and one at its end. Whoever starts an actor wraps it in [`Attended`],
//! which does that and nothing else. The handlers themselves know nothing of it. It
//! reads no clock on the way of a message and never touches an actor.
//!
//! | file | owns |
//! |---|---|
//! | `attended` | the wrapper around an actor |
//! | `hook` | where a test can act on an actor |
//! | `kinds` | what kinds of messages there are, by name |
//! | `watch` | the thread that tells of handlers that block |

mod attended;
mod hook;
mod kinds;
mod watch;

pub use attended::Attended;
pub use hook::{Hook, Kill};
pub use kinds::Kinds;
pub use watch::{BLOCKED_AFTER, Blocked};

use bob_messages::ids::SessionId;
use ractor::ActorProcessingErr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The actors of one runtime. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Pulses(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Whether anybody looks at those who start.
    is_watched: AtomicBool,
    /// Nobody is to look any more.
    rests: AtomicBool,
    /// Those who started since the last look.
    newcomers: Mutex<Vec<Arc<Stamp>>>,
    /// The oldest first.
    incidents: Mutex<Vec<Blocked>>,
    times_blocked: AtomicU64,
    hook: Option<Arc<dyn Hook>>,
}

/// Where an actor stands in the tree: `store`, `tools/local`, `sessions/<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The actor of a session.
    Session(SessionId),
    /// Any other, by the names of its supervisors below the root and its own with `/` between.
    Room(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => write!(f, "sessions/{session}"),
            Self::Room(path) => f.write_str(path),
        }
    }
}

impl Pulses {
    /// With a hook in every actor, if there is one.
    pub fn with_hook(hook: Option<Arc<dyn Hook>>) -> Self {
        Self(Arc::new(Inner { hook, ..Inner::default() }))
    }

    /// The actor of a session is about to perform one more of a message's effects.
    pub(crate) fn before_effect(
        &self,
        session: &SessionId,
        of: &'static str,
        performed: usize,
    ) -> Result<(), ActorProcessingErr> {
        match &self.0.hook {
            Some(hook) => hook.effect(&Place::Session(session.clone()), of, performed),
            None => Ok(()),
        }
    }

    /// The actor that is about to start at this place.
    pub fn attend<A: ractor::Actor<Msg: Kinds>>(&self, actor: A, place: Place) -> Attended<A> {
        Attended::new(actor, self.pulse(place, A::Msg::KINDS))
    }

    fn pulse(&self, place: Place, kinds: &'static [&'static str]) -> Pulse {
        let stamp = Arc::new(Stamp { word: AtomicU64::new(0), place, kinds });
        if self.0.is_watched.load(Ordering::Acquire) {
            self.0.newcomers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&stamp));
        }
        Pulse { stamp, hook: self.0.hook.clone() }
    }
}

/// What one actor does now.
#[derive(Debug)]
struct Pulse {
    stamp: Arc<Stamp>,
    hook: Option<Arc<dyn Hook>>,
}

#[derive(Debug)]
struct Stamp {
    /// The number of the message in the upper 56 bits; in the lower eight its kind plus
    /// one while its handler runs, and nothing between two messages.
    word: AtomicU64,
    place: Place,
    kinds: &'static [&'static str],
}

/// A handler that runs. Dropped at its end, also by a kill and a panic.
struct Beat<'a> {
    word: &'a AtomicU64,
    number: u64,
}

impl Pulse {
    /// Calls the hook, if there is one.
    fn before(&self, kind: &'static str) -> Result<(), ActorProcessingErr> {
        match &self.hook {
            Some(hook) => hook.before(&self.stamp.place, kind),
            None => Ok(()),
        }
    }

    /// Only the actor's own handler stores, so a load and a store are enough.
    fn beat(&self, kind: u8) -> Beat<'_> {
        let word = &self.stamp.word;
        let number = (word.load(Ordering::Relaxed) & !0xff).wrapping_add(0x100);
        word.store(number | (u64::from(kind) + 1), Ordering::Relaxed);
        Beat { word, number }
    }
}

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        self.word.store(self.number, Ordering::Relaxed);
    }
}
