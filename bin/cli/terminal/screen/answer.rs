//! Splits a growing answer into finished and unfinished parts.
//!
//! With Markdown a block is finished when the next one has begun or cannot belong to it; otherwise a line is finished
//! when it ends. The text is sanitised already.

use super::look::Look;

#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The unfinished part.
    grows: String,
    /// The length at which it is parsed again, so that a long block is not parsed for each word.
    #[cfg_attr(not(feature = "markdown"), allow(dead_code, reason = "lines need no second look"))]
    look_at: usize,
    has_begun: bool,
}

impl Answer {
    /// Adds text; returns the newly finished part as lines of the terminal.
    pub(super) fn push(&mut self, words: &str, look: Look) -> String {
        self.grows.push_str(words);
        if !words.contains('\n') {
            return String::new();
        }
        let finished = self.take_finished();
        self.shown(&finished, look)
    }

    pub(super) fn unfinished(&self) -> &str {
        &self.grows
    }

    /// The end of the answer: everything is finished now.
    pub(super) fn finish(&mut self, look: Look) -> String {
        let rest = std::mem::take(&mut self.grows);
        self.look_at = 0;
        let shown = self.shown(&rest, look);
        self.has_begun = false;
        shown
    }

    #[cfg(feature = "markdown")]
    fn take_finished(&mut self) -> String {
        if self.grows.len() < self.look_at {
            return String::new();
        }
        let end = super::markdown::last_block(&self.grows);
        let rest = self.grows.split_off(end);
        self.look_at = rest.len() + rest.len() / 32;
        std::mem::replace(&mut self.grows, rest)
    }

    #[cfg(not(feature = "markdown"))]
    fn take_finished(&mut self) -> String {
        let end = self.grows.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.grows.split_off(end);
        std::mem::replace(&mut self.grows, rest)
    }

    #[cfg(feature = "markdown")]
    fn shown(&mut self, text: &str, look: Look) -> String {
        let lines = super::markdown::print(text, look);
        if lines.is_empty() {
            return lines;
        }
        // Pieces are separated by an empty line, as in the source.
        match std::mem::replace(&mut self.has_begun, true) {
            true => format!("\n{lines}"),
            false => lines,
        }
    }

    #[cfg(not(feature = "markdown"))]
    fn shown(&mut self, text: &str, look: Look) -> String {
        let options = textwrap::Options::new(look.columns).break_words(true);
        text.lines().flat_map(|line| textwrap::wrap(line, options.clone())).map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(all(test, feature = "markdown"))]
mod tests {
    use super::*;

    const PLAIN: Look = Look { columns: 40, colour: false };

    /// The finished lines after each piece, and at the end.
    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut answer = Answer::default();
        let mut shown: Vec<String> = pieces.iter().map(|piece| answer.push(piece, PLAIN)).collect();
        shown.push(answer.finish(PLAIN));
        shown
    }

    #[test]
    fn a_piece_is_shown_when_it_is_finished() {
        assert_eq!(
            shown(&["One", " word\n", "\nTwo", "\n\n- a\n", "- b\n", "\nThree"]),
            ["", "", "One word\n", "\nTwo\n", "", "", "\n• a\n• b\n\nThree\n"].map(str::to_owned)
        );
    }

    #[test]
    fn how_it_was_cut_does_not_matter() {
        let text = "# A\n\nSome *words* and `code`.\n\n```\nlet x = 1;\n\nlet y = 2;\n```\n\n1. one\n2. two\n\n   more\n\n> said\n> again\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend";
        let whole = shown(&[text]).concat();
        for size in [1, 2, 3, 7, 20] {
            let pieces: Vec<String> =
                text.chars().collect::<Vec<_>>().chunks(size).map(|piece| piece.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(shown(&pieces).concat(), whole, "{size}");
        }
    }

    #[test]
    fn a_long_piece_is_not_read_once_for_each_of_its_lines() {
        let mut answer = Answer::default();
        answer.push("```\n", PLAIN);
        let began = std::time::Instant::now();
        for _line in 0..20_000 {
            assert_eq!(answer.push("a line of code that goes on and on and on\n", PLAIN), "");
        }
        assert!(answer.finish(PLAIN).lines().count() == 20_000);
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
