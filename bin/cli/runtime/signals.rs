//! The signals that ask this process to end.
//!
//! They are caught from the moment this is made: the process no longer ends by itself, so the owner must listen until
//! the end. For an owner that cannot, because a write blocks, a guard catches the signals too, and ends the process
//! when there is no listener.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::runtime;

/// How long a signal may wait for a listener. Front ends check the signals more often than that.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

pub(crate) struct Signals {
    caught: Streams,
    ear: Ear,
}

struct Streams {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
}

#[derive(Clone, Debug, Default)]
struct Ear(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// Odd while there is a listener, and different each time.
    times: AtomicU64,
    /// The program continues after the signal.
    forgotten: AtomicBool,
}

/// Marks a listener for as long as it is held.
struct Listening<'a>(&'a Ear);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caught {
    /// The terminal was closed.
    HangUp,
    /// Ctrl-C, or a request that acts like it.
    Interrupt,
    /// Terminate the program.
    Terminate,
}

impl Caught {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::HangUp => Exit::HungUp,
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
        }
    }
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let ear = Ear::default();
        tokio::spawn(guard(Streams::new()?, ear.clone()));
        Ok(Self { caught: Streams::new()?, ear })
    }

    /// Continues after Ctrl-C; one that arrived just after the end of its turn is ignored.
    pub(crate) fn forget_interrupts(&mut self) {
        while self.caught.interrupt.recv().now_or_never().is_some() {}
        self.ear.0.forgotten.store(true, Ordering::Release);
    }

    /// Waits for the next one. Cancel-safe. Equal signals that come while nothing waits count once.
    pub(crate) async fn next(&mut self) -> Caught {
        let _until_this_is_dropped = self.ear.listen();
        self.caught.next().await
    }
}

impl Streams {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.terminate.recv() => Caught::Terminate,
            _ = self.hang_up.recv() => Caught::HangUp,
            _ = self.interrupt.recv() => Caught::Interrupt,
        }
    }
}

impl Ear {
    fn listen(&self) -> Listening<'_> {
        self.0.times.fetch_add(1, Ordering::AcqRel);
        Listening(self)
    }

    /// Whether there is no listener during all of this time.
    async fn is_closed_for(&self, time: Duration) -> bool {
        let before = self.0.times.load(Ordering::Acquire);
        tokio::time::sleep(time).await;
        before == self.0.times.load(Ordering::Acquire) && before.is_multiple_of(2)
    }

    /// Whether the program continues after a signal; reported once.
    fn has_forgotten(&self) -> bool {
        self.0.forgotten.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.0.times.fetch_add(1, Ordering::AcqRel);
    }
}

/// Ends the process if a signal has no listener: in order if possible, and immediately at the next signal.
async fn guard(mut caught: Streams, ear: Ear) {
    loop {
        let first = caught.next().await;
        while !ear.has_forgotten() {
            if ear.is_closed_for(HEARD_WITHIN).await {
                tokio::select! {
                    () = runtime::close_without_front_end() => {}
                    _at_once = caught.next() => {}
                }
                // Child processes that still run are ended by the watcher after this process.
                first.exit().leave();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_ear_is_closed_when_nobody_listens_all_the_time() {
        let ear = Ear::default();
        assert!(ear.is_closed_for(HEARD_WITHIN).await, "nobody ever listened");
        let listening = ear.listen();
        assert!(!ear.is_closed_for(HEARD_WITHIN).await, "somebody listens");
        drop(listening);
        assert!(ear.is_closed_for(HEARD_WITHIN).await, "nobody listens any more");
        let (_, is_closed) = tokio::join!(async { drop(ear.listen()) }, ear.is_closed_for(HEARD_WITHIN));
        assert!(is_closed, "somebody listened just before");
        let short = async {
            tokio::time::sleep(HEARD_WITHIN / 2).await;
            drop(ear.listen());
        };
        let (is_closed, ()) = tokio::join!(ear.is_closed_for(HEARD_WITHIN), short);
        assert!(!is_closed, "somebody listened in between");
    }
}
