//! The thread that detects blocked handlers.
//!
//! It is a thread of its own, because a handler that blocks holds one of the threads the actors run on. It checks
//! every stamp twice per threshold and reports one that has not moved: once at the threshold, and again, as a
//! warning, after 1 s and after 10 s. It never ends or wakes an actor. It ends with its runtime.

use super::watched::SUPERVISION;
use super::{ActorPath, Inner, Stamp, Watchdog};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The default threshold after which a handler counts as blocked. Handlers never wait, so most take microseconds.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(100);

/// When a handler that still blocks is reported again.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// The log message about a handler that blocks.
const BLOCKS: &str = "a handler blocks: until it ends, its actor hears nothing and one thread does nothing else";

/// The most incidents kept for display; the oldest are dropped first.
const MOST_KEPT: usize = 64;

/// The checks take at most this fraction of one core, however many actors there are.
const SHARE: u32 = 50;

/// A handler that blocks, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The actor whose handler blocks.
    pub path: ActorPath,
    /// The kind of message it handles.
    pub message: &'static str,
    /// A lower bound of the time it blocked, in milliseconds.
    pub for_ms: u64,
    /// Whether the handler has returned.
    pub is_over: bool,
}

impl Watchdog {
    /// Starts the thread, which watches the actors started from now on until [`stop`](Self::stop) or until the last
    /// clone is dropped. A second call has no effect.
    pub fn watch(&self, blocked_after: Duration) {
        let was_watched = self.0.is_watched.swap(true, Ordering::AcqRel);
        if was_watched {
            return;
        }
        let mut watch = Watch::new(Arc::downgrade(&self.0), blocked_after.max(Duration::from_millis(1)));
        let thread = std::thread::Builder::new().name("bob-watchdog".to_owned()).spawn(move || watch.go_on());
        if let Err(error) = thread {
            // The runtime works without it.
            tracing::warn!(target: "bob::watchdog", %error, "the watchdog thread could not be started");
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
    }

    /// The last 64 handlers that block or did, oldest first.
    pub fn blocked(&self) -> Vec<Blocked> {
        self.0.incidents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often a handler blocked.
    pub fn times_blocked(&self) -> u64 {
        self.0.times_blocked.load(Ordering::Relaxed)
    }
}

struct Watch {
    watchdog: Weak<Inner>,
    blocked_after: Duration,
    seen: Vec<Seen>,
    /// Does not advance while the program is suspended, so that no handler seems to block after a machine slept.
    clock: Duration,
}

struct Seen {
    stamp: Arc<Stamp>,
    word: u64,
    /// When this word was first seen.
    since: Duration,
    /// How often its handler was reported.
    told: usize,
}

impl Watch {
    fn new(watchdog: Weak<Inner>, blocked_after: Duration) -> Self {
        Self { watchdog, blocked_after, seen: Vec::new(), clock: Duration::ZERO }
    }

    fn go_on(&mut self) {
        let pause = self.blocked_after / 2;
        let mut sleep = pause;
        loop {
            let slept = Instant::now();
            std::thread::sleep(sleep);
            let Some(watchdog) = self.watchdog.upgrade().filter(|watchdog| !watchdog.stopped.load(Ordering::Acquire))
            else {
                return;
            };
            self.clock += slept.elapsed().min(sleep * 2);
            let began = Instant::now();
            self.look(&watchdog);
            sleep = pause.max(began.elapsed() * SHARE);
        }
    }

    fn look(&mut self, watchdog: &Inner) {
        let clock = self.clock;
        let new_stamps = std::mem::take(&mut *watchdog.new_stamps.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen.extend(new_stamps.into_iter().map(|stamp| Seen { stamp, word: 0, since: clock, told: 0 }));
        let levels = [self.blocked_after, AGAIN_AFTER[0], AGAIN_AFTER[1]];
        self.seen.retain_mut(|seen| {
            let word = seen.stamp.word.load(Ordering::Relaxed);
            let busy_for = clock.saturating_sub(seen.since);
            if word != seen.word {
                if seen.told > 0 {
                    watchdog.record(seen, busy_for, true);
                }
                (seen.word, seen.since, seen.told) = (word, clock, 0);
            } else if word & 0xff != 0 && levels.get(seen.told).is_some_and(|&level| busy_for >= level) {
                // A threshold of more than a second passes the next levels, too.
                seen.told = levels.iter().rposition(|&level| busy_for >= level).map_or(0, |last| last + 1);
                watchdog.record(seen, busy_for, false);
            }
            // When no other reference to the stamp is left, the actor has ended.
            Arc::strong_count(&seen.stamp) > 1
        });
        if self.seen.capacity() > 1_024 && self.seen.len() < self.seen.capacity() / 8 {
            self.seen.shrink_to(self.seen.len() * 2);
        }
    }
}

impl Inner {
    fn record(&self, seen: &Seen, busy_for: Duration, is_over: bool) {
        let path = &seen.stamp.path;
        let message = seen.message();
        let for_ms = u64::try_from(busy_for.as_millis()).unwrap_or(u64::MAX);
        if is_over {
            tracing::info!(target: "bob::watchdog", actor = %path, message, for_ms, "a handler that blocked has come to its end");
        } else if busy_for < AGAIN_AFTER[0] {
            // On a crowded machine a thread may not be scheduled for this long, so this is no warning; the tree shows
            // it.
            tracing::info!(target: "bob::watchdog", actor = %path, message, for_ms, "{BLOCKS}");
        } else {
            tracing::warn!(target: "bob::watchdog", actor = %path, message, for_ms, "{BLOCKS}");
        }
        let mut incidents = self.incidents.lock().unwrap_or_else(PoisonError::into_inner);
        match incidents.iter_mut().find(|known| !known.is_over && known.path == *path) {
            Some(known) => (known.for_ms, known.is_over) = (for_ms, is_over),
            None => {
                self.times_blocked.fetch_add(1, Ordering::Relaxed);
                if incidents.len() >= MOST_KEPT {
                    incidents.remove(0);
                }
                incidents.push(Blocked { path: path.clone(), message, for_ms, is_over });
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
