//! What is counted in one runtime: turns, steps, calls, tokens, restarts, and how long things took.
//!
//! Owns the figures and nothing else. The sessions supervisor reports submissions and outcomes, supervisors report
//! restarts; the program reads a [`MetricsSnapshot`]. Nothing is counted in the middle of a turn: what a turn
//! used is in its outcome, and is added when that is reported. It belongs to one runtime, starts from nothing with it,
//! and never asks an actor, waits, or writes anywhere.
//!
//! | file | what is in it |
//! |---|---|
//! | `snapshot` | the figures as plain data, for a reader and for an exporter |
//! | `latency` | one histogram of all times and one of the last ones |

mod latency;
mod snapshot;

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;

pub use snapshot::{
    LatencyBucket, LatencyFigures, LatencyQuantiles, MetricsSnapshot, RestartCounts, SCHEMA, TokenCounts, TurnCounts,
};

use bob_messages::chat::{CallStatus, FinishReason, GuardReason};
use bob_messages::outcome::TurnOutcome;
use bob_messages::submission::SessionsLoad;
use enum_map::{Enum, EnumMap};
use latency::Latency;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The figures of one runtime. Counting never waits longer than a copy of a histogram takes.
#[derive(Debug, Default)]
pub struct Metrics {
    began: Began,
    live: AtomicUsize,
    running: AtomicUsize,
    waiting: AtomicUsize,
    store_queue: OnceLock<Arc<AtomicUsize>>,
    submitted: Counter,
    refused: Counter,
    repeated: Counter,
    unsaved: Counter,
    ends: Counters<FinishReason>,
    guards: Counters<GuardReason>,
    calls: Counters<CallStatus>,
    steps: Counter,
    input_tokens: Counter,
    output_tokens: Counter,
    total_tokens: Counter,
    cached_input_tokens: Counter,
    restarted_sessions: Counter,
    restarted_children: Counter,
    gave_up: Counter,
    turn: Latency,
    /// How long the turn took that was answered last, in milliseconds, and one more.
    last_turn: Counter,
    queue_wait: Latency,
    cancel: Latency,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

type Counters<K> = EnumMap<K, Counter>;

fn read<K: Enum>(counters: &Counters<K>) -> EnumMap<K, u64> {
    EnumMap::from_fn(|key| counters[key].get())
}

#[derive(Debug)]
struct Began(Instant);

impl Default for Began {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Metrics {
    /// Where the store tells how many operations wait for it. Only the first one counts.
    pub fn store_queued(&self, queued: Arc<AtomicUsize>) {
        let _the_first_one_counts = self.store_queue.set(queued);
    }

    /// How much there is to do now.
    pub fn load(&self, load: SessionsLoad) {
        let before = SessionsLoad {
            live: self.live.swap(load.live, Ordering::Relaxed),
            running: self.running.swap(load.running, Ordering::Relaxed),
            waiting: self.waiting.swap(load.waiting, Ordering::Relaxed),
        };
        if before != load {
            self.changed();
        }
    }

    /// Something of the tree is not as it was.
    pub fn changed(&self) {
        // Without a receiver there is nothing to wake, and no lock to take.
        if self.changes.receiver_count() > 0 {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Told of that; changes that come together are told once.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A turn was submitted, or its resumption.
    pub fn submitted(&self) {
        self.submitted.add(1);
    }

    /// A submission was not taken, or will have no outcome here.
    pub fn refused(&self) {
        self.refused.add(1);
    }

    /// A submission was answered with the outcome of an earlier one of the same name.
    pub fn repeated(&self) {
        self.repeated.add(1);
    }

    /// A submission waited this long before it was admitted.
    pub fn admitted(&self, waited: Duration) {
        self.queue_wait.record(waited);
    }

    /// The caller has the outcome, this long after it submitted.
    pub fn answered(&self, after: Duration) {
        self.turn.record(after);
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.last_turn.0.store(after_ms.saturating_add(1), Ordering::Relaxed);
    }

    /// How long the turn took that was answered last, in milliseconds; `None` before the first.
    pub fn last_turn_ms(&self) -> Option<u64> {
        self.last_turn.get().checked_sub(1)
    }

    /// The caller has the outcome of a turn that was cancelled this long ago.
    pub fn cancelled(&self, after: Duration) {
        self.cancel.record(after);
    }

    /// A run ended. What a suspended turn used is counted when it ends for good: its last outcome has all of it.
    pub fn ended(&self, outcome: &TurnOutcome) {
        self.ends[outcome.finish_reason].add(1);
        if let Some(guard) = outcome.guard_reason {
            self.guards[guard].add(1);
        }
        if !outcome.saved {
            self.unsaved.add(1);
        }
        if outcome.finish_reason == FinishReason::Suspended {
            return;
        }
        self.steps.add(u64::from(outcome.steps));
        for call in outcome.tool_transcript.iter() {
            self.calls[call.status].add(1);
        }
        self.input_tokens.add(outcome.usage.input_tokens);
        self.output_tokens.add(outcome.usage.output_tokens);
        self.total_tokens.add(outcome.usage.total_tokens);
        self.cached_input_tokens.add(outcome.usage.cached_input_tokens.unwrap_or(0));
    }

    /// A session's actor crashed and was started again.
    pub fn session_restarted(&self) {
        self.restarted_sessions.add(1);
    }

    /// Another actor of the tree was down and runs again.
    pub fn child_restarted(&self) {
        self.restarted_children.add(1);
    }

    /// An actor of the tree died too often and is left down.
    pub fn child_gave_up(&self) {
        self.gave_up.add(1);
    }

    /// All figures as they are now, without those of providers, tool servers and sinks, which are asked elsewhere. Figures
    /// that change together may differ by what is being counted at this moment.
    pub fn snapshot(&self) -> MetricsSnapshot {
        MetricsSnapshot {
            schema: SCHEMA,
            uptime_ms: u64::try_from(self.began.0.elapsed().as_millis()).unwrap_or(u64::MAX),
            sessions: SessionsLoad {
                live: self.live.load(Ordering::Relaxed),
                running: self.running.load(Ordering::Relaxed),
                waiting: self.waiting.load(Ordering::Relaxed),
            },
            store_queue: self.store_queue.get().map_or(0, |queued| queued.load(Ordering::Relaxed)),
            turns: TurnCounts {
                submitted: self.submitted.get(),
                refused: self.refused.get(),
                repeated: self.repeated.get(),
                ends: read(&self.ends),
                unsaved: self.unsaved.get(),
            },
            guards: read(&self.guards),
            steps: self.steps.get(),
            tool_calls: read(&self.calls),
            tokens: TokenCounts {
                input: self.input_tokens.get(),
                output: self.output_tokens.get(),
                total: self.total_tokens.get(),
                cached_input: self.cached_input_tokens.get(),
            },
            events_lost: 0,
            restarts: RestartCounts {
                sessions: self.restarted_sessions.get(),
                children: self.restarted_children.get(),
                gave_up: self.gave_up.get(),
            },
            turn_latency: self.turn.figures(),
            queue_wait: self.queue_wait.figures(),
            cancel_latency: self.cancel.figures(),
            providers: Vec::new(),
            servers: Vec::new(),
        }
    }
}
