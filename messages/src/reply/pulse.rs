//! Signs of life of work whose result is awaited.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of signs of life: pieces of an answer, output of a tool, results. Clones share it; the default counts
/// nothing. A watcher compares two readings, so that no clock is read where the work is done.
#[derive(Clone, Default)]
pub struct Pulse(Option<Arc<AtomicU64>>);

impl Pulse {
    /// A pulse that counts.
    pub fn counting() -> Self {
        Self(Some(Arc::default()))
    }

    /// Counts one sign of life. Never blocks.
    pub fn beat(&self) {
        if let Some(beats) = &self.0 {
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many signs of life there were.
    pub fn beats(&self) -> u64 {
        self.0.as_ref().map_or(0, |beats| beats.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pulse({})", self.beats())
    }
}
