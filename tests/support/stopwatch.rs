//! Elapsed time, judged by what an empty task of this process measured at the same time.
//!
//! A thread that only sleeps measures how late it wakes, which also detects a suspended machine; the kernel records how
//! long runnable tasks waited for a processor (`some` in `/proc/pressure/cpu`). A limit that was missed while either
//! shows a busy machine is not judged, and a line on stderr says so.

use std::io::Write as _;
use std::panic::Location;
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

/// What a measured time says of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Missed,
    /// The machine was busy for so much of the time that it says nothing.
    NotJudged,
}

/// The verdict on a time of which so much went by while tasks that could run waited for a processor.
pub(crate) fn verdict(took: Duration, busy: Duration, limit: Duration) -> Verdict {
    match took {
        _ if took < limit => Verdict::Kept,
        // An idle machine makes an empty task late by a few milliseconds.
        _ if busy > took / 4 && busy > Duration::from_millis(20) => Verdict::NotJudged,
        _ => Verdict::Missed,
    }
}

impl Stopwatch {
    /// Starts to measure.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), waited: waited_for_a_processor(), late: lateness() }
    }

    /// Elapsed wall-clock time.
    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of the elapsed time the machine was too busy.
    fn busy(&self) -> Duration {
        let waited = waited_for_a_processor().saturating_sub(self.waited);
        waited.max(lateness().saturating_sub(self.late)).min(self.wall())
    }

    /// Elapsed time without busy time, for figures of many rounds.
    #[allow(dead_code, reason = "each program of tests uses its own part")]
    pub(crate) fn elapsed(&self) -> Duration {
        self.wall().saturating_sub(self.busy())
    }

    /// Fails if the time since the start is not below the limit, unless the machine was busy. Answers the wall-clock time.
    #[track_caller]
    #[allow(dead_code, reason = "each program of tests uses its own part")]
    pub(crate) fn assert_within(&self, limit: Duration, what: impl std::fmt::Display) -> Duration {
        let (took, busy) = (self.wall(), self.busy());
        match verdict(took, busy, limit) {
            Verdict::Kept => {}
            Verdict::Missed => {
                panic!("{what}: took {took:?}, {busy:?} of it on a busy machine; the limit is {limit:?}")
            }
            Verdict::NotJudged => {
                let at = Location::caller();
                let busy = format!("{took:?}, busy for {busy:?}, limit {limit:?}");
                // Past the capture of the harness, so that it is seen in a run that passes.
                let _ = writeln!(std::io::stderr(), "not judged: the machine was busy: {at}: {what}: {busy}");
            }
        }
        took
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
