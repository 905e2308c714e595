//! `local/read_file`.
//!
//! A file of any size is read anywhere: what is before the lines that are asked for is passed over, and no more than
//! is shown is kept in memory.

use super::super::function::{FnTool, tool};
use super::super::port::{Invocation, ToolError};
use super::confine::place;
use super::seen::Seen;
use super::{MAX_FILE_BYTES, MAX_TEXT_BYTES, NO_TEXT, Unwanted, blocking};
use bob_messages::chat::ContentPart;
use bob_messages::tools::{TextEncoding, ToolKind, ToolOutput};
use cap_std::fs::File;
use encoding_rs::WINDOWS_1252;
use encoding_rs_io::DecodeReaderBytesBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::sync::Arc;

/// How many lines are read when the call does not say.
const DEFAULT_LINES: u64 = 2000;
/// How far behind the shown lines the others are counted, in bytes.
const MAX_COUNTED_BYTES: u64 = 64 * 1024 * 1024;
/// After how many lines a call that is no longer wanted is noticed.
const LOOKED_UP_EVERY: u64 = 4096;
/// How much of the shown text the number of a line may take, in bytes.
const ROOM_FOR_NUMBER: usize = 24;
/// What some programs write at the beginning of a text; it is no part of the first line.
const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// Path of the file
    path: String,
    /// First line to read
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// Number of lines to read
    #[serde(default = "lines")]
    #[schemars(range(min = 1))]
    limit: u64,
    /// First byte to read of a line that is too long for one call
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    column: u64,
}

fn first() -> u64 {
    1
}

fn lines() -> u64 {
    DEFAULT_LINES
}

const DESCRIPTION: &str = "Read the file. Each line is shown behind its number and a tab, which are no part of it. Up to \
                           56 KB a call; a notice says how to read on";

pub(super) fn read_file(seen: &Arc<Seen>) -> FnTool {
    let seen = Arc::clone(seen);
    tool("local/read_file", DESCRIPTION, move |arguments: ReadFile, invocation| {
        let seen = Arc::clone(&seen);
        blocking(invocation, move |invocation, unwanted| read(invocation, &arguments, &seen, unwanted))
    })
    .kind(ToolKind::Read)
    .read_only()
}

fn read(invocation: &Invocation, wanted: &ReadFile, seen: &Seen, unwanted: &Unwanted) -> Result<ToolOutput, ToolError> {
    let place = place(&invocation.context.roots, &wanted.path)?;
    let mut file = place.open_file()?;
    let length = file.metadata().map_err(|error| place.explain(&error))?.len();
    let read = if length <= MAX_FILE_BYTES {
        let mut bytes = Vec::new();
        (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| place.explain(&error))?;
        seen.note(&invocation.context.session, &place.full(), &bytes);
        let (text, encoding): (Cow<'_, [u8]>, _) = match TextEncoding::decode(&bytes) {
            Some((Cow::Borrowed(text), encoding)) => (text.as_bytes().into(), encoding),
            Some((Cow::Owned(text), encoding)) => (text.into_bytes().into(), encoding),
            // The beginning may be text, and where the rest begins is told.
            None => (bytes[..].into(), TextEncoding::Utf8),
        };
        let read = window(&mut Lines { from: &*text, at: 0, unwanted }, wanted, bytes.len() as u64);
        read.map(|window| window.of(encoding))
    } else {
        large(file, wanted, length, unwanted)
    };
    let read = read.map_err(|stopped| match stopped {
        Stopped::System(error) => place.explain(&error),
        Stopped::Unwanted => ToolError::new("the reading was stopped"),
        Stopped::NoText(at) => {
            ToolError::new(format!("{:?} is not a text file: {NO_TEXT}; byte {at} is not UTF-8", place.shown))
        }
    })?;
    let mut parts = Vec::new();
    if !read.text.is_empty() {
        parts.push(ContentPart::text(read.text));
    }
    parts.extend(read.notice.map(ContentPart::text));
    let line = u32::try_from(wanted.offset).ok().filter(|line| *line > 1);
    Ok(ToolOutput { parts, locations: vec![place.location(line)], ..ToolOutput::default() })
}

#[derive(Debug, PartialEq)]
struct Window {
    text: String,
    /// What is not shown, and how to read on; `None` when everything is shown.
    notice: Option<String>,
}

impl Window {
    /// With a word about the encoding of the file, if it is an unusual one.
    fn of(self, encoding: TextEncoding) -> Self {
        if encoding.is_utf8() {
            return self;
        }
        let told = format!("[the file is {encoding}]");
        Self { notice: Some(self.notice.map_or(told.clone(), |notice| format!("{notice}\n{told}"))), ..self }
    }
}

/// Reads a file that is not kept in memory. Without the mark of UTF-16 it is UTF-8, else Windows-1252 if the lines that are shown
/// are read so by themselves: a fault in a text of UTF-8 makes no other text of it.
fn large(file: File, wanted: &ReadFile, length: u64, unwanted: &Unwanted) -> Result<Window, Stopped> {
    let mut file = file.into_std();
    let mut mark = [0; 2];
    file.read_exact(&mut mark)?;
    file.rewind()?;
    let encoding = TextEncoding::of_mark(&mark);
    let read = match encoding {
        Some(_) => {
            let from = BufReader::new(DecodeReaderBytesBuilder::new().build(&file));
            window(&mut Lines { from, at: 0, unwanted }, wanted, length)
        }
        None => window(&mut Lines { from: BufReader::new(&file), at: 0, unwanted }, wanted, length),
    };
    let no_text = match (read, encoding) {
        (Ok(window), Some(encoding)) => {
            let is_faulty = window.text.contains('\0')
                || window.text.contains(char::REPLACEMENT_CHARACTER) && !is_utf16(&mut file, encoding)?;
            return if is_faulty { Err(Stopped::NoText(0)) } else { Ok(window.of(encoding)) };
        }
        (Err(no_text @ Stopped::NoText(_)), None) => no_text,
        (read, _) => return read,
    };
    file.rewind()?;
    let from = DecodeReaderBytesBuilder::new().encoding(Some(WINDOWS_1252)).build(&file);
    let read = window(&mut Lines { from: BufReader::new(from), at: 0, unwanted }, wanted, length)?;
    // Without their numbers.
    let lines: Vec<_> = read.text.split('\n').filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    match TextEncoding::Windows1252.encode_exactly(&lines.join("\n")) {
        Ok(_) => Ok(read.of(TextEncoding::Windows1252)),
        Err(_read_differently) => Err(no_text),
    }
}

/// Whether a file is UTF-16 without a fault, as far as is looked at: the sign that stands for one is a character as well.
fn is_utf16(file: &mut std::fs::File, encoding: TextEncoding) -> io::Result<bool> {
    file.rewind()?;
    let mut bytes = BufReader::new(file).take(MAX_COUNTED_BYTES).bytes();
    let units = std::iter::from_fn(|| {
        let pair = [bytes.next()?.ok()?, bytes.next()?.ok()?];
        Some(match encoding {
            TextEncoding::Utf16Be => u16::from_be_bytes(pair),
            TextEncoding::Utf16Le | TextEncoding::Utf8 | TextEncoding::Windows1252 => u16::from_le_bytes(pair),
        })
    });
    Ok(char::decode_utf16(units).all(|read| read.is_ok()))
}

#[derive(Debug)]
enum Stopped {
    System(io::Error),
    Unwanted,
    /// At this byte.
    NoText(u64),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

struct Lines<'a, R> {
    from: R,
    /// How many bytes were read.
    at: u64,
    unwanted: &'a Unwanted,
}

impl<R: BufRead> Lines<'_, R> {
    /// Passes over so many lines, the last of which may have no end; returns how many there were.
    fn skip(&mut self, count: u64) -> Result<u64, Stopped> {
        for line in 0..count {
            if line % LOOKED_UP_EVERY == 0 && self.unwanted.is_so() {
                return Err(Stopped::Unwanted);
            }
            let bytes = self.from.skip_until(b'\n')?;
            self.at += bytes as u64;
            if bytes == 0 {
                return Ok(line);
            }
        }
        Ok(count)
    }

    /// Passes over so many bytes, but not over the end of the line.
    fn skip_in_line(&mut self, count: u64) -> Result<(), Stopped> {
        let mut left = count;
        loop {
            let bytes = self.from.fill_buf()?;
            let most = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let end = bytes[..most].iter().position(|byte| *byte == b'\n');
            let passed = end.unwrap_or(most);
            self.from.consume(passed);
            self.at += passed as u64;
            left -= passed as u64;
            if end.is_some() || passed == 0 {
                return Ok(());
            }
        }
    }

    /// How many lines there still are; the rest of one that was begun counts, too.
    fn count(&mut self, is_begun: bool) -> Result<u64, Stopped> {
        let rest = self.skip(u64::MAX)?;
        Ok(if is_begun { rest.max(1) } else { rest })
    }

    /// Reads the rest of the line with its end, or its next `most` bytes.
    fn read(&mut self, most: usize) -> Result<Vec<u8>, Stopped> {
        let mut line = Vec::new();
        self.at += (&mut self.from).take(most as u64).read_until(b'\n', &mut line)? as u64;
        Ok(line)
    }
}

enum Rest {
    Nothing,
    /// This line, and whether a part of it was read.
    Line(u64, bool),
    /// More of the only line, from this byte of it.
    Column(u64),
}

fn window<R: BufRead>(lines: &mut Lines<'_, R>, wanted: &ReadFile, length: u64) -> Result<Window, Stopped> {
    let ReadFile { offset, limit, column, path: _ } = *wanted;
    let before = lines.skip(offset - 1)?;
    lines.skip_in_line(column - 1)?;
    let (mut text, mut next) = (String::new(), offset);
    let rest = loop {
        if next - offset == limit {
            break Rest::Line(next, false);
        }
        let (begins_at, is_first) = (lines.at, next == offset);
        let room = MAX_TEXT_BYTES.saturating_sub(text.len() + ROOM_FOR_NUMBER).max(1);
        let line = lines.read(room)?;
        let is_whole = line.ends_with(b"\n") || line.len() < room;
        if line.is_empty() {
            break Rest::Nothing;
        }
        if !is_whole && !is_first {
            break Rest::Line(next, true);
        }
        let (shown, end) = shown(&line, begins_at, is_first && column > 1, is_whole)?;
        text.push_str(if is_first { "" } else { "\n" });
        // Writing to a string does not fail.
        let _written = write!(text, "{next}\t{shown}");
        if !is_whole {
            break Rest::Column(column + end);
        }
        next += 1;
    };
    let to_the_end =
        || (offset > 1 || column > 1).then(|| format!("[lines {offset} to {}; the file ends here]", next - 1));
    let notice = match rest {
        _ if length == 0 => Some("[the file is empty]".to_owned()),
        _ if text.is_empty() => Some(format!("[the file has {before} lines; there is no line {offset}]")),
        Rest::Nothing => to_the_end(),
        Rest::Line(line, is_begun) => {
            let is_counted = length.saturating_sub(lines.at) <= MAX_COUNTED_BYTES;
            let total = if is_counted { Some(line - 1 + lines.count(is_begun)?) } else { None };
            let of = total.map_or(format!("of a file of {length} bytes"), |total| format!("of {total}"));
            let on = format!("[lines {offset} to {} {of}; read on with \"offset\": {line}]", line - 1);
            if total == Some(line - 1) { to_the_end() } else { Some(on) }
        }
        Rest::Column(column) => {
            Some(format!("[line {offset} goes on; read on with \"offset\": {offset}, \"column\": {column}]"))
        }
    };
    Ok(Window { text, notice })
}

/// The text of a line, and where in it the next one begins when it is not whole.
fn shown(line: &[u8], begins_at: u64, may_begin_within: bool, is_whole: bool) -> Result<(&str, u64), Stopped> {
    // A column in the middle of a character shows what is behind it.
    let is_rest = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let begin = if may_begin_within { line.iter().take(3).take_while(|byte| is_rest(byte)).count() } else { 0 };
    let end = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line)).len();
    let bytes = &line[begin..end.max(begin)];
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        // The cut may go through a character.
        Err(error) if !is_whole && error.error_len().is_none() => {
            str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(Stopped::NoText(begins_at + (begin + error.valid_up_to()) as u64)),
    };
    let is_first = begins_at == 0;
    let shown = if is_first { text.trim_start_matches(BYTE_ORDER_MARK) } else { text };
    Ok((shown, (begin + text.len()) as u64))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
