//! Writes results to stdout in a thread, so that a slow reader blocks nothing but new lines.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::terminal::print;

/// Results the thread may be behind.
const BEHIND: usize = 64;

/// Results are joined for one write up to this size, bytes.
const ENOUGH: usize = 1 << 16;

/// Results on their way out.
pub(crate) struct Outbox {
    to: mpsc::Sender<String>,
    waiting: VecDeque<String>,
    unwritten: Unwritten,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// How many results were handed over and are not written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten(Arc<AtomicUsize>);

impl Unwritten {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Outbox {
    /// Starts the thread.
    pub(crate) fn new() -> Self {
        let (to, from) = mpsc::channel(BEHIND);
        let (tell, ended) = oneshot::channel();
        let unwritten = Unwritten::default();
        let counted = unwritten.clone();
        // This thread is awaited only through `ended`: a pipe without a reader may block it for ever.
        std::thread::spawn(move || {
            let _nobody_waits_any_more = tell.send(write_all(from, &counted));
        });
        Self { to, waiting: VecDeque::new(), unwritten, ended }
    }

    /// Hands a line over, without its newline.
    pub(crate) fn push(&mut self, line: String) {
        self.waiting.push_back(line);
        self.unwritten.0.fetch_add(1, Ordering::SeqCst);
        while let Ok(place) = self.to.try_reserve() {
            let Some(line) = self.waiting.pop_front() else { return };
            place.send(line);
        }
    }

    /// Whether results wait for the reader of stdout; nothing new should begin then.
    pub(crate) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over one line that waits, or waits for the end of stdout. `false`: it can no longer be written. Cancel-safe.
    pub(crate) async fn go_on(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.to.closed().await;
            return false;
        }
        let Ok(place) = self.to.reserve().await else { return false };
        if let Some(line) = self.waiting.pop_front() {
            place.send(line);
        }
        true
    }

    /// The count of what is not written, also while [`finish`](Self::finish) runs.
    pub(crate) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        let Self { to, waiting, unwritten: _, ended } = self;
        for line in waiting {
            if to.send(line).await.is_err() {
                break;
            }
        }
        drop(to);
        ended.await.unwrap_or_else(|_gone| Err(io::Error::other("the thread that writes has ended")))
    }
}

fn write_all(mut from: mpsc::Receiver<String>, unwritten: &Unwritten) -> io::Result<()> {
    while let Some(mut text) = from.blocking_recv() {
        let mut count = 1;
        text.push('\n');
        while text.len() < ENOUGH
            && let Ok(more) = from.try_recv()
        {
            text.push_str(&more);
            text.push('\n');
            count += 1;
        }
        print::cleaned(&text)?;
        unwritten.0.fetch_sub(count, Ordering::SeqCst);
    }
    Ok(())
}
