//! Output produced before an answer, kept by the caller in case the answer never comes.

use super::Pulse;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes are kept: the last ones.
pub const MOST_BYTES: usize = 64 * 1024;

/// The end of the output so far, at most [`MOST_BYTES`]. Clones share it. Reading and writing block at most for a
/// copy of that size. The default keeps nothing.
#[derive(Clone, Default)]
pub struct SoFar {
    tail: Option<Arc<Mutex<Tail>>>,
    /// Beats with each piece.
    pulse: Pulse,
}

#[derive(Default)]
struct Tail {
    /// Nothing more is taken.
    is_ended: bool,
    /// Up to twice as many bytes as are kept, so that they need not be moved at each write.
    bytes: Vec<u8>,
    /// How many bytes there were in all.
    total: usize,
}

impl SoFar {
    /// Creates a buffer that keeps output.
    pub fn kept() -> Self {
        Self { tail: Some(Arc::default()), pulse: Pulse::default() }
    }

    /// Has each piece counted as a sign of life.
    #[doc(hidden)]
    #[must_use]
    pub fn beating(self, pulse: &Pulse) -> Self {
        Self { pulse: pulse.clone(), ..self }
    }

    /// The signs of life of the work.
    #[doc(hidden)]
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Appends output. Returns `false` if it was not taken, since it came after the end: then the caller of the question
    /// never learns of it, and it should be shown to no reader either.
    pub fn push(&self, bytes: &[u8]) -> bool {
        self.pulse.beat();
        let Some(tail) = &self.tail else { return true };
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.is_ended {
            return false;
        }
        tail.total += bytes.len();
        tail.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(MOST_BYTES)..]);
        if tail.bytes.len() > 2 * MOST_BYTES {
            let old = tail.bytes.len() - MOST_BYTES;
            tail.bytes.drain(..old);
        }
        true
    }

    /// Forgets the output: what comes next begins anew.
    pub fn clear(&self) {
        let Some(tail) = &self.tail else { return };
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        *tail = Tail { is_ended: tail.is_ended, ..Tail::default() };
    }

    /// The end of the output, as by [`SoFar::text`]; nothing is taken after it.
    pub fn end(&self) -> Option<String> {
        let tail = self.tail.as_ref()?;
        tail.lock().unwrap_or_else(PoisonError::into_inner).is_ended = true;
        self.text()
    }

    /// The end of the output as text, with a notice about omitted bytes; `None` if empty.
    pub fn text(&self) -> Option<String> {
        let tail = self.tail.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.total == 0 {
            return None;
        }
        let kept = &tail.bytes[tail.bytes.len().saturating_sub(MOST_BYTES)..];
        let text = String::from_utf8_lossy(kept).trim_end_matches('\n').to_owned();
        Some(match tail.total - kept.len() {
            0 => text,
            before => format!("[… the first {before} of {} bytes are not shown …]\n{text}", tail.total),
        })
    }
}

impl SoFar {
    /// The reason for a missing result, with the output so far if there is any.
    pub fn behind(&self, why: String) -> String {
        match self.text() {
            Some(output) => format!("{why}; its output so far:\n{output}"),
            None => why,
        }
    }
}

impl fmt::Debug for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tail.is_some() { "SoFar(kept)" } else { "SoFar(nobody)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_what_was_before_is_counted() {
        let so_far = SoFar::kept();
        assert_eq!(so_far.text(), None);
        so_far.clone().push(b"one\n");
        assert_eq!(so_far.text().as_deref(), Some("one"));
        so_far.push(&vec![b'x'; MOST_BYTES - 4]);
        assert_eq!(so_far.text().unwrap().len(), MOST_BYTES, "exactly as much as is kept");
        so_far.push(b"y");
        let text = so_far.text().unwrap();
        assert!(text.starts_with("[… the first 1 of 65537 bytes are not shown …]\nne\nx"), "{}", &text[..80]);
        assert!(text.ends_with("xy"));
        for _ in 0..10 {
            so_far.push(&vec![b'z'; 3 * MOST_BYTES]);
        }
        assert!(so_far.text().unwrap().len() < MOST_BYTES + 100, "bounded");
        let nobody = SoFar::default();
        nobody.push(b"lost");
        assert_eq!(nobody.text(), None);
    }
}
