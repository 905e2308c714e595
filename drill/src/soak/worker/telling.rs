//! The worker's way to its parent: lines on stdout, written by a thread of its own so that nobody waits for the pipe.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use bob_actors::clock;

use crate::soak::chaos::Kind;
use crate::soak::wire::{Line, Told};

/// Tells the parent something. Clones tell the same parent.
#[derive(Debug, Clone)]
pub(crate) struct Telling(Sender<Line>);

impl Telling {
    /// Begins to write. The thread ends when the last clone is gone or nobody reads any more.
    pub(crate) fn begin() -> (Self, JoinHandle<()>) {
        let (sender, lines) = channel();
        (Self(sender), thread::spawn(move || write_all(&lines)))
    }

    /// Tells it, with the time of now. A parent that is gone ends the worker in another way.
    pub(crate) fn tell(&self, told: Told) {
        let _parent_is_gone = self.0.send(Line { at: u64::try_from(clock::now()).unwrap_or(0), told });
    }

    /// Tells that something was done on purpose to these sessions; none means all.
    pub(crate) fn fault(&self, kind: Kind, target: impl Into<String>, sessions: Vec<String>) {
        self.tell(Told::Fault { kind, target: target.into(), sessions });
    }
}

fn write_all(lines: &Receiver<Line>) {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Ok(first) = lines.recv() {
        // What waits goes out in one piece.
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
