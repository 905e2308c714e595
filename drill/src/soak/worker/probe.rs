//! The scheduling probe measures continuously how late an empty task runs in this process. Latencies are judged after
//! subtracting it, so a busy machine decides no verdict.
//!
//! A handler that blocks the runtime delays the probe as well; the runtime's watchdog names it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The pause between two empty tasks.
const PAUSE: Duration = Duration::from_millis(2);

/// Tokio timers are exact to a millisecond; only more than this counts as latency.
const TICK: Duration = Duration::from_millis(1);

/// How long samples are kept: longer than any operation that is judged by them.
const KEPT: Duration = Duration::from_secs(30);

/// Measures until it is dropped.
pub(crate) struct Probe {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    late: Mutex<VecDeque<Late>>,
    round: Notify,
}

/// A stretch in which an empty task should have run and had not.
#[derive(Debug, Clone, Copy)]
struct Late {
    from: Instant,
    until: Instant,
}

impl Probe {
    pub(crate) fn start() -> Self {
        let seen: Arc<Seen> = Arc::default();
        let task = tokio::spawn(measure(Arc::clone(&seen)));
        Self { seen, task }
    }

    /// Returns after the currently waiting task has run, so that its latency is known.
    pub(crate) async fn turn_round(&self) {
        self.seen.round.notified().await;
    }

    /// For how long between these two moments an empty task was late.
    pub(crate) fn late_between(&self, from: Instant, until: Instant) -> Duration {
        let late = self.seen.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.iter().map(|late| late.until.min(until).saturating_duration_since(late.from.max(from))).sum()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn measure(seen: Arc<Seen>) {
    loop {
        let due = Instant::now() + PAUSE + TICK;
        tokio::time::sleep(PAUSE).await;
        // A task that was just spawned waits behind those that are ready, as the steps of a turn do.
        let empty = tokio::spawn(async {});
        if empty.await.is_err() {
            return;
        }
        let now = Instant::now();
        if now > due {
            let mut late = seen.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.push_back(Late { from: due, until: now });
            while late.front().is_some_and(|late| now.saturating_duration_since(late.until) > KEPT) {
                late.pop_front();
            }
        }
        seen.round.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_that_is_held_up_is_seen_and_only_where_it_was() {
        let probe = Probe::start();
        probe.turn_round().await;
        let before = Instant::now();
        std::thread::sleep(Duration::from_millis(50));
        let after = Instant::now();
        // The probe is polled after the thread was given back.
        probe.turn_round().await;
        let late = probe.late_between(before, after);
        // The pause itself accounts for some of the 50 ms.
        assert!(late >= Duration::from_millis(50) - PAUSE - TICK, "{late:?}");
        assert!(late <= after - before, "{late:?}");
        assert_eq!(
            probe.late_between(before - Duration::from_secs(60), before - Duration::from_secs(50)),
            Duration::ZERO
        );
    }
}
