//! Panics of ports: caught, and logged without filling a log.

use futures_util::FutureExt;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Calls one port and catches its panics. The first of each method is logged, and then the second, the fourth, the eighth
/// and so on, with their number, so that a port that always panics does not fill a log.
#[derive(Debug)]
pub(crate) struct Panics {
    port: &'static str,
    times: Mutex<Option<HashMap<&'static str, u64>>>,
}

impl Panics {
    pub(crate) const fn of(port: &'static str) -> Self {
        Self { port, times: Mutex::new(None) }
    }

    /// Calls a method; `None` if it panicked.
    pub(crate) fn catch<T>(&self, method: &'static str, call: impl FnOnce() -> T) -> Option<T> {
        let called = catch_unwind(AssertUnwindSafe(call)).ok();
        self.note(method, called.is_none());
        called
    }

    /// Calls a method that returns a future, and waits for it; `None` if one of the two panicked.
    pub(crate) async fn catch_in<T, F: Future<Output = T>>(
        &self,
        method: &'static str,
        call: impl FnOnce() -> F,
    ) -> Option<T> {
        let called = AssertUnwindSafe(async { call().await }).catch_unwind().await.ok();
        self.note(method, called.is_none());
        called
    }

    fn note(&self, method: &'static str, has_panicked: bool) {
        if !has_panicked {
            return;
        }
        let times = {
            let mut counts = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            let times = counts.get_or_insert_default().entry(method).or_default();
            *times += 1;
            *times
        };
        if times.is_power_of_two() {
            tracing::error!(port = self.port, method, times, "a port panicked");
        }
    }
}

#[cfg(test)]
#[path = "panics_tests.rs"]
mod tests;
