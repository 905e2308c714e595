//! How long a stream may say nothing.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Since when a stream is waited for.
#[derive(Debug, Default)]
pub(super) struct Silence(Option<(Instant, Alarm)>);

/// Rings when the wait may be too long, or earlier: it is set anew only when it rings, not with every frame.
type Alarm = Pin<Box<Sleep>>;

impl Silence {
    /// Ready when nothing whole came for `patience`, which is at least `silence` and may shrink to it.
    /// `has_grown`: whether something whole came since the last call.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        has_grown: bool,
        silence: Duration,
        patience: Duration,
    ) -> Poll<()> {
        let begin = || {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + silence)))
        };
        let (since, alarm) = self.0.get_or_insert_with(begin);
        if has_grown {
            *since = Instant::now();
        }
        while alarm.as_mut().poll(context).is_ready() {
            let due = *since + patience;
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}
