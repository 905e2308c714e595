//! Input typed while an answer is streamed: key bytes in, lines out.

use vte::{Params, Parser, Perform};

/// Maximum length of a line, bytes.
const MOST_BYTES: usize = 16 * 1024;

/// A line being typed, with the keys of the line editor that move in it and delete from it.
#[derive(Default)]
pub(super) struct Draft {
    parser: Parser,
    line: Line,
}

#[derive(Default)]
struct Line {
    text: String,
    /// Where the next character goes, a byte of the text.
    cursor: usize,
    /// The lines that were ended.
    ended: Vec<String>,
    /// Whether the next character ends the sequence of a function key such as F1.
    is_key: bool,
}

impl Draft {
    /// Adds typed bytes; returns the completed lines without blank ones.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        // Terminals send DEL or BS for backspace; the parser knows only BS.
        let bytes: Vec<u8> = bytes.iter().map(|byte| if *byte == 0x7f { 0x08 } else { *byte }).collect();
        self.parser.advance(&mut self.line, &bytes);
        std::mem::take(&mut self.line.ended)
    }

    /// The first complete line, blank or not, as the answer to a question.
    pub(super) fn take_any(&mut self, bytes: &[u8]) -> Option<String> {
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let mut ended = self.take(&bytes[..end.unwrap_or(bytes.len())]);
        ended.pop().or_else(|| end.map(|_| self.take_text()))
    }

    /// The text of the incomplete line.
    pub(super) fn text(&self) -> &str {
        &self.line.text
    }

    /// Where the next character goes, a byte of the text.
    pub(super) fn cursor(&self) -> usize {
        self.line.cursor
    }

    /// Takes the text of the line, which is empty then.
    pub(super) fn take_text(&mut self) -> String {
        self.line.take()
    }
}

impl Line {
    fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    /// The beginning of the character before the cursor.
    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    /// The end of the character behind the cursor.
    fn behind(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |next| self.cursor + next.len_utf8())
    }

    /// Deletes from here to the cursor.
    fn delete_from(&mut self, from: usize) {
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }
}

impl Perform for Line {
    fn print(&mut self, character: char) {
        let is_letter = !std::mem::take(&mut self.is_key);
        if is_letter && self.text.len() < MOST_BYTES && bob_config::sanitise::is_shown(character) {
            self.text.insert(self.cursor, character);
            self.cursor += character.len_utf8();
        }
    }

    fn csi_dispatch(&mut self, parameters: &Params, _intermediates: &[u8], _is_ignored: bool, key: char) {
        let first = parameters.iter().next().and_then(|parameter| parameter.first().copied());
        match (key, first) {
            ('D', _) => self.cursor = self.before(),
            ('C', _) => self.cursor = self.behind(),
            ('H', _) | ('~', Some(1 | 7)) => self.cursor = 0,
            ('F', _) | ('~', Some(4 | 8)) => self.cursor = self.text.len(),
            ('~', Some(3)) => {
                let end = self.behind();
                self.text.replace_range(self.cursor..end, "");
            }
            _other_keys => {}
        }
    }

    fn esc_dispatch(&mut self, _intermediates: &[u8], _is_ignored: bool, byte: u8) {
        self.is_key = byte == b'O';
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' => {
                let line = self.take();
                if !line.trim().is_empty() {
                    self.ended.push(line);
                }
            }
            0x08 => self.delete_from(self.before()),
            // Ctrl-A and Ctrl-E, Ctrl-B and Ctrl-F.
            0x01 => self.cursor = 0,
            0x05 => self.cursor = self.text.len(),
            0x02 => self.cursor = self.before(),
            0x06 => self.cursor = self.behind(),
            b'\t' => self.print(' '),
            // Ctrl-U and Ctrl-W.
            0x15 => self.delete_from(0),
            0x17 => {
                let word = self.text[..self.cursor].trim_end();
                let from = word.rfind(' ').map_or(0, |at| at + 1);
                self.delete_from(from);
            }
            _other_keys => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_lines() {
        let mut draft = Draft::default();
        assert_eq!(draft.take("make it shört".as_bytes()), Vec::<String>::new());
        assert_eq!(draft.text(), "make it shört");
        assert_eq!(draft.take(b"\x7f\x7fer\n\nnext"), ["make it shöer"]);
        assert_eq!(draft.take(b" word\x17\x17"), Vec::<String>::new());
        assert_eq!(draft.text(), "");
        draft.take(b"one two\x17");
        assert_eq!(draft.text(), "one ");
        draft.take(b"\x15\x1b[A\x1b[3~\x1bOPx");
        assert_eq!(draft.take_text(), "x");
    }

    #[test]
    fn the_line_is_changed_where_the_cursor_is() {
        let mut draft = Draft::default();
        draft.take("größer".as_bytes());
        draft.take(b"\x1b[D\x1b[D\x1b[D");
        assert_eq!((draft.text(), draft.cursor()), ("größer", "grö".len()));
        draft.take(b"\x7f\x7fe\x1b[3~");
        assert_eq!(draft.text(), "geer");
        draft.take(b"\x01\x1b[C-\x05!\x1b[H>\x1b[F<\x1b[C");
        assert_eq!(draft.text(), ">g-eer!<");
        draft.take(b"\x1b[D\x15");
        assert_eq!(draft.take(b"x\r"), ["x<"]);
        assert_eq!((draft.text(), draft.cursor()), ("", 0));
    }

    #[test]
    fn a_letter_cut_in_two_is_one_letter() {
        let mut draft = Draft::default();
        let bytes = "漢".as_bytes();
        draft.take(&bytes[..1]);
        draft.take(&bytes[1..]);
        assert_eq!(draft.text(), "漢");
    }
}
