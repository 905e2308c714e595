//! The one sanitiser for all output to terminals and pipes.
//!
//! Text of models, tools and servers is untrusted: it may contain sequences that move the cursor, set the title,
//! write the clipboard or reorder text. All output passes through here, also on a pipe, since pipes often end in a
//! terminal. This module only filters; it never prints or styles.
//!
//! Kept: printable characters, newline, tab, and the two joiners that scripts and emoji need. Removed: whole escape
//! sequences, control characters of both ranges (carriage return and backspace overwrite text), and invisible
//! characters: direction overrides, tags, other format characters, private use, line and paragraph separators,
//! unassigned code points.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Filters a stream of text chunk by chunk; sequences split over chunks are recognised.
///
/// The result does not depend on the chunking. A newline ends any open sequence, so an unterminated string sequence
/// swallows the rest of its line and not the rest of the answer.
#[derive(Default)]
pub struct Sanitiser {
    parser: vte::Parser,
    /// Whether an escape character was seen on this line. Until then the parser is at rest and can be bypassed.
    escaped: bool,
}

impl Sanitiser {
    /// A sanitiser at the beginning of a line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk of a stream and returns its safe part, which may be empty.
    pub fn push(&mut self, chunk: &str) -> String {
        let mut shown = Shown(String::with_capacity(chunk.len()));
        for line in chunk.split_inclusive('\n') {
            let body = line.strip_suffix('\n');
            self.push_part(body.unwrap_or(line), &mut shown);
            if body.is_some() {
                // The newline never reaches the parser: inside a string sequence it would be swallowed with the rest.
                shown.0.push('\n');
                *self = Self::default();
            }
        }
        shown.0
    }

    fn push_part(&mut self, part: &str, shown: &mut Shown) {
        let plain = if self.escaped { 0 } else { part.find('\u{1b}').unwrap_or(part.len()) };
        let (plain, rest) = part.split_at(plain);
        shown.0.extend(plain.chars().filter(|&character| is_shown(character)));
        if !rest.is_empty() {
            self.escaped = true;
            self.parser.advance(shown, rest.as_bytes());
        }
    }
}

/// Sanitises a complete text. Borrows if nothing is removed.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown) { Cow::Borrowed(text) } else { Cow::Owned(Sanitiser::new().push(text)) }
}

/// Whether a character may reach a terminal as it is.
pub fn is_shown(character: char) -> bool {
    use GeneralCategory as Category;
    match character {
        '\n' | '\t' | '\u{200c}' | '\u{200d}' | ' '..='~' => true,
        _ => !matches!(
            get_general_category(character),
            Category::Control
                | Category::Format
                | Category::Surrogate
                | Category::PrivateUse
                | Category::LineSeparator
                | Category::ParagraphSeparator
                | Category::Unassigned
        ),
    }
}

/// A text of others within a line of ours, so that it cannot begin a line of its own, by a newline, by blanks that wrap it,
/// or by its length. What is cut off is told by its length and a hash: equal results are of equal texts.
pub fn one_line(text: &str) -> String {
    let (mut line, mut blanks, mut length) = (String::with_capacity(text.len()), 0, 0);
    for character in text.chars() {
        blanks = if character == ' ' { blanks + 1 } else { 0 };
        length += 1;
        if length > MOST_CHARACTERS {
            continue;
        }
        match character {
            '\n' | '\t' => line.extend(character.escape_unicode()),
            ' ' if blanks > MOST_BLANKS => line.extend(character.escape_unicode()),
            _ if is_shown(character) => line.push(character),
            _ => line.extend(character.escape_unicode()),
        }
    }
    if length > MOST_CHARACTERS {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let more = length - MOST_CHARACTERS;
        line.push_str(&format!("… and {more} more characters that are not shown ({})", &hash.as_str()[..16]));
    }
    line
}

/// The most characters of a text within a line, and the most blanks in a row: labels are followed by up to this many.
const MOST_CHARACTERS: usize = 4_000;
const MOST_BLANKS: usize = 12;

/// Collects the printable output of the escape sequence parser; the default methods drop all sequences.
struct Shown(String);

impl vte::Perform for Shown {
    fn print(&mut self, character: char) {
        if is_shown(character) {
            self.0.push(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        if byte == b'\t' {
            self.0.push('\t');
        }
    }
}

#[cfg(test)]
#[path = "sanitise_tests.rs"]
mod tests;
