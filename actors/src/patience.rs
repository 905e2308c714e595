//! How long somebody else's work is waited for, in time in which this process runs.
//!
//! A process that is halted (by a signal, a debugger, a machine that sleeps) finds all
//! its deadlines passed when it goes on, before it has read the answers that came
//! meanwhile. Whoever judges a child by a deadline uses this, so that a healthy one is
//! not ended for a pause of ours. The limits of turns and calls are kept by the clock.

use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest sleep at one go; a halt is noticed at its end.
const SLICE: Duration = Duration::from_secs(1);

/// A sleep that is late by more than this was a halt.
const HALT: Duration = Duration::from_millis(250);

/// What is left of the time somebody has.
#[derive(Debug)]
pub(crate) struct Patience {
    left: Duration,
}

impl Patience {
    pub(crate) fn of(limit: Duration) -> Self {
        Self { left: limit }
    }

    /// Waits for work; `None` when it took all that was left. What was used is not
    /// there for the next work. As cancel-safe as the work is, but a wait that is
    /// dropped uses up no more than the whole seconds of it.
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
        let (began, mut patience) = (Instant::now(), Patience::of(Duration::from_millis(3_700)));
        assert_eq!(patience.within(sleep(Duration::from_millis(1_500))).await, Some(()));
        assert_eq!(patience.within(pending::<()>()).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(3_700) && took <= Duration::from_millis(3_703), "{took:?}");
        assert_eq!(patience.within(std::future::ready(1)).await, Some(1), "what is there is taken");
    }

    #[tokio::test(start_paused = true)]
    async fn x6_a_halt_of_this_process_is_not_the_fault_of_a_child() {
        let mut patience = Patience::of(Duration::from_millis(1_500));
        let began = Instant::now();
        let mut halts = 1;
        // The whole thread stands still while a wait is on, and a minute has passed when it goes on.
        let halted = poll_fn(|_| -> Poll<()> {
            halts -= 1;
            if halts == 0 {
                tokio::spawn(advance(Duration::from_secs(60)));
            }
            Poll::Pending
        });
        assert_eq!(patience.within(halted).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(61_500) && took < Duration::from_millis(61_600), "{took:?}");
    }
}
