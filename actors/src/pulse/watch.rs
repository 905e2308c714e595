//! The thread that looks whether handlers come to their end.
//!
//! It is a thread of its own, because a handler that blocks holds one of the threads the
//! actors run on. It looks at every stamp, twice in the time after which a handler is said
//! to block, and tells of one that has not moved: once when it blocks, and again, as a
//! warning, after 1 s and after 10 s. It never ends or wakes an actor. It ends with its runtime.

use super::attended::SUPERVISION;
use super::{Inner, Place, Pulses, Stamp};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A handler that takes this long blocks, unless the runtime is told otherwise. Handlers
/// never wait, so most take microseconds.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(100);

/// When a handler that still blocks is told of again.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// What is said of a handler that blocks.
const BLOCKS: &str = "a handler blocks: until it ends, its actor hears nothing and one thread does nothing else";

/// How many incidents are kept to be shown; the oldest go first.
const MOST_KEPT: usize = 64;

/// Looking takes at most this part of one core's time, however many actors there are.
const SHARE: u32 = 50;

/// A handler that blocks, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Whose.
    pub place: Place,
    /// The kind of message it handles.
    pub message: &'static str,
    /// For how long at least, in milliseconds.
    pub for_ms: u64,
    /// Whether it has come to its end.
    pub is_over: bool,
}

impl Pulses {
    /// Looks from now on whether the actors that start here get on, until
    /// [`rest`](Self::rest) or the last clone is dropped. A second call changes nothing.
    pub fn watch(&self, blocked_after: Duration) {
        let was_watched = self.0.is_watched.swap(true, Ordering::AcqRel);
        if was_watched {
            return;
        }
        let mut watch = Watch::new(Arc::downgrade(&self.0), blocked_after.max(Duration::from_millis(1)));
        let thread = std::thread::Builder::new().name("bob-pulse".to_owned()).spawn(move || watch.go_on());
        if let Err(error) = thread {
            // The house stands without it.
            tracing::warn!(target: "bob::pulse", %error, "nobody looks whether handlers block: no thread could be started");
        }
    }

    /// Looks no longer.
    pub fn rest(&self) {
        self.0.rests.store(true, Ordering::Release);
    }

    /// The handlers that block or did, the last 64, the oldest first.
    pub fn blocked(&self) -> Vec<Blocked> {
        self.0.incidents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often a handler blocked.
    pub fn times_blocked(&self) -> u64 {
        self.0.times_blocked.load(Ordering::Relaxed)
    }
}

/// What the thread keeps.
struct Watch {
    pulses: Weak<Inner>,
    blocked_after: Duration,
    seen: Vec<Seen>,
    /// Stands still while the whole program does, so that a machine that slept has no handlers that block.
    clock: Duration,
}

/// What is known of one actor.
struct Seen {
    stamp: Arc<Stamp>,
    word: u64,
    /// When this word was seen first.
    since: Duration,
    /// How often its handler was told of.
    told: usize,
}

impl Watch {
    fn new(pulses: Weak<Inner>, blocked_after: Duration) -> Self {
        Self { pulses, blocked_after, seen: Vec::new(), clock: Duration::ZERO }
    }

    fn go_on(&mut self) {
        let pause = self.blocked_after / 2;
        let mut sleep = pause;
        loop {
            let slept = Instant::now();
            std::thread::sleep(sleep);
            let Some(pulses) = self.pulses.upgrade().filter(|pulses| !pulses.rests.load(Ordering::Acquire)) else {
                return;
            };
            self.clock += slept.elapsed().min(sleep * 2);
            let began = Instant::now();
            self.look(&pulses);
            sleep = pause.max(began.elapsed() * SHARE);
        }
    }

    fn look(&mut self, pulses: &Inner) {
        let clock = self.clock;
        let newcomers = std::mem::take(&mut *pulses.newcomers.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen.extend(newcomers.into_iter().map(|stamp| Seen { stamp, word: 0, since: clock, told: 0 }));
        let levels = [self.blocked_after, AGAIN_AFTER[0], AGAIN_AFTER[1]];
        self.seen.retain_mut(|seen| {
            let word = seen.stamp.word.load(Ordering::Relaxed);
            let busy_for = clock.saturating_sub(seen.since);
            if word != seen.word {
                if seen.told > 0 {
                    pulses.note(seen, busy_for, true);
                }
                (seen.word, seen.since, seen.told) = (word, clock, 0);
            } else if word & 0xff != 0 && levels.get(seen.told).is_some_and(|&level| busy_for >= level) {
                // A threshold of more than a second passes the next levels, too.
                seen.told = levels.iter().rposition(|&level| busy_for >= level).map_or(0, |last| last + 1);
                pulses.note(seen, busy_for, false);
            }
            // The actor has ended when nobody else has its stamp.
            Arc::strong_count(&seen.stamp) > 1
        });
        if self.seen.capacity() > 1_024 && self.seen.len() < self.seen.capacity() / 8 {
            self.seen.shrink_to(self.seen.len() * 2);
        }
    }
}

impl Inner {
    fn note(&self, seen: &Seen, busy_for: Duration, is_over: bool) {
        let place = &seen.stamp.place;
        let message = seen.message();
        let for_ms = u64::try_from(busy_for.as_millis()).unwrap_or(u64::MAX);
        if is_over {
            tracing::info!(target: "bob::pulse", actor = %place, message, for_ms, "a handler that blocked has come to its end");
        } else if busy_for < AGAIN_AFTER[0] {
            // On a crowded machine a thread may get no time for so long; the tree shows it.
            tracing::info!(target: "bob::pulse", actor = %place, message, for_ms, "{BLOCKS}");
        } else {
            tracing::warn!(target: "bob::pulse", actor = %place, message, for_ms, "{BLOCKS}");
        }
        let mut incidents = self.incidents.lock().unwrap_or_else(PoisonError::into_inner);
        match incidents.iter_mut().find(|known| !known.is_over && known.place == *place) {
            Some(known) => (known.for_ms, known.is_over) = (for_ms, is_over),
            None => {
                self.times_blocked.fetch_add(1, Ordering::Relaxed);
                if incidents.len() >= MOST_KEPT {
                    incidents.remove(0);
                }
                incidents.push(Blocked { place: place.clone(), message, for_ms, is_over });
            }
        }
    }
}

impl Seen {
    /// What its handler handles, or did when it was seen last.
    fn message(&self) -> &'static str {
        match u8::try_from(self.word & 0xff).ok().and_then(|kind| kind.checked_sub(1)) {
            Some(SUPERVISION) => "SupervisionEvent",
            Some(kind) => self.stamp.kinds.get(usize::from(kind)).copied().unwrap_or("?"),
            None => "?",
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
