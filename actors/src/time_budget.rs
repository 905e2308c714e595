//! A timeout for child processes that excludes time in which this process is suspended.
//!
//! After a suspension (a signal, a debugger, a sleeping machine) all wall-clock deadlines have passed before the
//! responses that arrived meanwhile are read. Deadlines of child processes use this budget, so a healthy child is not
//! killed for a pause of this process. The limits of turns and calls use the clock.

use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest single sleep; a suspension is detected at its end.
const SLICE: Duration = Duration::from_secs(1);

/// A sleep that overruns by more than this counts as a suspension.
const HALT: Duration = Duration::from_millis(250);

/// The remaining time for one or more operations.
#[derive(Debug)]
pub(crate) struct TimeBudget {
    left: Duration,
}

impl TimeBudget {
    pub(crate) fn of(limit: Duration) -> Self {
        Self { left: limit }
    }

    /// Waits for `work`; returns `None` when the budget is exhausted. Elapsed time is
    /// deducted. As cancel-safe as `work`; a dropped wait is charged in whole seconds only.
    pub(crate) async fn within<F: Future>(&mut self, work: F) -> Option<F::Output> {
        // On the heap: starts and lists are large, and rare.
        let mut work = Box::pin(work);
        loop {
            let (slice, began) = (self.left.min(SLICE), Instant::now());
            let done = timeout(slice, work.as_mut()).await;
            let took = began.elapsed();
            if took <= slice + HALT {
                self.left = self.left.saturating_sub(took);
            }
            match done {
                Ok(done) => return Some(done),
                Err(_not_yet) if self.left.is_zero() => return None,
                Err(_not_yet) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use std::task::Poll;
    use tokio::time::{advance, sleep};

    #[tokio::test(start_paused = true)]
    async fn patience_ends_to_the_millisecond_and_is_shared_by_what_follows() {
        let (began, mut budget) = (Instant::now(), TimeBudget::of(Duration::from_millis(3_700)));
        assert_eq!(budget.within(sleep(Duration::from_millis(1_500))).await, Some(()));
        assert_eq!(budget.within(pending::<()>()).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(3_700) && took <= Duration::from_millis(3_703), "{took:?}");
        assert_eq!(budget.within(std::future::ready(1)).await, Some(1), "what is there is taken");
    }

    #[tokio::test(start_paused = true)]
    async fn x6_a_halt_of_this_process_is_not_the_fault_of_a_child() {
        let mut budget = TimeBudget::of(Duration::from_millis(1_500));
        let began = Instant::now();
        let mut halts = 1;
        // The thread is blocked during the wait, and a minute has passed when it continues.
        let halted = poll_fn(|_| -> Poll<()> {
            halts -= 1;
            if halts == 0 {
                tokio::spawn(advance(Duration::from_secs(60)));
            }
            Poll::Pending
        });
        assert_eq!(budget.within(halted).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(61_500) && took < Duration::from_millis(61_600), "{took:?}");
    }
}
