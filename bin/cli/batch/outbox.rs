//! Writes results to stdout in a thread, so that a slow reader blocks nothing but new lines.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::terminal::print;

/// Results the thread may be behind.
const BEHIND: usize = 64;

/// Results are joined for one write up to this size, bytes.
const ENOUGH: usize = 1 << 16;

pub(crate) struct Outbox {
    to: mpsc::Sender<String>,
    waiting: VecDeque<String>,
    unwritten: Unwritten,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// Results that were handed over and are not written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    results: AtomicUsize,
    is_left: AtomicBool,
}

impl Unwritten {
    /// Has no further write begin. Returns how many results may be missing then: those of a write that has begun count,
    /// since the process may end in the middle of it.
    pub(crate) fn leave(&self) -> usize {
        self.0.is_left.store(true, Ordering::SeqCst);
        self.0.results.load(Ordering::SeqCst)
    }

    fn is_left(&self) -> bool {
        self.0.is_left.load(Ordering::SeqCst)
    }
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let (to, from) = mpsc::channel(BEHIND);
        let (tell, ended) = oneshot::channel();
        let unwritten = Unwritten::default();
        let counted = unwritten.clone();
        // This thread is awaited only through `ended`: a pipe without a reader may block it for ever.
        std::thread::spawn(move || {
            let _nobody_waits_any_more = tell.send(write_all(from, &counted, print::cleaned));
        });
        Self { to, waiting: VecDeque::new(), unwritten, ended }
    }

    /// Hands a line over, without its newline.
    pub(crate) fn push(&mut self, line: String) {
        self.waiting.push_back(line);
        self.unwritten.0.results.fetch_add(1, Ordering::SeqCst);
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

    /// What is not written, also while [`finish`](Self::finish) runs.
    pub(crate) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Waits until everything is written.
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

fn write_all(
    mut from: mpsc::Receiver<String>,
    unwritten: &Unwritten,
    mut write: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
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
        if unwritten.is_left() {
            break;
        }
        write(&text)?;
        unwritten.0.results.fetch_sub(count, Ordering::SeqCst);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_counted_with_the_write_under_way_and_no_further_write_begins() {
        let (unwritten, (to, from)) = (Unwritten::default(), mpsc::channel(BEHIND));
        for line in ["a".repeat(ENOUGH), "b".repeat(ENOUGH), "c".to_owned()] {
            unwritten.0.results.fetch_add(1, Ordering::SeqCst);
            to.try_send(line).expect("room");
        }
        let (mut written, mut missing) = (Vec::new(), Vec::new());
        let write = |text: &str| {
            written.push(text.len());
            if written.len() == 2 {
                missing.push(unwritten.leave());
            }
            Ok(())
        };
        write_all(from, &unwritten, write).expect("it was written");
        assert_eq!((written, missing), (vec![ENOUGH + 1, ENOUGH + 1], vec![2]));
        assert_eq!(unwritten.leave(), 1, "the write under way was completed");
    }
}
