//! The lines of the input: a thread reads them, a few ahead of the batch.
//!
//! Owns the file or stdin. Nothing is kept that was taken, and never more than a few lines that were not: a reader that is
//! faster than the turns waits.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::line::{BadLine, BatchLine};
use crate::commands::prompt::next_line;
use crate::exit::Failure;
use crate::terminal::print;

/// Lines the thread may be ahead; with lines of the largest size that is as many MiB.
const AHEAD: usize = 32;

/// The byte order mark that Windows editors write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(crate) enum Found {
    Line(BatchLine),
    Bad(BadLine),
    /// The input cannot be read on; nothing follows.
    Broken(String),
}

/// The lines of a batch. Blank ones are skipped; the channel closes after the last one.
pub(crate) struct Input {
    pub(crate) found: mpsc::Receiver<Found>,
    /// The number of lines, once known.
    pub(crate) total: Total,
}

/// A number that is set once.
#[derive(Clone, Debug)]
pub(crate) struct Total(Arc<AtomicU64>);

const UNKNOWN: u64 = u64::MAX;

impl Total {
    fn unknown() -> Self {
        Self(Arc::new(AtomicU64::new(UNKNOWN)))
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|total| *total != UNKNOWN)
    }

    pub(crate) fn set(&self, total: u64) {
        self.0.store(total, Ordering::Release);
    }
}

/// Opens a file, or stdin for `-`, and begins to read. A pipe with a name is waited for.
pub(crate) async fn open(file: &str) -> Result<Input, Failure> {
    let total = Total::unknown();
    let (found, reader) = (mpsc::channel(AHEAD), total.clone());
    let (sender, found) = found;
    if file == "-" {
        if io::stdin().is_terminal() {
            print::note("reading lines from the terminal; end them with Ctrl-D");
        }
        std::thread::spawn(move || read_to_end(io::stdin().lock(), &sender));
        return Ok(Input { found, total });
    }
    let path = file.to_owned();
    let opened = tokio::task::spawn_blocking(move || open_file(Path::new(&path)));
    let opened = opened.await.map_err(|error| Failure::internal(format!("opening {file} broke off: {error}")))?;
    let (source, again) = opened.map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
    std::thread::spawn(move || read_to_end(BufReader::with_capacity(1 << 16, source), &sender));
    if let Some(again) = again {
        std::thread::spawn(move || {
            // A file that cannot be counted is reported by its reader.
            if let Ok(lines) = count(BufReader::with_capacity(1 << 16, again)) {
                reader.set(lines);
            }
        });
    }
    Ok(Input { found, total })
}

/// The file, and a second time to be counted if it is a regular one.
fn open_file(path: &Path) -> io::Result<(File, Option<File>)> {
    let source = File::open(path)?;
    let kind = source.metadata()?;
    if kind.is_dir() {
        return Err(io::Error::other("it is a folder; name a file of JSON lines"));
    }
    let again = if kind.is_file() { Some(File::open(path)?) } else { None };
    Ok((source, again))
}

fn read_to_end(mut source: impl BufRead, to: &mpsc::Sender<Found>) {
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        let found = match next_line(&mut source, &mut bytes) {
            Ok(false) => return,
            Ok(true) => {
                number += 1;
                let line = if number == 1 { bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes) } else { &bytes };
                if line.trim_ascii().is_empty() {
                    continue;
                }
                BatchLine::read(number, line).map_or_else(Found::Bad, Found::Line)
            }
            Err(error) => Found::Broken(format!("cannot read on after line {number}: {error}")),
        };
        let is_last = matches!(found, Found::Broken(_));
        let is_wanted = to.blocking_send(found).is_ok();
        if is_last || !is_wanted {
            return;
        }
    }
}

/// How many lines are not blank.
fn count(mut source: impl BufRead) -> io::Result<u64> {
    let (mut lines, mut is_blank) = (0, true);
    loop {
        let bytes = source.fill_buf()?;
        for byte in bytes {
            match byte {
                b'\n' => is_blank = true,
                byte if is_blank && !byte.is_ascii_whitespace() => {
                    is_blank = false;
                    lines += 1;
                }
                _further => {}
            }
        }
        match bytes.len() {
            0 => return Ok(lines),
            length => source.consume(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::prompt::MAX_BYTES;

    fn all(text: &[u8]) -> Vec<Found> {
        let (sender, mut found) = mpsc::channel(64);
        read_to_end(text, &sender);
        drop(sender);
        std::iter::from_fn(|| found.blocking_recv()).collect()
    }

    fn line(prompt: &str) -> String {
        format!(r#"{{"session":"s","prompt":"{prompt}"}}"#)
    }

    #[test]
    fn blank_lines_are_counted_and_not_run() {
        let text = format!("\u{feff}{}\r\n\n  \t\n{}\nnonsense\n{}", line("a"), line("b"), line("c"));
        let numbers: Vec<_> = all(text.as_bytes())
            .into_iter()
            .map(|found| match found {
                Found::Line(line) => (line.number, line.prompt),
                Found::Bad(bad) => (bad.number, String::new()),
                Found::Broken(why) => panic!("{why}"),
            })
            .collect();
        let expected = [(1, "a"), (4, "b"), (5, ""), (6, "c")].map(|(number, prompt)| (number, prompt.to_owned()));
        assert_eq!(numbers, expected);
        assert_eq!(count(text.as_bytes()).unwrap(), 4);
    }

    #[test]
    fn a_line_without_end_costs_no_memory_and_the_next_one_is_read() {
        for excess in [1, 2, 3, 1 << 20] {
            let text = format!("{}\n{}\n", "x".repeat(MAX_BYTES + excess), line("a"));
            let found = all(text.as_bytes());
            assert!(matches!(&found[0], Found::Bad(bad) if bad.number == 1 && bad.message.contains("larger")));
            assert!(matches!(&found[1], Found::Line(line) if line.number == 2), "{excess}: {found:?}");
            assert_eq!(found.len(), 2);
        }
    }
}
