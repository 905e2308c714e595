//! Selects the next line: lines are queued by session, and the sessions take turns.
//!
//! Plain data. A session's lines leave in order and one at a time; a session whose line has run moves behind the
//! others, so one with thousands of lines does not delay the others. The size is bounded by [`Queue::is_full`].

use std::collections::{HashMap, VecDeque};

use bob::SessionId;

use super::line::BatchLine;

/// Lines that wait at most. A session with more lines than this in a row makes the others wait for it.
pub(crate) const MOST_LINES: usize = 65_536;

/// And their size, bytes.
const MOST_BYTES: usize = 32 << 20;

/// The lines that were read and have not begun.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Sessions with a line that waits or runs.
    sessions: HashMap<SessionId, Waiting>,
    /// Sessions whose next line may begin, the next one first.
    ready: VecDeque<SessionId>,
    lines: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<BatchLine>,
    runs: bool,
}

impl Queue {
    pub(crate) fn push(&mut self, line: BatchLine) {
        self.lines += 1;
        self.bytes += line.bytes();
        let waiting = self.sessions.entry(line.session.clone()).or_default();
        if waiting.lines.is_empty() && !waiting.runs {
            self.ready.push_back(line.session.clone());
        }
        waiting.lines.push_back(line);
    }

    /// The next line to begin; its session waits until [`done`](Self::done).
    pub(crate) fn next(&mut self) -> Option<BatchLine> {
        let session = self.ready.pop_front()?;
        let waiting = self.sessions.get_mut(&session)?;
        let line = waiting.lines.pop_front()?;
        waiting.runs = true;
        self.lines -= 1;
        self.bytes -= line.bytes();
        Some(line)
    }

    /// The session's line has ended. `true`: nothing of it waits.
    pub(crate) fn done(&mut self, session: &SessionId) -> bool {
        let Some(waiting) = self.sessions.get_mut(session) else { return true };
        waiting.runs = false;
        if waiting.lines.is_empty() {
            self.sessions.remove(session);
            return true;
        }
        self.ready.push_back(session.clone());
        false
    }

    /// Whether no further line should be read for now.
    pub(crate) fn is_full(&self) -> bool {
        self.lines >= MOST_LINES || self.bytes >= MOST_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.lines
    }
}

/// The sessions whose lines have all run, the last used last. Their actors are kept for further lines, up to a number.
#[derive(Debug, Default)]
pub(crate) struct Rested {
    at: HashMap<SessionId, u64>,
    order: VecDeque<(u64, SessionId)>,
    clock: u64,
}

impl Rested {
    /// The session has nothing to do.
    pub(crate) fn rest(&mut self, session: &SessionId) {
        self.clock += 1;
        self.at.insert(session.clone(), self.clock);
        self.order.push_back((self.clock, session.clone()));
    }

    /// It has something to do again.
    pub(crate) fn wake(&mut self, session: &SessionId) {
        self.at.remove(session);
    }

    /// Removes the session that has been idle longest, if there are more than `kept`.
    pub(crate) fn beyond(&mut self, kept: usize) -> Option<SessionId> {
        // Entries of sessions that woke and rested again are stale; there are never many of them.
        if self.order.len() > 2 * kept + 64 {
            let at = &self.at;
            self.order.retain(|(when, session)| at.get(session) == Some(when));
        }
        while self.at.len() > kept {
            let (when, session) = self.order.pop_front()?;
            if self.at.get(&session) == Some(&when) {
                self.at.remove(&session);
                return Some(session);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, session: &str) -> BatchLine {
        BatchLine::read(number, format!(r#"{{"session":"{session}","prompt":"p"}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn a_long_session_takes_turns_with_short_ones() {
        let mut queue = Queue::default();
        (0..1_000).for_each(|number| queue.push(line(number, "long")));
        queue.push(line(1_000, "a"));
        queue.push(line(1_001, "b"));
        let mut order = Vec::new();
        for _ in 0..5 {
            let next = queue.next().unwrap();
            order.push((next.session.as_str().to_owned(), next.number));
            queue.done(&next.session);
        }
        let expected = [("long", 0), ("a", 1_000), ("b", 1_001), ("long", 1), ("long", 2)];
        assert_eq!(order, expected.map(|(session, number)| (session.to_owned(), number)));
        assert_eq!(queue.len(), 997);
    }

    #[test]
    fn a_session_runs_one_line_at_a_time() {
        let mut queue = Queue::default();
        queue.push(line(1, "a"));
        queue.push(line(2, "a"));
        let first = queue.next().unwrap();
        assert_eq!((first.number, queue.next()), (1, None));
        queue.push(line(3, "a"));
        assert_eq!(queue.next(), None);
        assert!(!queue.done(&first.session));
        assert_eq!(queue.next().unwrap().number, 2);
        assert!(!queue.done(&first.session));
        assert_eq!(queue.next().unwrap().number, 3);
        assert!(queue.done(&first.session));
        assert!(queue.sessions.is_empty() && queue.bytes == 0 && queue.len() == 0);
    }

    #[test]
    fn what_waits_is_bounded_by_number_and_by_size() {
        let mut queue = Queue::default();
        (1..MOST_LINES as u64).for_each(|number| queue.push(line(number, "a")));
        assert!(!queue.is_full());
        queue.push(line(0, "a"));
        assert!(queue.is_full());
        let mut queue = Queue::default();
        let big = format!(r#"{{"session":"s","prompt":"{}"}}"#, "a".repeat(1 << 19));
        (0..64).for_each(|number| queue.push(BatchLine::read(number, big.as_bytes()).unwrap()));
        assert!(queue.is_full());
    }

    #[test]
    fn the_session_that_rests_longest_goes_first() {
        let mut rested = Rested::default();
        let [a, b, c] = ["a", "b", "c"].map(|id| SessionId::parse(id).unwrap());
        [&a, &b, &c].into_iter().for_each(|session| rested.rest(session));
        rested.wake(&a);
        assert_eq!(rested.beyond(2), None);
        rested.rest(&a);
        assert_eq!((rested.beyond(2), rested.beyond(2)), (Some(b), None));
        for _ in 0..10_000 {
            rested.rest(&c);
            assert_eq!(rested.beyond(2), None);
        }
        assert!(rested.order.len() < 100, "{}", rested.order.len());
    }
}
