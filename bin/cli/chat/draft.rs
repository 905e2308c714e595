//! Input typed while an answer is streamed: key bytes in, lines out.

use vte::{Parser, Perform};

/// Maximum length of a line, bytes.
const MOST_BYTES: usize = 16 * 1024;

/// A line being typed. The only editing is deletion at its end.
#[derive(Default)]
pub(super) struct Draft {
    parser: Parser,
    line: Line,
}

#[derive(Default)]
struct Line {
    text: String,
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

    /// Takes the text of the line, which is empty then.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.line.text)
    }
}

impl Perform for Line {
    fn print(&mut self, character: char) {
        let is_letter = !std::mem::take(&mut self.is_key);
        if is_letter && self.text.len() < MOST_BYTES && bob_config::sanitise::is_shown(character) {
            self.text.push(character);
        }
    }

    fn esc_dispatch(&mut self, _intermediates: &[u8], _is_ignored: bool, byte: u8) {
        self.is_key = byte == b'O';
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' => {
                let line = std::mem::take(&mut self.text);
                if !line.trim().is_empty() {
                    self.ended.push(line);
                }
            }
            0x08 => drop(self.text.pop()),
            b'\t' => self.print(' '),
            // Ctrl-U and Ctrl-W.
            0x15 => self.text.clear(),
            0x17 => {
                let word = self.text.trim_end();
                let kept = word.rfind(' ').map_or(0, |at| at + 1);
                self.text.truncate(kept);
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
    fn a_letter_cut_in_two_is_one_letter() {
        let mut draft = Draft::default();
        let bytes = "漢".as_bytes();
        draft.take(&bytes[..1]);
        draft.take(&bytes[1..]);
        assert_eq!(draft.text(), "漢");
    }
}
