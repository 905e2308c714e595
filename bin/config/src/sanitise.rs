//! The one sanitiser in front of every terminal and every pipe.
//!
//! Text of models, tools and servers is foreign: it may carry sequences that move the cursor, set the title, write the
//! clipboard or reorder what a person reads. Whatever is printed goes through here first, on a pipe as well, since a
//! pipe often ends in a terminal. This module owns the rule of what may be shown; it never prints and never styles.
//!
//! What remains: printable characters, newline, tab, and the two joiners that scripts and emoji need. What goes: escape
//! sequences as a whole, control bytes of both ranges (a carriage return and a backspace overwrite text, so they go as
//! well), and characters without a shape of their own: direction overrides, tags, other format characters, private use,
//! line and paragraph separators, code points nobody has assigned.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Cleans a stream of text piece by piece; a sequence that is split over pieces is still recognised.
///
/// The result does not depend on how the text was cut. Each newline ends whatever sequence is open, so that one
/// unterminated string sequence swallows the rest of its line and not the rest of the answer.
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

    /// Takes the next piece of a stream and returns what may be shown of it, which can be nothing.
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

/// Cleans one whole text. Borrows when there is nothing to remove.
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

/// Collects what the escape sequence parser passes on; every kind of sequence is dropped by the default methods.
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
