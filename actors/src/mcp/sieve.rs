//! Limits the output of a server before the protocol's parser reads it.
//!
//! A JSON parser rejects a whole line when a value in it is nested too deeply, and a line reader rejects one that is
//! too long. A [`Sieve`] replaces a value deeper than [`DEEPEST`] by `null`, so that only its container is affected,
//! and drops a line beyond the limit while reading, with an error response in its place. Everything else passes
//! unchanged, in bounded memory and linear time. Lines that are not JSON pass as well.

use serde_json::{Map, Value, json};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// How deep a value may lie in a line. The reader behind goes to 127.
const DEEPEST: usize = 120;

const TOO_DEEP: usize = DEEPEST + 1;

/// The code of the error that replaces a response that was too long.
pub(super) const LINE_TOO_LONG: i32 = -32_064;

/// How much is read at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// A line of more bytes is large: parsing it takes a while.
const LARGE_BYTES: usize = 1 << 20;

/// How many bytes of a line's top level are recorded. A longer one belongs to no response that could be identified.
const OUTLINE_BYTES: usize = 1024;

pub(super) struct Sieve<R> {
    from: R,
    chunk: Box<[u8]>,
    line: Line,
    sifted: Vec<u8>,
    /// How much of the filtered output was read.
    passed: usize,
    /// Whether the line that is read is large.
    is_large: Arc<AtomicBool>,
}

impl<R> Sieve<R> {
    /// A sieve over a pipe. A line may be `limit` bytes long without its end.
    pub(super) fn new(from: R, limit: usize) -> Self {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        let sifted = Vec::with_capacity(CHUNK_BYTES);
        Self { from, chunk, line: Line::new(limit), sifted, passed: 0, is_large: Arc::default() }
    }

    /// Whether the line that is read is large so far.
    pub(super) fn is_large(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_large)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Sieve<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let sieve = self.get_mut();
        while sieve.passed == sieve.sifted.len() {
            let mut chunk = ReadBuf::new(&mut sieve.chunk);
            ready!(Pin::new(&mut sieve.from).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            sieve.sifted.clear();
            sieve.passed = 0;
            sieve.line.sift(chunk.filled(), &mut sieve.sifted);
            sieve.is_large.store(sieve.line.passed > LARGE_BYTES, Ordering::Relaxed);
        }
        let waiting = &sieve.sifted[sieve.passed..];
        let taken = waiting.len().min(into.remaining());
        into.put_slice(&waiting[..taken]);
        sieve.passed += taken;
        Poll::Ready(Ok(()))
    }
}

struct Line {
    limit: usize,
    place: Place,
    depth: usize,
    /// How many bytes of it have passed.
    passed: usize,
    is_dropped: bool,
    outline: Vec<u8>,
}

/// The state within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    Text,
    /// Behind a backslash in a text.
    Escape,
    /// Behind all that is wanted of a line that is dropped.
    Rest,
}

impl Line {
    fn new(limit: usize) -> Self {
        Self { limit, place: Place::Open, depth: 0, passed: 0, is_dropped: false, outline: Vec::new() }
    }

    /// Copies runs of bytes as long as possible: up to the end of the input or of the line, and to the boundaries of
    /// a top-level value or one that is too deep.
    fn sift(&mut self, read: &[u8], sifted: &mut Vec<u8>) {
        let (mut given, mut at) = (0, 0);
        loop {
            at += self.until_mark(&read[at..]);
            let Some(mark) = read.get(at) else { break };
            match (self.place, mark) {
                (_, b'\n') => {
                    self.give(&read[given..at], sifted);
                    self.end(sifted);
                    given = at + 1;
                }
                (Place::Open, b'{' | b'[') => {
                    if matches!(self.depth, 1 | DEEPEST) {
                        self.give(&read[given..at], sifted);
                        self.stand_in(sifted);
                        given = at;
                    }
                    self.depth += 1;
                }
                (Place::Open, b'}' | b']') => {
                    if matches!(self.depth, 2 | TOO_DEEP) {
                        self.give(&read[given..=at], sifted);
                        given = at + 1;
                    }
                    self.depth = self.depth.saturating_sub(1);
                }
                (Place::Open, b'"') | (Place::Escape, _) => self.place = Place::Text,
                (Place::Text, b'"') => self.place = Place::Open,
                (Place::Text, b'\\') => self.place = Place::Escape,
                (Place::Open | Place::Text | Place::Rest, _) => {}
            }
            at += 1;
        }
        self.give(&read[given..], sifted);
    }

    /// How many bytes pass before one that means something here.
    fn until_mark(&self, read: &[u8]) -> usize {
        let mut bytes = read.iter();
        let mark = match self.place {
            Place::Open => bytes.position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b'\n')),
            Place::Text => bytes.position(|byte| matches!(byte, b'"' | b'\\' | b'\n')),
            Place::Escape => Some(0),
            Place::Rest => bytes.position(|byte| *byte == b'\n'),
        };
        mark.unwrap_or(read.len())
    }

    /// Writes `null` for a value that is left out of the outline or of the line.
    fn stand_in(&mut self, sifted: &mut Vec<u8>) {
        match self.depth == 1 {
            true => self.sketch(b"null"),
            false => self.pass(b"null", sifted),
        }
    }

    /// Copies bytes that are not too deep.
    fn give(&mut self, bytes: &[u8], sifted: &mut Vec<u8>) {
        if self.depth <= 1 {
            self.sketch(bytes);
        }
        if self.depth <= DEEPEST {
            self.pass(bytes, sifted);
        }
    }

    fn pass(&mut self, bytes: &[u8], sifted: &mut Vec<u8>) {
        if self.is_dropped {
            return;
        }
        let room = self.limit - self.passed;
        self.passed += bytes.len().min(room);
        sifted.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.is_dropped = true;
            // Two bytes beyond the limit, so that the next reader drops its data.
            sifted.extend_from_slice(b" \n");
            // Inside a top-level value, the preceding ones are complete.
            if self.depth > 1 {
                self.excuse(b"}", sifted);
            }
        }
    }

    fn end(&mut self, sifted: &mut Vec<u8>) {
        match self.is_dropped {
            true if self.place != Place::Rest => self.excuse(b"", sifted),
            true => {}
            false => sifted.push(b'\n'),
        }
        let mut outline = std::mem::take(&mut self.outline);
        outline.clear();
        *self = Self { outline, ..Self::new(self.limit) };
    }

    /// Records the top level of a line, with `null` for every container.
    fn sketch(&mut self, bytes: &[u8]) {
        // One byte more shows that it is truncated.
        let room = (OUTLINE_BYTES + 1).saturating_sub(self.outline.len());
        self.outline.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Writes an error in place of a dropped response, once its id is known.
    fn excuse(&mut self, missing: &[u8], sifted: &mut Vec<u8>) {
        if self.outline.len() > OUTLINE_BYTES {
            return;
        }
        let outline = [&self.outline, missing].concat();
        if let Some(id) = answered(&outline) {
            let why = format!("answered with a line of more than {} bytes, which was dropped", self.limit);
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": LINE_TOO_LONG, "message": why}});
            sifted.extend_from_slice(error.to_string().as_bytes());
            sifted.push(b'\n');
            self.place = Place::Rest;
        }
    }
}

/// Which question this is the answer to.
fn answered(outline: &[u8]) -> Option<Value> {
    let mut top: Map<String, Value> = serde_json::from_slice(outline).ok()?;
    let is_answer = top.contains_key("result") || top.contains_key("error");
    top.remove("id").filter(|id| is_answer && (id.is_number() || id.is_string()))
}

#[cfg(test)]
#[path = "sieve_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "sieve_fuzz_tests.rs"]
mod fuzz;
