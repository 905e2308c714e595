//! How long one event of a stream may take to arrive.
//!
//! genai joins what has arrived of an event at every read and hides it until it is whole, so an event without an end
//! can neither be counted in bytes nor be stopped from inside. What can be seen from outside is bounded instead: the
//! reads and the work that go into one event, and the time it takes. The work of joining grows with the square of the
//! bytes, which makes it the tightest of the three bounds.

use super::silence::Silence;
use super::tap::Tap;
use ::genai::chat::{ChatStream, ChatStreamEvent};
use futures_util::StreamExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

/// The most reads that may go into one event. Even in reads of a few bytes no event of a model needs so many.
const MOST_READS: u32 = 1_024;

/// The most processor time that may go into one event.
const MOST_WORK: Duration = Duration::from_millis(500);

/// Reads of one event whose work is not measured, since asking for it costs more than they do. They hold at most
/// 400 KB each, which is far from [`MOST_WORK`].
const UNMEASURED_READS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Pace {
    frame: usize,
    reads: u32,
    work: Duration,
    silence: Silence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// Nothing whole came for too long.
    Silent,
    /// Too much came that was never whole.
    Endless,
    /// genai panicked over what came.
    Broken,
}

type Next = Option<Result<ChatStreamEvent, ::genai::Error>>;

impl Pace {
    /// The next event of the stream. `silence` is how long the provider may take to the next whole frame; the first one
    /// includes the headers and may take twice as long. Frames that say nothing are a sign of life, too.
    pub(super) async fn next(&mut self, stream: &mut ChatStream, tap: &Tap, silence: Duration) -> Result<Next, Halt> {
        std::future::poll_fn(|context| {
            let began = (self.reads >= UNMEASURED_READS).then(worked);
            // Built with checks, it panics over a sum of Gemini's token counts that its numbers cannot hold.
            match catch_unwind(AssertUnwindSafe(|| stream.poll_next_unpin(context))) {
                Ok(Poll::Ready(event)) => return Poll::Ready(Ok(event)),
                Ok(Poll::Pending) => {}
                Err(_panic) => return Poll::Ready(Err(Halt::Broken)),
            }
            let frame = tap.frames();
            let has_grown = frame != self.frame;
            let work = began.map_or(Duration::ZERO, |began| worked().saturating_sub(began));
            if self.is_endless(frame, work) {
                return Poll::Ready(Err(Halt::Endless));
            }
            let patience = if frame == 0 { silence * 2 } else { silence };
            self.silence.poll(context, has_grown, silence, patience).map(|()| Err(Halt::Silent))
        })
        .await
    }

    /// One more read of this frame that made nothing whole: whether it was one too many.
    fn is_endless(&mut self, frame: usize, work: Duration) -> bool {
        if frame != self.frame {
            (self.frame, self.reads, self.work) = (frame, 0, Duration::ZERO);
        }
        self.reads += 1;
        self.work += work;
        self.reads > MOST_READS || self.work > MOST_WORK
    }
}

/// How long this thread has worked, whatever else happened meanwhile: a halt of the process or a busy machine is not
/// the provider's doing.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_until_endless(work: Duration) -> u32 {
        let mut pace = Pace::default();
        (1..=2 * MOST_READS).find(|_| pace.is_endless(0, work)).expect("it ends")
    }

    #[test]
    fn l8_reads_and_work_of_one_event_are_bounded() {
        assert_eq!(reads_until_endless(Duration::ZERO), MOST_READS + 1);
        assert_eq!(reads_until_endless(Duration::from_millis(10)), 51);
        let mut pace = Pace::default();
        let mut frames = 1..=10 * MOST_READS as usize;
        assert!(frames.all(|frame| !pace.is_endless(frame, Duration::from_millis(10))), "each frame begins anew");
    }

    #[test]
    fn l12_a_suspension_is_no_work_of_the_stream() {
        let began = worked();
        let halt = std::time::Instant::now();
        // The thread waits as it does when its process is halted: the clock runs, and it does nothing.
        std::thread::park_timeout(MOST_WORK);
        while halt.elapsed() < MOST_WORK {
            std::thread::park_timeout(MOST_WORK);
        }
        assert!(worked().saturating_sub(began) < MOST_WORK / 10);
    }
}
