//! The one way out: every byte this program writes to stdout or stderr passes here, and the sanitiser with it. Only
//! the progress bar of a batch, which contains no foreign text, is drawn separately.
//!
//! Results go to stdout and everything else to stderr, by way of a queue (`stderr.rs`) whose reader never holds up more than
//! a front end, and that for a moment only. Writing never panics: a reader of stdout that left is an error for the command
//! to end on, and a stderr that cannot be written is no fault.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use bob_config::sanitise;
use indicatif::ProgressBar;
use serde::Serialize;
use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthStr;

use crate::terminal::stderr;

/// Fewer columns are treated as this many.
const LEAST_COLUMNS: usize = 16;

/// A bar that is drawn on the terminal below everything else that is written.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Set by `--plain`.
static PLAIN: OnceLock<()> = OnceLock::new();

/// Registers a bar, which is hidden while other output is written. Only the first call has an effect.
pub(crate) fn above(bar: &ProgressBar) {
    let _the_first_one_counts = BAR.set(bar.clone());
}

fn aside<T>(shares_terminal: bool, write: impl FnOnce() -> T) -> T {
    match BAR.get().filter(|_bar| shares_terminal) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Does something while the bar is off the screen and all that was written to stderr is on it.
pub(crate) fn aside_from_all(act: impl FnOnce()) {
    aside(true, || {
        stderr::settle();
        act();
    });
}

/// Writes text to stdout, cleaned, and flushes it.
pub(crate) fn text(text: &str) -> io::Result<()> {
    cleaned(&sanitise::clean(text))
}

/// Writes text that a [`sanitise::Sanitiser`] has seen already: pieces of a stream must be cleaned as a stream.
pub(crate) fn cleaned(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let shares_terminal = BAR.get().is_some() && stdout.is_terminal();
    aside(shares_terminal, || {
        if shares_terminal {
            // The bar is off the screen before the text is on it.
            stderr::settle();
        }
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    })
}

/// Writes a few bytes of this program to stdout while the bar is off the screen already, within [`aside_from_all`]. The lock of
/// stdout is not taken: a thread that has it may be waiting for the bar.
pub(crate) fn past_the_bar(text: &str) -> io::Result<()> {
    Ok(rustix::io::write(io::stdout(), text.as_bytes()).map(drop)?)
}

/// Writes one line to stdout, cleaned.
pub(crate) fn line(line: &str) -> io::Result<()> {
    text(&format!("{line}\n"))
}

/// Writes one JSON value as one line to stdout.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    cleaned(&format!("{}\n", json_text(value)))
}

/// A value as one line of JSON with all unsafe characters escaped, so that a parser still gets the original value.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    let raw = serde_json::to_string(value).unwrap_or_else(|_only_for_maps_without_text_keys| "null".to_owned());
    if raw.chars().all(sanitise::is_shown) {
        return raw;
    }
    let mut escaped = String::with_capacity(raw.len());
    for character in raw.chars() {
        if sanitise::is_shown(character) {
            escaped.push(character);
            continue;
        }
        // Outside its strings JSON is plain ASCII, so an escape is valid wherever one is needed.
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _writing_to_a_string_cannot_fail = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Writes one line to stderr, cleaned and in one piece; on a terminal it is wrapped between words.
pub(crate) fn note(line: &str) {
    let line = sanitise::clean(line);
    match io::stderr().is_terminal() {
        true => report(&format!("{}\n", wrapped(&line))),
        false => report(&format!("{line}\n")),
    }
}

/// Text with its lines wrapped between words to the width of the terminal. A line of a list goes on below its last column.
pub(crate) fn wrapped(text: &str) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| wrapped_to(text, columns.max(LEAST_COLUMNS)))
}

/// All columns of the terminal, where one tells.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn wrapped_to(text: &str, columns: usize) -> String {
    let wrapped = |line: &str| {
        if line.width() <= columns {
            return line.to_owned();
        }
        // An option or an address is one word.
        let options = Options::new(columns).break_words(false).word_separator(WordSeparator::AsciiSpace);
        let hang = " ".repeat(hang(line, columns));
        textwrap::fill(line, options.word_splitter(WordSplitter::NoHyphenation).subsequent_indent(&hang))
    };
    text.split('\n').map(wrapped).collect::<Vec<_>>().join("\n")
}

/// Where the last column of a line of a list begins, in columns; 0 if that is too far to the right.
fn hang(line: &str, columns: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let gaps = line.match_indices("  ").map(|(at, _)| at + line[at..].len() - line[at..].trim_start_matches(' ').len());
    let begins = gaps.filter(|at| line[..*at].width() <= columns / 2).max().unwrap_or(indent);
    if line[..begins].width() <= columns / 2 { line[..begins].width() } else { 0 }
}

/// Writes sanitised, possibly coloured text to stderr, and waits a bounded time until it is written: for front ends.
pub(crate) fn report(report: &str) {
    pass(report.to_owned());
    stderr::settle();
}

/// Queues sanitised text for stderr without waiting: for actors.
pub(crate) fn pass(text: String) {
    aside(true, || stderr::tell(text));
}

/// Whether colours of our own may go to stderr.
pub(crate) fn stderr_takes_colour() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stderr_is_screen() && !is_refused
}

/// Whether stderr is a terminal on which a line can be drawn again.
pub(crate) fn stderr_is_screen() -> bool {
    io::stderr().is_terminal() && !is_plain()
}

/// From now on nothing is coloured or drawn, as on a terminal that can do neither.
pub(crate) fn be_plain() {
    let _once_is_enough = PLAIN.set(());
}

/// Whether `--plain` asks for lines only, or the terminal can show nothing else.
pub(crate) fn is_plain() -> bool {
    is_plain_wanted() || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

pub(crate) fn is_plain_wanted() -> bool {
    PLAIN.get().is_some()
}

/// Whether states are told as sentences: to a person, and where it was asked for.
pub(crate) fn speaks() -> bool {
    is_plain_wanted() || (is_plain() && io::stderr().is_terminal())
}

/// A count with a noun: `1 turn`, `2 turns`.
pub(crate) fn counted(number: impl TryInto<u64>, thing: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// The first line of a text that is not blank, cut to a number of characters.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < line.len() || lines.next().is_some() {
        shown.push('…');
    }
    shown
}

/// A text as one line, its blanks as single spaces, cut to a number of characters.
pub(crate) fn on_one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    // Further words cannot fit, and this many are enough to be truncated visibly.
    for word in text.split_whitespace().take(most) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(most + 1));
    }
    first_line(&line, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn json_carries_everything_and_steers_nothing() {
        let hostile = "a\u{1b}]52;c;x\u{7}b\u{9b}31m\u{202e}c\u{7f}\u{e0041}\u{2028}\n\t\"漢";
        let value = json!({ hostile: [hostile] });
        let text = json_text(&value);
        assert!(text.chars().all(|character| sanitise::is_shown(character) && character != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn lines_are_wrapped_between_words_and_below_their_column() {
        let text = "short\n[denied: --mode edits allows what changes files]\nmodel    demo:one, of the configuration\n";
        let expected = "short\n[denied: --mode edits allows\nwhat changes files]\nmodel    demo:one, of the\n         configuration\n";
        assert_eq!(wrapped_to(text, 30), expected);
        let path = "error: /a/long/path/that/has/no/blank/in/it is not there";
        assert_eq!(wrapped_to(path, 20), "error:\n/a/long/path/that/has/no/blank/in/it\nis not there");
    }

    #[test]
    fn many_lines_become_one_that_is_cut() {
        assert_eq!(on_one_line("\n a.txt\n\tb.txt \n", 66), "a.txt b.txt");
        assert_eq!(on_one_line("one\ntwo three", 7), "one two…");
        assert_eq!(on_one_line(&"åå ".repeat(1_000), 4), "åå å…");
        assert_eq!(on_one_line(" \n", 4), "");
    }

    #[test]
    fn a_first_line_says_that_more_follows() {
        assert_eq!(first_line("\n  one\ntwo", 10), "one…");
        assert_eq!(first_line("one\n\n", 10), "one");
        assert_eq!(first_line("åååå", 2), "åå…");
        assert_eq!(first_line("", 2), "");
    }
}
