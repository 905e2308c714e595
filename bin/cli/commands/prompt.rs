//! Reading of prompts: from the argument of `run`, all of stdin, or a line of it.

use std::io::{self, BufRead, Read};
use std::os::fd::AsFd;
use std::str::Utf8Error;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use crate::exit::Failure;
use crate::terminal::print;

/// The largest message that is taken, bytes: of `run` its prompt, of `chat` one line.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// How long a pipe beside a prompt may take to begin or end.
const BEGINS_WITHIN: Duration = Duration::from_millis(200);

/// Reads the prompt. With an argument other than `-`, stdin is not touched.
/// Errors: when it is empty, too large, not UTF-8, or cannot be read.
pub(crate) async fn read(argument: Option<&str>) -> Result<String, Failure> {
    read_any(argument).await?.ok_or_else(empty)
}

/// Reads as [`read`]; `None` if there is nothing.
pub(crate) async fn read_any(argument: Option<&str>) -> Result<Option<String>, Failure> {
    text(match argument {
        None | Some("-") => stdin().await?,
        Some(prompt) => prompt.as_bytes().to_vec(),
    })
}

/// Reads the prompt of `run`: as [`read`], but an argument is joined by what stdin has, if stdin is a regular file, or a
/// pipe that has something or ends within [`BEGINS_WITHIN`]. Any other stdin is left alone, and of a pipe that is said.
pub(crate) async fn read_joined(argument: Option<&str>) -> Result<String, Failure> {
    let Some(prompt) = argument.filter(|prompt| *prompt != "-") else { return read(argument).await };
    let has_more = tokio::task::spawn_blocking(|| has_something(io::stdin(), BEGINS_WITHIN)).await.unwrap_or(false);
    if !has_more && is_pipe(io::stdin()) {
        print::note(&format!(
            "[stdin had nothing within {} s and is not read; with - as the message, stdin is the message and is waited for]",
            BEGINS_WITHIN.as_secs_f64()
        ));
    }
    let more = if has_more { stdin().await? } else { Vec::new() };
    if more.len() <= MAX_BYTES {
        // The place is counted from the beginning of stdin.
        str::from_utf8(&more).map_err(|error| no_text("stdin", error))?;
    }
    let mut bytes = prompt.as_bytes().to_vec();
    if !more.iter().all(u8::is_ascii_whitespace) {
        bytes.extend_from_slice(b"\n\n");
        bytes.extend_from_slice(&more);
    }
    checked(bytes)
}

/// Whether this is a pipe, into which another program may still write.
fn is_pipe(input: impl AsFd) -> bool {
    rustix::fs::fstat(&input).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

fn no_text(what: &str, error: Utf8Error) -> Failure {
    let at = error.valid_up_to();
    Failure::usage(format!("{what} is not valid UTF-8 at byte {at}; send it as UTF-8 text"))
}

/// Whether something can be read without waiting longer than this; false for a terminal or another device. Blocks.
fn has_something(input: impl AsFd, within: Duration) -> bool {
    let Ok(kind) = rustix::fs::fstat(&input).map(|stat| FileType::from_raw_mode(stat.st_mode)) else { return false };
    match kind {
        FileType::RegularFile => true,
        FileType::Fifo | FileType::Socket => {
            let mut ready = [PollFd::new(&input, PollFlags::IN)];
            let within = Timespec::try_from(within).ok();
            // The end of a pipe is readable, too.
            poll(&mut ready, within.as_ref()).is_ok_and(|count| count > 0)
        }
        _a_terminal_or_another_device => false,
    }
}

/// Validates a message: UTF-8 text, not blank, and not too large. Errors: the violation, with the limit.
pub(crate) fn checked(bytes: Vec<u8>) -> Result<String, Failure> {
    text(bytes)?.ok_or_else(empty)
}

fn empty() -> Failure {
    Failure::usage("the message is empty; pass it as an argument or on stdin")
}

fn text(bytes: Vec<u8>) -> Result<Option<String>, Failure> {
    if bytes.len() > MAX_BYTES {
        return Err(Failure::usage(format!(
            "the message is larger than {MAX_BYTES} bytes; shorten it, or put it into a file and name that"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| no_text("the message", error.utf8_error()))?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// The next line without its end, cut one byte behind the largest size, which is enough for it to be refused; the rest of
/// it is passed over. `false` at the end.
pub(crate) fn next_line(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    // Room for one huge line is not kept for the small ones after it.
    line.clear();
    line.shrink_to(1 << 16);
    let mut limited = source.by_ref().take(MAX_BYTES as u64 + 2);
    if limited.read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
    } else if line.len() > MAX_BYTES {
        skip_line(source)?;
    }
    line.truncate(MAX_BYTES + 1);
    Ok(true)
}

/// Skips the rest of a line.
fn skip_line(source: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = source.fill_buf()?;
        let (length, is_over) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), bytes.is_empty()),
        };
        source.consume(length);
        if is_over {
            return Ok(());
        }
    }
}

/// The next line that a person types; `None` at the end of the input.
/// Errors: when it cannot be read, or is too large or not UTF-8.
pub(crate) async fn typed_line() -> Result<Option<String>, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = Vec::new();
        next_line(&mut io::stdin().lock(), &mut line).map(|is_there| is_there.then_some(line))
    });
    let line = match read.await {
        Ok(Ok(line)) => line,
        Ok(Err(error)) => return Err(Failure::usage(format!("cannot read the terminal: {error}"))),
        Err(error) => return Err(Failure::internal(format!("reading the terminal broke off: {error}"))),
    };
    // An empty line is an answer.
    let is_blank = |line: &Vec<u8>| line.iter().all(u8::is_ascii_whitespace);
    line.map(|line| if is_blank(&line) { Ok(String::new()) } else { checked(line) }).transpose()
}

/// Everything on stdin, but never more than is taken anyway.
async fn stdin() -> Result<Vec<u8>, Failure> {
    tracing::debug!("reading the prompt from stdin");
    let read = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map(|_count| bytes)
    });
    match read.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(Failure::usage(format!("cannot read stdin: {error}"))),
        Err(error) => Err(Failure::internal(format!("reading stdin broke off: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact() {
        assert_eq!(checked(vec![b'a'; MAX_BYTES]).map(|text| text.len()), Ok(MAX_BYTES));
        let refused = checked(vec![b'a'; MAX_BYTES + 1]).unwrap_err();
        assert!(refused.message.contains("1048576"), "{refused}");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&b""[..], b" \n\t", b"caf\xe9"] {
            assert_eq!(checked(bytes.to_vec()).unwrap_err().exit as u8, 2, "{bytes:?}");
        }
    }

    #[test]
    fn only_a_file_or_a_pipe_that_begins_or_ends_has_something() {
        let soon = Duration::ZERO;
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(!has_something(&reader, soon), "a pipe that says nothing is not waited for");
        io::Write::write_all(&mut writer, b"x").unwrap();
        assert!(has_something(&reader, soon));
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert!(has_something(&reader, soon), "one that ends is read");
        assert!(has_something(tempfile::tempfile().unwrap(), soon));
        assert!(!has_something(std::fs::File::open("/dev/null").unwrap(), soon));
    }

    #[test]
    fn control_characters_are_kept() {
        assert_eq!(checked(b"a\0\x1b[31mb\r\n".to_vec()).as_deref(), Ok("a\0\u{1b}[31mb\r\n"));
    }

    #[test]
    fn a_line_is_kept_to_one_byte_behind_the_limit_and_the_next_one_is_whole() {
        for (length, kept) in [(MAX_BYTES, MAX_BYTES), (MAX_BYTES + 1, MAX_BYTES + 1), (MAX_BYTES * 3, MAX_BYTES + 1)] {
            for end in ["\n", "\r\n"] {
                let text = format!("{}{end}next", "x".repeat(length));
                let (mut source, mut line) = (text.as_bytes(), Vec::new());
                assert!(next_line(&mut source, &mut line).unwrap());
                assert_eq!(line.len(), kept, "{length} {end:?}");
                assert!(next_line(&mut source, &mut line).unwrap());
                assert_eq!((line.as_slice(), next_line(&mut source, &mut Vec::new()).unwrap()), (&b"next"[..], false));
            }
        }
    }
}
