//! Early end of a batch: the effects of signals.

use std::time::Duration;

use tokio::time::Instant;

use crate::exit::Exit;
use crate::runtime::signals::Caught;
use crate::runtime::turn::until;

/// How long outcomes are still waited for once the running turns were cancelled.
const LAST_WAIT: Duration = Duration::from_millis(1_500);

/// How long the last results have to be written, if there was no time for them before.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// Why no further line begins, if none does.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    caught: Vec<Caught>,
    stdout_closed: bool,
    is_drained: bool,
    gave_up: bool,
    /// What running turns have to end by themselves in a shutdown.
    grace: Duration,
    /// Until when outcomes are waited for.
    deadline: Option<Instant>,
    /// Until when the reader of the results is waited for; earlier if the other one is earlier.
    to_write: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Start no line; running ones may end.
    Drain,
    /// Start nothing more, and give running turns the grace period of a shutdown.
    ShutDown,
    /// Cancel running turns, and wait briefly.
    Cancel,
    /// Cancel running lines, and shut the runtime down.
    CancelAndShutDown,
    Leave(Exit),
}

impl Stop {
    /// Nothing was asked yet.
    pub(crate) fn with_grace(grace: Duration) -> Self {
        Self { grace, ..Self::default() }
    }

    /// Outcomes are waited for so long from now on, or as long as they were to be before.
    fn within(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        self.deadline = Some(self.deadline.map_or(deadline, |before| before.min(deadline)));
    }

    pub(crate) fn signal(&mut self, caught: Caught) -> Wish {
        self.caught.push(caught);
        match self.caught.as_slice() {
            [Caught::Interrupt] => Wish::Drain,
            [_] => {
                // The runtime ends what runs in time; a reader that does not read keeps no process from its end.
                self.to_write = Some(Instant::now() + self.grace + LAST_WAIT);
                Wish::ShutDown
            }
            &[_, second] => {
                self.within(LAST_WAIT);
                if second == Caught::Interrupt { Wish::Cancel } else { Wish::CancelAndShutDown }
            }
            [first, ..] => Wish::Leave(first.exit()),
            [] => Wish::Drain,
        }
    }

    /// Handles a closed stdout: nothing is worth waiting for.
    pub(crate) fn stdout_closed(&mut self) {
        self.stdout_closed = true;
        self.within(LAST_WAIT);
    }

    pub(crate) fn drain(&mut self) {
        self.is_drained = true;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// The runtime ended by itself.
    pub(crate) fn gave_up(&mut self) {
        self.gave_up = true;
    }

    /// Whether no further line begins.
    pub(crate) fn is_asked(&self) -> bool {
        !self.caught.is_empty() || self.stdout_closed || self.is_drained || self.gave_up
    }

    /// Whether stdout is still open, as far as known.
    pub(crate) fn is_read(&self) -> bool {
        !self.stdout_closed
    }

    /// Whether the runtime ended by itself.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up
    }

    /// The code of a process that ends for a signal.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.caught.first().map(|caught| caught.exit())
    }

    /// Ends when outcomes are not waited for any longer. Cancel-safe.
    pub(crate) async fn out_of_patience(&self) {
        until(self.deadline).await;
    }

    /// Ends when the writing of the last results, which begins now, is not waited for any longer. Cancel-safe.
    pub(crate) async fn out_of_patience_to_write(&self) {
        let earlier = self.deadline.into_iter().chain(self.to_write).min();
        until(earlier.map(|deadline| deadline.max(Instant::now() + LAST_WRITE))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Caught::{HangUp, Interrupt, Terminate};

    #[test]
    fn each_signal_asks_for_more() {
        let cases: [(&[Caught], &[Wish]); 4] = [
            (&[Interrupt, Interrupt, Interrupt], &[Wish::Drain, Wish::Cancel, Wish::Leave(Exit::Interrupted)]),
            (&[Terminate, Interrupt], &[Wish::ShutDown, Wish::Cancel]),
            (&[Interrupt, Terminate], &[Wish::Drain, Wish::CancelAndShutDown]),
            (&[HangUp, HangUp, Interrupt], &[Wish::ShutDown, Wish::CancelAndShutDown, Wish::Leave(Exit::HungUp)]),
        ];
        for (signals, wishes) in cases {
            let mut stop = Stop::default();
            assert!(!stop.is_asked() && stop.exit().is_none());
            let asked: Vec<Wish> = signals.iter().map(|caught| stop.signal(*caught)).collect();
            assert_eq!(asked, wishes);
            assert_eq!(stop.exit(), Some(signals[0].exit()));
            assert!(stop.is_asked() && stop.deadline.is_some());
        }
    }

    #[test]
    fn one_signal_to_shut_down_bounds_the_writes_and_a_second_one_the_outcomes_as_well() {
        let grace = Duration::from_secs(600);
        for caught in [Terminate, HangUp] {
            let (mut stop, began) = (Stop::with_grace(grace), Instant::now());
            assert_eq!(stop.signal(caught), Wish::ShutDown);
            assert_eq!(stop.deadline, None, "the runtime bounds the turns");
            let first = stop.to_write.expect("a deadline");
            assert!(first >= began + grace + LAST_WAIT && first <= Instant::now() + grace + LAST_WAIT);
            stop.signal(caught);
            assert!(stop.deadline.is_some_and(|second| second < first));
        }
        let mut drained = Stop::with_grace(grace);
        let asked = drained.signal(Interrupt);
        assert_eq!((asked, drained.deadline, drained.to_write), (Wish::Drain, None, None), "lines end by themselves");
    }
}
