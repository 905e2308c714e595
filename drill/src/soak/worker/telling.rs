//! Reports to the parent on stdout, written by a separate thread so that no sender blocks on the pipe.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use bob_actors::clock;

use crate::soak::chaos::Kind;
use crate::soak::wire::{Line, Report};

/// Sends reports. Clones share one writer.
#[derive(Debug, Clone)]
pub(crate) struct Telling(Sender<Line>);

impl Telling {
    /// Starts the writer, which ends when the last clone is dropped or the pipe is closed.
    pub(crate) fn begin() -> (Self, JoinHandle<()>) {
        let (sender, lines) = channel();
        (Self(sender), thread::spawn(move || write_all(&lines)))
    }

    /// Sends a report with the current time. Errors are ignored: without a parent the worker ends anyway.
    pub(crate) fn tell(&self, told: Report) {
        let _parent_is_gone = self.0.send(Line { at: u64::try_from(clock::now()).unwrap_or(0), told });
    }

    /// Reports a fault injected into these sessions; empty means all.
    pub(crate) fn fault(&self, kind: Kind, target: impl Into<String>, sessions: Vec<String>) {
        self.tell(Report::Fault { kind, target: target.into(), sessions });
    }
}

fn write_all(lines: &Receiver<Line>) {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Ok(first) = lines.recv() {
        // Pending lines are written together.
        for line in std::iter::once(first).chain(lines.try_iter()) {
            if serde_json::to_writer(&mut out, &line).is_err() || out.write_all(b"\n").is_err() {
                return;
            }
        }
        if out.flush().is_err() {
            return;
        }
    }
}
