//! Splits a stream of bytes into server-sent events, as the HTML standard describes them: lines that end in LF, CR or
//! both, and an empty line behind each event. Bounded, and each byte is looked at once, however the reads cut it.

/// The most bytes of one event.
const MOST_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Why bytes are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unreadable {
    /// More than [`MOST_EVENT_BYTES`] without an end.
    Endless,
    NoText,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    /// A line whose end has not come.
    line: Vec<u8>,
    event: Option<String>,
    data: String,
    /// How many bytes the event has so far, its open line apart.
    bytes: usize,
    /// A line ended in CR: an LF that follows belongs to it.
    after_return: bool,
}

impl Frames {
    /// Takes in a read and hands on each event that is whole; returns how many were. An event without data counts, as
    /// does a comment: they are signs of life. Errors: when an event is too long or no UTF-8.
    pub(super) fn read(&mut self, bytes: &[u8], mut on: impl FnMut(Option<&str>, &str)) -> Result<usize, Unreadable> {
        let (mut rest, mut whole) = (bytes, 0);
        if self.after_return
            && let Some(first) = rest.first()
        {
            self.after_return = false;
            rest = if *first == b'\n' { &rest[1..] } else { rest };
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, ending) = rest.split_at(end);
            let pair = usize::from(ending.starts_with(b"\r\n"));
            self.after_return = ending == b"\r";
            rest = &ending[1 + pair..];
            whole += usize::from(self.take(line, &mut on)?);
        }
        self.line.extend_from_slice(rest);
        if self.bytes + self.line.len() > MOST_EVENT_BYTES { Err(Unreadable::Endless) } else { Ok(whole) }
    }

    /// The end of the stream: an event that lacks its empty line counts. Errors: when what is left is no UTF-8.
    pub(super) fn end(&mut self, mut on: impl FnMut(Option<&str>, &str)) -> Result<usize, Unreadable> {
        self.take(b"", &mut on)?;
        Ok(usize::from(self.take(b"", &mut on)?))
    }

    /// Takes the end of a line; whether it ended an event.
    fn take(&mut self, end: &[u8], on: &mut impl FnMut(Option<&str>, &str)) -> Result<bool, Unreadable> {
        if self.line.is_empty() {
            return self.line(end, on);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        let ended = self.line(&line, on);
        line.clear();
        self.line = line;
        ended
    }

    fn line(&mut self, line: &[u8], on: &mut impl FnMut(Option<&str>, &str)) -> Result<bool, Unreadable> {
        if line.is_empty() {
            let has_lines = std::mem::take(&mut self.bytes) > 0;
            if has_lines {
                on(self.event.as_deref(), &self.data);
                self.event = None;
                self.data.clear();
            }
            return Ok(has_lines);
        }
        self.bytes += line.len() + 1;
        if self.bytes > MOST_EVENT_BYTES {
            return Err(Unreadable::Endless);
        }
        let line = std::str::from_utf8(line).map_err(|_no_text| Unreadable::NoText)?.trim();
        if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.trim());
        } else if let Some(event) = line.strip_prefix("event:") {
            self.event = Some(event.trim().to_owned());
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Event = (Option<String>, String);

    fn read_in(pieces: &[&[u8]]) -> Result<Vec<Event>, Unreadable> {
        let (mut frames, mut seen) = (Frames::default(), Vec::new());
        let mut on = |event: Option<&str>, data: &str| seen.push((event.map(str::to_owned), data.to_owned()));
        for piece in pieces {
            frames.read(piece, &mut on)?;
        }
        frames.end(&mut on)?;
        Ok(seen)
    }

    const TEXT: &str =
        "data: {\"a\":1}\n\nevent: x\r\ndata: é\r\ndata:two\r\n\r\n: alive\n\n\n\nid: 7\rdata: [DONE]\r\rdata: cut";

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        let seen = read_in(&[TEXT.as_bytes()]).unwrap();
        let of = |event: Option<&str>, data: &str| (event.map(str::to_owned), data.to_owned());
        let expected =
            [of(None, "{\"a\":1}"), of(Some("x"), "é\ntwo"), of(None, ""), of(None, "[DONE]"), of(None, "cut")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_cut_reads_the_same() {
        let bytes = TEXT.as_bytes();
        let whole = read_in(&[bytes]).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(read_in(&[&bytes[..cut], &bytes[cut..]]).unwrap(), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read_in(&single).unwrap(), whole);
    }

    #[test]
    fn l8_an_event_without_an_end_is_refused() {
        let piece = vec![b'x'; 1 << 20];
        let lines: Vec<u8> = piece.iter().copied().chain([b'\n']).collect();
        for piece in [piece, lines] {
            let mut frames = Frames::default();
            let reads = (0..20).map(|_| frames.read(&piece, |_, _| {})).collect::<Result<Vec<_>, _>>();
            assert_eq!(reads, Err(Unreadable::Endless));
        }
        assert_eq!(read_in(&[b"data: \xff\n\n"]), Err(Unreadable::NoText));
    }

    #[test]
    fn fuzz_any_bytes_are_read_alike_in_any_pieces() {
        bolero::check!(name = "events").with_iterations(500).with_max_len(80).for_each(|input: &[u8]| {
            let words = ["\n", "\r", "\r\n", "data:", " ", "event:", "a", ":", "é", "\n\n"];
            let woven: String = input.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect();
            for bytes in [input, woven.as_bytes()] {
                let single: Vec<&[u8]> = bytes.chunks(1).collect();
                assert_eq!(read_in(&single), read_in(&[bytes]));
            }
        });
    }
}
