//! The queue in front of stderr. A separate thread writes it, so that a reader that has stopped reading (a full pipe,
//! a terminal after Ctrl-S, a log collector that hangs) blocks that thread and nothing else.
//!
//! Lines keep their order. The queue is bounded by bytes: beyond [`MOST_BYTES`] further text is dropped and counted,
//! and the count is written when there is room again. A reader that keeps up loses nothing.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How many bytes wait for the reader at most; one text that is longer is still taken when nothing waits.
const MOST_BYTES: usize = 1024 * 1024;

/// How many bytes may wait while the lines below everything else are drawn: a reader that is behind gets no drawings.
const MOST_BEFORE_DRAWING: usize = 16 * 1024;

/// How long a front end waits for its own text to be written, so that later output to stdout comes after it. A reader
/// that exceeded this is not waited for again until it has caught up.
const WRITTEN_WITHIN: Duration = Duration::from_millis(100);

/// The limit on a terminal, where late output would overwrite later drawings.
const DRAWN_WITHIN: Duration = Duration::from_secs(1);

/// How long until a full non-blocking pipe is tried again.
const FULL_FOR: Duration = Duration::from_millis(5);

/// How long the end of the program waits for a reader that takes nothing.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// How long it waits at most while there is room for more: a busy machine may let the writing thread wait.
const LAST_WAIT_WITH_ROOM: Duration = Duration::from_millis(2_500);

enum Text {
    /// Lines of text, or records for programs.
    Said(String),
    /// A drawing, which is repeated shortly after. Dropped without a count.
    Drawn(String),
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    /// The bytes that wait, without the text that is being written.
    bytes: usize,
    /// How many texts were queued, and how many of them are written.
    queued: u64,
    written: u64,
    /// Texts that were dropped and not yet reported.
    lost: u64,
    /// The reader let a wait pass and has not caught up since.
    is_slow: bool,
}

impl Queue {
    /// Queues a text, without waiting for anything.
    fn push(&self, text: Text) {
        let mut state = self.lock();
        match text {
            Text::Drawn(text) if state.bytes > MOST_BEFORE_DRAWING => drop(text),
            Text::Drawn(text) => state.push(text),
            Text::Said(text) if state.bytes > 0 && state.bytes + text.len() > MOST_BYTES => state.lost += 1,
            Text::Said(text) => {
                state.report_lost();
                state.push(text);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until everything queued is written, up to `limit`; not for a reader known to be slow.
    fn settle(&self, limit: Duration) {
        let state = self.lock();
        if !state.is_slow {
            let mut state = self.wait_written(state, limit);
            state.is_slow = state.written < state.queued;
        }
    }

    /// Waits until everything queued, including the count of dropped texts, is written, up to `limit`. Returns
    /// whether it is.
    fn finish(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        state.report_lost();
        self.changed.notify_all();
        let state = self.wait_written(state, limit);
        state.written == state.queued
    }

    fn wait_written<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let wanted = state.queued;
        let waited = self.changed.wait_timeout_while(state, limit, |state| state.written < wanted);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes queued text, for ever. Write errors are ignored: there is no other place to report them.
    fn write_to(&self, mut out: impl Write) {
        loop {
            let state = self.lock();
            let waited = self.changed.wait_while(state, |state| state.waiting.is_empty());
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(text) = state.waiting.pop_front() else { continue };
            state.bytes -= text.len();
            drop(state);
            let _no_other_place = write_whole(&mut out, text.as_bytes());
            let mut state = self.lock();
            state.written += 1;
            if state.written == state.queued {
                state.is_slow = false;
                state.report_lost();
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, text: String) {
        self.bytes += text.len();
        self.queued += 1;
        self.waiting.push_back(text);
    }

    /// Queues the count of dropped texts, once.
    fn report_lost(&mut self) {
        match std::mem::take(&mut self.lost) {
            0 => {}
            1 => self.push("warning: stderr was not read in time; 1 message is lost\n".to_owned()),
            lost => self.push(format!("warning: stderr was not read in time; {lost} messages are lost\n")),
        }
    }
}

/// Writes all of it, to a pipe that some other program made non-blocking as well.
fn write_whole(out: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match out.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(FULL_FOR),
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

/// The queue of this process. Its thread starts with the first use; without a thread, which a machine without room for
/// one may refuse, nothing is written.
fn queue() -> &'static Queue {
    static QUEUE: OnceLock<Queue> = OnceLock::new();
    static WRITER: OnceLock<io::Result<thread::JoinHandle<()>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(Queue::default);
    WRITER.get_or_init(|| thread::Builder::new().name("stderr".into()).spawn(|| queue.write_to(io::stderr())));
    queue
}

/// Queues lines, without waiting: for the runtime's threads.
pub(crate) fn tell(text: String) {
    queue().push(Text::Said(text));
}

pub(crate) fn draw(text: String) {
    queue().push(Text::Drawn(text));
}

/// Waits until queued text is written, so that the caller's next output comes after it: up to 100 ms, on a terminal a
/// second, and not at all for a reader that exceeded this before.
pub(crate) fn settle() {
    queue().settle(if io::stderr().is_terminal() { DRAWN_WITHIN } else { WRITTEN_WITHIN });
}

/// Gives the reader a last chance, at the end of the program: half a second when it takes nothing, 2.5 s while it does.
pub(crate) fn finish() {
    let began = Instant::now();
    while !queue().finish(LAST_WAIT) && has_room() && began.elapsed() < LAST_WAIT_WITH_ROOM {}
}

/// Whether stderr takes more without waiting: a pipe that is not full, a terminal that is not stopped, any file.
fn has_room() -> bool {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
#[path = "stderr_tests.rs"]
mod tests;
