//! How long one event of a stream may take to arrive.
//!
//! genai joins what has arrived of an event at every read and hides it until it is
//! whole, so an event without an end can neither be counted in bytes nor be stopped
//! from inside. What can be seen from outside is bounded instead: the reads and the
//! work that go into one event, and the time it takes. The work of joining grows with
//! the square of the bytes, which makes it the tightest of the three bounds.

use super::tap::Tap;
use ::genai::chat::{ChatStream, ChatStreamEvent};
use futures_util::StreamExt;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The most reads that may go into one event. Even in reads of a few bytes no event
/// of a model needs so many.
const MOST_READS: u32 = 1_024;

/// The most work that may go into one event.
const MOST_WORK: Duration = Duration::from_millis(500);

/// What an event has cost so far.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The frame it was counted for.
    frame: usize,
    reads: u32,
    work: Duration,
}

/// Why there is no next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// Nothing whole came for too long.
    Silent,
    /// Too much came that was never whole.
    Endless,
}

type Next = Option<Result<ChatStreamEvent, ::genai::Error>>;

impl Pace {
    /// The next event of the stream. `silence` is how long the provider may take to
    /// the next whole frame; the first one includes the headers and may take twice as long.
    pub(super) async fn next(&mut self, stream: &mut ChatStream, tap: &Tap, silence: Duration) -> Result<Next, Halt> {
        loop {
            let frame = tap.frames();
            let patience = if frame == 0 { silence * 2 } else { silence };
            match timeout(patience, self.poll(stream, tap)).await {
                Ok(event) => return event,
                // Frames that say nothing are a sign of life, too.
                Err(_) if tap.frames() > frame => {}
                Err(_) => return Err(Halt::Silent),
            }
        }
    }

    async fn poll(&mut self, stream: &mut ChatStream, tap: &Tap) -> Result<Next, Halt> {
        let mut event = pin!(stream.next());
        std::future::poll_fn(|context| {
            let began = Instant::now();
            if let Poll::Ready(event) = event.as_mut().poll(context) {
                return Poll::Ready(Ok(event));
            }
            if tap.frames() != self.frame {
                *self = Self { frame: tap.frames(), ..Self::default() };
            }
            self.reads += 1;
            self.work += began.elapsed();
            if self.reads > MOST_READS || self.work > MOST_WORK {
                Poll::Ready(Err(Halt::Endless))
            } else {
                Poll::Pending
            }
        })
        .await
    }
}
