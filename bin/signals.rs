//! The signals that ask this process to end.
//!
//! They are caught from the moment this is made: nothing else ends the process for them any more, so whoever makes it
//! must listen until the end.

use std::io;

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// The caught signals.
pub(crate) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
}

/// Which one came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caught {
    /// The terminal was closed.
    HangUp,
    /// A person pressed Ctrl-C, or somebody acts like it.
    Interrupt,
    /// The program shall end.
    Terminate,
}

impl Caught {
    /// The exit code of a process this signal ended.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::HangUp => Exit::HungUp,
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
        }
    }
}

impl Signals {
    /// Begins to catch.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Passes over a Ctrl-C that came when what it was meant for had just ended.
    pub(crate) fn forget_interrupts(&mut self) {
        while self.interrupt.recv().now_or_never().is_some() {}
    }

    /// Waits for the next one. Cancel-safe. Equal signals that come while nobody waits count once.
    pub(crate) async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.terminate.recv() => Caught::Terminate,
            _ = self.hang_up.recv() => Caught::HangUp,
            _ = self.interrupt.recv() => Caught::Interrupt,
        }
    }
}
