//! Input typed while an answer is streamed: key bytes in, lines out. The lines of a paste stay together.

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
    /// Whether the terminal passes on what was pasted.
    is_paste: bool,
    /// Whether the last pasted byte was a carriage return, of which a line feed is a part.
    is_return: bool,
}

impl Draft {
    /// Adds typed bytes; returns the completed lines without blank ones.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        // Terminals send DEL or BS for backspace; the parser knows only BS.
        let bytes: Vec<u8> = bytes.iter().map(|byte| if *byte == 0x7f { 0x08 } else { *byte }).collect();
        self.parser.advance(&mut self.line, &bytes);
        std::mem::take(&mut self.line.ended)
    }

    /// The first complete line, blank or not, as the answer to a question, and the bytes behind it.
    pub(super) fn take_any<'a>(&mut self, bytes: &'a [u8]) -> Option<(String, &'a [u8])> {
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(byte, b'\r' | b'\n') && !self.line.is_paste {
                return Some((self.take_text(), &bytes[at + 1..]));
            }
            self.take(&[*byte]);
        }
        None
    }

    pub(super) fn text(&self) -> &str {
        &self.line.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.line.cursor
    }

    pub(super) fn take_text(&mut self) -> String {
        self.line.take()
    }

    /// The keyboard goes to another reader: the rest of a key or of a paste that has begun does not come here.
    pub(super) fn interrupt(&mut self) {
        (self.parser, self.line.is_paste, self.line.is_return, self.line.is_key) = Default::default();
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

    fn behind(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |next| self.cursor + next.len_utf8())
    }

    /// The beginning of the word before the cursor.
    fn word_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        before.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |at| before.ceil_char_boundary(at + 1))
    }

    /// The end of the word behind the cursor.
    fn word_behind(&self) -> usize {
        let behind = &self.text[self.cursor..];
        let word = behind.find(char::is_alphanumeric).unwrap_or(behind.len());
        let length = behind[word..].find(|c: char| !c.is_alphanumeric()).unwrap_or(behind.len() - word);
        self.cursor + word + length
    }

    /// Deletes from here to the cursor.
    fn delete_from(&mut self, from: usize) {
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }
}

impl Perform for Line {
    fn print(&mut self, character: char) {
        self.is_return = false;
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
            ('~', Some(start_or_end @ (200 | 201))) => self.is_paste = start_or_end == 200,
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
        match byte {
            // Alt-B, Alt-F and Alt-D.
            b'b' => self.cursor = self.word_before(),
            b'f' => self.cursor = self.word_behind(),
            b'd' => {
                let end = self.word_behind();
                self.text.replace_range(self.cursor..end, "");
            }
            _other_keys => {}
        }
    }

    fn execute(&mut self, byte: u8) {
        let is_second = byte == b'\n' && self.is_return;
        self.is_return = self.is_paste && byte == b'\r';
        match byte {
            b'\r' | b'\n' if self.is_paste => {
                let line = if is_second || self.text.len() >= MOST_BYTES { "" } else { "\n" };
                self.text.insert_str(self.cursor, line);
                self.cursor += line.len();
            }
            b'\t' => self.print(' '),
            // No other key is meant by what was pasted.
            _pasted if self.is_paste => {}
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
    fn a_paste_of_several_lines_is_one_line_that_a_key_ends() {
        let mut draft = Draft::default();
        assert_eq!(draft.take(b"see: \x1b[200~one\r\ntwo\rthree\n\x03"), Vec::<String>::new());
        assert_eq!(draft.take(b"\x15four\x1b[20"), Vec::<String>::new());
        assert_eq!(draft.take(b"1~."), Vec::<String>::new());
        assert_eq!(draft.text(), "see: one\ntwo\nthree\nfour.");
        assert_eq!(draft.take(b"\rnext"), ["see: one\ntwo\nthree\nfour."]);
        assert_eq!(draft.text(), "next");
    }

    #[test]
    fn a_paste_that_another_reader_has_the_end_of_leaves_the_key_enter() {
        let mut draft = Draft::default();
        assert_eq!(draft.take(b"\x1b[200~one\rtwo"), Vec::<String>::new());
        draft.interrupt();
        assert_eq!(draft.take_text(), "one\ntwo");
        assert_eq!(draft.take(b"next\r"), ["next"]);
    }

    #[test]
    fn a_paste_answers_no_question_before_a_key_does() {
        let mut draft = Draft::default();
        assert_eq!(draft.take_any(b"\x1b[200~y\r\x1b[201~"), None);
        assert_eq!(draft.take_any(b"\r"), Some(("y\n".to_owned(), &b""[..])));
        assert_eq!(draft.take_any(b"\rno\r"), Some((String::new(), &b"no\r"[..])));
    }

    #[test]
    fn alt_moves_and_deletes_by_words() {
        let mut draft = Draft::default();
        draft.take("größer, als sie".as_bytes());
        draft.take(b"\x1bb\x1bb");
        assert_eq!(draft.cursor(), "größer, ".len());
        draft.take(b"\x1bb\x1bf");
        assert_eq!(draft.cursor(), "größer".len());
        draft.take(b"\x1bd");
        assert_eq!(draft.text(), "größer sie");
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
