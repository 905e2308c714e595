//! The end of a child's output, in bounded memory.
//!
//! A drain reads a pipe until all writers have closed it, so that a child never blocks on output, and keeps the last
//! 64 KiB. Nothing is written to a terminal.

use super::spec::OnLine;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What is between the lines of output in an error message.
pub(crate) const BETWEEN_LINES: &str = " | ";

/// How much of a child's output is kept, in bytes.
pub const RING_BYTES: usize = 64 * 1024;

/// The longest line handed on and the longest shown in an error, in bytes.
const LINE_BYTES: usize = 1024;

/// How much is read at once, in bytes.
const CHUNK_BYTES: usize = 8 * 1024;

/// The last 64 KiB a child wrote to its drained pipes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Ring(Arc<Mutex<VecDeque<u8>>>);

impl Ring {
    /// Appends bytes, dropping the oldest if full.
    pub(crate) fn push(&self, read: &[u8]) {
        let newest = &read[read.len().saturating_sub(RING_BYTES)..];
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let surplus = (kept.len() + newest.len()).saturating_sub(RING_BYTES);
        kept.drain(..surplus);
        kept.extend(newest);
    }

    /// Returns the bytes kept.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// The last `count` lines that are not blank, oldest first, joined by ` | `, for an error message: control
    /// characters are left out and each line is at most 1 KiB. Empty without any output.
    pub fn last_lines(&self, count: usize) -> String {
        let bytes = self.bytes();
        let mut lines: Vec<String> =
            bytes.rsplit(|byte| is_line_end(*byte)).map(clean).filter(|line| !line.is_empty()).take(count).collect();
        lines.reverse();
        lines.join(BETWEEN_LINES)
    }
}

/// Reads a pipe to its end. Ends, too, when the pipe fails.
pub(crate) async fn drain(mut pipe: impl AsyncRead + Unpin, ring: Ring, on_line: Option<OnLine>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut line = Vec::new();
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        ring.push(&chunk[..length]);
        if let Some(on_line) = &on_line {
            hand_on(&chunk[..length], &mut line, on_line);
        }
    }
    if let Some(on_line) = &on_line {
        hand_on(b"\n", &mut line, on_line);
    }
}

/// Hands on each line that ended; `line` keeps the beginning of the next one.
fn hand_on(read: &[u8], line: &mut Vec<u8>, on_line: &OnLine) {
    for piece in read.split_inclusive(|byte| is_line_end(*byte)) {
        let room = LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.last().is_some_and(|byte| is_line_end(*byte)) {
            let text = clean(line);
            line.clear();
            if !text.is_empty() {
                on_line(&text);
            }
        }
    }
}

/// A progress bar redraws its line with a carriage return; each redraw is a line.
fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn clean(line: &[u8]) -> String {
    let line = &line[..line.len().min(LINE_BYTES)];
    let text = String::from_utf8_lossy(line);
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}
