//! Elapsed time minus the time in which the machine was too busy.
//!
//! The kernel records how long runnable tasks waited for a processor (`some` in `/proc/pressure/cpu`), and a thread
//! measures its own wake-up latency, which also detects a suspended machine. Limits are compared with the elapsed
//! time minus the larger of the two, so that no verdict depends on other load.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Measures from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    began: Instant,
    waited: Duration,
    late: Duration,
}

impl Stopwatch {
    /// Starts to measure.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), waited: waited_for_a_processor(), late: lateness() }
    }

    /// Elapsed time without busy time. For upper bounds only.
    pub(crate) fn elapsed(&self) -> Duration {
        let waited = waited_for_a_processor().saturating_sub(self.waited);
        let late = lateness().saturating_sub(self.late);
        self.wall().saturating_sub(waited.max(late))
    }

    /// Elapsed wall-clock time. For lower bounds.
    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }
}

/// For how long since some moment in the past a task that could run waited for a processor, whichever it was; nothing
/// where the kernel does not say.
fn waited_for_a_processor() -> Duration {
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = pressure.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.rsplit_once("total=")).and_then(|(_, total)| total.trim().parse().ok());
    total.map_or(Duration::ZERO, Duration::from_micros)
}

/// How late in all a thread woke that wants to wake every 2 ms.
fn lateness() -> Duration {
    static LATE_US: AtomicU64 = AtomicU64::new(0);
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let pause = Duration::from_millis(2);
        let _runs_until_the_program_ends = std::thread::spawn(move || {
            loop {
                let began = Instant::now();
                std::thread::sleep(pause);
                let late = began.elapsed().saturating_sub(pause * 2);
                LATE_US.fetch_add(u64::try_from(late.as_micros()).unwrap_or(0), Ordering::Relaxed);
            }
        });
    });
    Duration::from_micros(LATE_US.load(Ordering::Relaxed))
}
