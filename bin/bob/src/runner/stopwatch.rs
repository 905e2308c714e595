//! Measures a turn's time across processes: monotonic, and stopped in between.

use bob_actors::clock;
use bob_messages::turn::Moment;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Counts milliseconds while a process has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stopwatch {
    /// The last reading.
    read_ms: u64,
    /// When that was, or when this process took it over.
    #[serde(skip, default = "Instant::now")]
    since: Instant,
}

impl Stopwatch {
    /// Now, by both clocks.
    pub(super) fn moment(&mut self) -> Moment {
        let passed_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        if passed_ms > 0 {
            self.read_ms = self.read_ms.saturating_add(passed_ms);
            self.since = Instant::now();
        }
        Moment { wall: clock::now(), ticks: self.read_ms }
    }
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self { read_ms: 0, since: Instant::now() }
    }
}

/// Compares counted time; the start instant differs between processes.
impl PartialEq for Stopwatch {
    fn eq(&self, other: &Self) -> bool {
        self.read_ms == other.read_ms
    }
}
