//! What is kept of the output of a command: of one that is waited for the beginning and the end, else the end.

use super::super::MAX_TEXT_BYTES;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of each output is kept: half from its beginning, half from its end.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// How much of each output is kept whole for the artifact store, if there is one. Of a longer one the rest is as above.
pub(super) const MAX_WHOLE_BYTES: usize = 16 * 1024 * 1024;
/// How much all commands of the process keep whole at once. Of an output for which there is no room the rest is as above.
pub(super) const MAX_WHOLE_AT_ONCE: usize = 256 * 1024 * 1024;
/// By how much the room of an output that is kept whole grows at once, at least and at most.
const ROOM_STEPS: (usize, usize) = (8 * 1024, 1024 * 1024);
/// How many bytes a byte has as text that is none.
const SIGN_BYTES: usize = char::REPLACEMENT_CHARACTER.len_utf8();
/// How much is kept of a command in the background, both outputs together.
pub(super) const MAX_RING_BYTES: usize = 128 * 1024;
/// How much of a line is told while a command runs.
const MAX_LINE_BYTES: usize = 200;

/// Reads a pipe to its end. A broken pipe is an end like any other.
pub(super) async fn read(from: Option<impl AsyncRead + Unpin>, mut heard: impl FnMut(&[u8])) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; 8192];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        heard(&chunk[..read]);
    }
}

/// The last line of a piece of output that is not empty.
pub(super) fn last_line(bytes: &[u8]) -> Option<String> {
    let line = bytes.rsplit(|byte| matches!(byte, b'\n' | b'\r')).find(|line| !line.trim_ascii().is_empty())?;
    Some(String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]).trim().to_owned())
}

/// What all commands keep whole now.
static WHOLE_NOW: AtomicUsize = AtomicUsize::new(0);

/// A part of what may be kept whole at once, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: &'static AtomicUsize,
    taken: usize,
}

impl Room {
    /// Takes so many bytes more, if there are as many.
    fn grow(&mut self, bytes: usize) -> bool {
        let more = |now: usize| now.checked_add(bytes).filter(|then| *then <= MAX_WHOLE_AT_ONCE);
        let is_there = self.of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_there {
            self.taken += bytes;
        }
        is_there
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// All of an output behind its title.
#[derive(Debug)]
struct Whole {
    bytes: Vec<u8>,
    room: Room,
}

impl Whole {
    fn of(now: &'static AtomicUsize, title: &str) -> Option<Self> {
        let mut whole = Self { bytes: Vec::new(), room: Room { of: now, taken: 0 } };
        whole.push(title.as_bytes()).then_some(whole)
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let (least, most) = ROOM_STEPS;
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            let more = self.bytes.len().clamp(least, most).max(bytes.len());
            if !self.room.grow(more) {
                return false;
            }
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// The text without a copy, where it is one.
    fn text(self) -> Option<(String, Room)> {
        let Self { bytes, mut room } = self;
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(no_text) if room.grow(SIGN_BYTES * no_text.as_bytes().len()) => {
                String::from_utf8_lossy(no_text.as_bytes()).into_owned()
            }
            Err(_no_room) => return None,
        };
        text.truncate(text.trim_end_matches('\n').len());
        Some((text, room))
    }
}

#[derive(Default)]
pub(super) struct Kept {
    title: &'static str,
    head: Vec<u8>,
    /// The last bytes after the head; up to twice as many as are shown, so that it need not be moved at each read.
    tail: Vec<u8>,
    /// How many bytes there were in all.
    total: usize,
    /// All of it, as long as that is wanted and not too much.
    whole: Option<Whole>,
}

impl Kept {
    pub(super) const HALF: usize = MAX_OUTPUT_BYTES / 2;

    /// An output behind this title, of which perhaps all is wanted.
    pub(super) fn of(title: &'static str, is_whole: bool) -> Self {
        let whole = is_whole.then(|| Whole::of(&WHOLE_NOW, title)).flatten();
        Self { title, whole, ..Self::default() }
    }

    /// Reads to the end. Dropped before, it has kept what was read until then; `heard` is given everything.
    pub(super) async fn keep(&mut self, from: Option<impl AsyncRead + Unpin>, heard: &impl Fn(&[u8])) {
        let take = |bytes: &[u8]| {
            self.take(bytes);
            heard(bytes);
        };
        read(from, take).await;
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        let is_too_long = self.total > MAX_WHOLE_BYTES;
        if self.whole.as_mut().is_some_and(|whole| is_too_long || !whole.push(bytes)) {
            self.whole = None;
        }
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(Self::HALF - self.head.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend_from_slice(to_tail);
        if self.tail.len() > 2 * Self::HALF {
            self.tail.drain(..self.tail.len() - Self::HALF);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many bytes there were, if [`text`](Self::text) has all of them.
    pub(super) fn uncut(&self) -> Option<usize> {
        (self.total <= MAX_OUTPUT_BYTES).then_some(self.total)
    }

    /// All of it behind its title, if [`text`](Self::text) has not all; and its room, which is to be kept as long as it is.
    pub(super) fn take_whole(&mut self) -> Option<(String, Room)> {
        let is_cut = self.uncut().is_none();
        self.whole.take().filter(|_| is_cut)?.text()
    }

    pub(super) fn text(&self) -> String {
        let title = self.title;
        let tail = &self.tail[self.tail.len().saturating_sub(Self::HALF)..];
        let left_out = self.total - self.head.len() - tail.len();
        if left_out == 0 {
            let whole = [self.head.as_slice(), tail].concat();
            return format!("{title}{}", String::from_utf8_lossy(&whole).trim_end_matches('\n'));
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(tail));
        format!(
            "{title}{head}\n[… {left_out} of {} bytes are not shown …]\n{}",
            self.total,
            tail.trim_end_matches('\n')
        )
    }
}

/// The end of the output of a command in the background, and how much of it was shown.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Up to twice as many bytes as are kept, so that they need not be moved at each read.
    bytes: Vec<u8>,
    total: usize,
    shown: usize,
}

impl Ring {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * MAX_RING_BYTES {
            self.bytes.drain(..self.bytes.len() - MAX_RING_BYTES);
        }
    }

    /// The output since the last time, or all that is kept, with a notice about what is missing; then it counts as shown.
    pub(super) fn show(&mut self, all: bool) -> String {
        let wanted = self.total - if all { 0 } else { self.shown };
        let most = wanted.min(self.bytes.len()).min(MAX_RING_BYTES).min(MAX_TEXT_BYTES);
        let text = String::from_utf8_lossy(&self.bytes[self.bytes.len() - most..]).trim_end_matches('\n').to_owned();
        self.shown = self.total;
        match wanted - most {
            0 => text,
            missing => format!("[… the first {missing} of {wanted} bytes are not shown …]\n{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_command_in_the_background_the_new_output_is_shown_and_the_end_kept() {
        let mut ring = Ring::default();
        assert_eq!(ring.show(false), "");
        ring.push(b"one\n");
        assert_eq!(ring.show(false), "one");
        assert_eq!(ring.show(false), "");
        ring.push(b"two\n");
        assert_eq!(ring.show(false), "two");
        assert_eq!(ring.show(true), "one\ntwo");
        (0..10).for_each(|_| ring.push(&[b'x'; MAX_RING_BYTES / 3]));
        assert!(ring.bytes.len() <= 2 * MAX_RING_BYTES);
        let (new, shown) = (MAX_RING_BYTES / 3 * 10, ring.show(false));
        let missing = new - MAX_TEXT_BYTES;
        assert!(shown.starts_with(&format!("[… the first {missing} of {new} bytes are not shown …]\nxxx")));
        assert!(ring.show(true).starts_with(&format!("[… the first {} of {}", missing + 8, new + 8)));
        assert_eq!(ring.show(false), "");
    }

    #[test]
    fn outputs_that_are_kept_whole_share_a_room() {
        let now: &'static AtomicUsize = Box::leak(Box::default());
        let mut other = Room { of: now, taken: 0 };
        let mut kept = Kept { title: "[t]\n", whole: Whole::of(now, "[t]\n"), ..Kept::default() };
        kept.take(&[b'x'; MAX_OUTPUT_BYTES]);
        kept.take(b"y\n\n");
        let (text, room) = kept.take_whole().expect("there is room");
        assert_eq!((text.len(), text.ends_with("xy")), (MAX_OUTPUT_BYTES + 5, true));
        let taken = now.load(Ordering::Relaxed);
        assert!((text.capacity()..=text.capacity() + 8 * 1024).contains(&taken), "{taken} {}", text.capacity());
        drop((text, room));
        assert_eq!(now.load(Ordering::Relaxed), 0, "it is given back");

        assert!(other.grow(MAX_WHOLE_AT_ONCE - 200_000) && !other.grow(200_001));
        let mut kept = Kept { whole: Whole::of(now, ""), ..Kept::default() };
        // As text each byte would have three.
        kept.take(&[0xff; MAX_OUTPUT_BYTES + 1]);
        assert!(kept.take_whole().is_none() && kept.text().contains("1 of 65537 bytes are not shown"));
        let mut kept = Kept { whole: Whole::of(now, ""), ..Kept::default() };
        (0..8).for_each(|_| kept.take(&[b'x'; 64 * 1024]));
        assert!(kept.whole.is_none() && kept.text().contains("bytes are not shown"));
        assert_eq!(now.load(Ordering::Relaxed), MAX_WHOLE_AT_ONCE - 200_000);
    }

    #[test]
    fn the_last_line_with_something_in_it_is_told() {
        assert_eq!(last_line(b"one\n two \n\n").as_deref(), Some("two"));
        assert_eq!(last_line(b"10 %\r20 %\r").as_deref(), Some("20 %"));
        assert_eq!(last_line(b"\n \n"), None);
        assert_eq!(last_line(&[b'x'; 1000]).map(|line| line.len()), Some(MAX_LINE_BYTES));
    }
}
