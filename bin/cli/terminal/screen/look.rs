//! Width and colours of the terminal, and lines beside the answer.

use std::io::stdout;

use anstyle::{AnsiColor, Color, Style};
use bob::tools::CallStatus;
use bob_config::sanitise;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::terminal::print;

/// Fewer columns are treated as this many: nothing sensible fits into less.
const LEAST_COLUMNS: usize = 16;

const USUAL_COLUMNS: usize = 80;

/// More columns are not used by running text, which is hard to read in longer lines.
const MOST_COLUMNS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// How many columns running text may have.
    pub(crate) columns: usize,
    pub(crate) colour: bool,
}

impl Look {
    pub(crate) fn now() -> Self {
        let size = rustix::termios::tcgetwinsize(stdout()).ok();
        let columns = size.map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
        Self { columns: columns.clamp(LEAST_COLUMNS, MOST_COLUMNS), colour: print::stderr_takes_colour() }
    }

    /// The style, if colours are wanted; plain otherwise.
    pub(crate) fn coloured(self, colour: AnsiColor) -> Style {
        if self.colour { Style::new().fg_color(Some(Color::Ansi(colour))) } else { Style::new() }
    }

    pub(crate) fn dimmed(self) -> Style {
        if self.colour { Style::new().dimmed() } else { Style::new() }
    }

    /// A line beside an answer: sanitised, wrapped and terminated.
    pub(crate) fn note(self, line: &str) -> String {
        let line = sanitise::clean(line);
        let style = match () {
            () if line.starts_with("error:") => self.coloured(AnsiColor::Red),
            () if line.starts_with("[denied") || line.starts_with("[stopped") => self.coloured(AnsiColor::Yellow),
            () if line.starts_with('[') => self.dimmed(),
            () => Style::new(),
        };
        let lines = textwrap::wrap(&line, textwrap::Options::new(self.columns).break_words(true));
        lines.iter().map(|line| format!("{style}{line}{style:#}\n")).collect()
    }

    /// A finished call, on one line if it fits and on two otherwise, truncated to the terminal. Why one was denied is never
    /// truncated.
    pub(crate) fn call(self, call: Option<&str>, status: CallStatus, result: &str) -> String {
        let style = match status {
            CallStatus::Ok => self.dimmed(),
            CallStatus::Error => self.coloured(AnsiColor::Red),
            CallStatus::Denied | CallStatus::Unknown | CallStatus::Cancelled => self.coloured(AnsiColor::Yellow),
        };
        let result = sanitise::clean(result);
        let below = |result: &str| match status {
            CallStatus::Denied => {
                let options = textwrap::Options::new(self.columns).break_words(true);
                let lines = textwrap::wrap(result, options.initial_indent("  ").subsequent_indent("  "));
                lines.iter().map(|line| format!("{style}{line}{style:#}\n")).collect()
            }
            CallStatus::Ok | CallStatus::Error | CallStatus::Unknown | CallStatus::Cancelled => {
                format!("  {style}{}{style:#}\n", cut(result, self.columns - 2))
            }
        };
        let Some(call) = call else {
            return below(&result);
        };
        let call = format!("> {}", sanitise::clean(call));
        if call.width() + 2 + result.width() <= self.columns {
            return format!("{call}  {style}{result}{style:#}\n");
        }
        format!("{}\n{}", cut(&call, self.columns), below(&result))
    }
}

pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let kept = text.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used < columns
    });
    let mut kept: String = kept.collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { columns: 40, colour: false };

    #[test]
    fn a_call_is_one_line_where_it_fits_and_two_where_it_does_not() {
        assert_eq!(PLAIN.call(Some("local/a {}"), CallStatus::Ok, "ok, 3 ms: x"), "> local/a {}  ok, 3 ms: x\n");
        let long = "local/read_file {\"path\":\"notes.txt\"}";
        let two = PLAIN.call(Some(long), CallStatus::Ok, "ok, 3 ms: a line of text that is rather long");
        assert_eq!(two, "> local/read_file {\"path\":\"notes.txt\"}\n  ok, 3 ms: a line of text that is rath…\n");
        assert!(two.lines().all(|line| line.width() <= 40), "{two}");
    }

    #[test]
    fn why_a_call_was_denied_is_shown_whole() {
        let why = "denied: the tool changes something, and this session is in the mode \"plan\"";
        let shown = PLAIN.call(Some("local/edit_file {}"), CallStatus::Denied, why);
        let said: Vec<&str> = shown.lines().skip(1).map(str::trim).collect();
        assert_eq!(said.join(" "), why);
        assert!(shown.lines().all(|line| line.width() <= 40), "{shown}");
    }

    #[test]
    fn states_have_colours_where_colours_are_wanted() {
        let shown = |status| Look { columns: 40, colour: true }.call(Some("x"), status, "why");
        assert!(shown(CallStatus::Error).contains("\u{1b}[31m"));
        assert!(shown(CallStatus::Denied).contains("\u{1b}[33m"));
        assert!(!PLAIN.call(Some("x"), CallStatus::Denied, "why").contains('\u{1b}'));
    }

    #[test]
    fn columns_are_counted_and_not_characters() {
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(cut("e\u{301}e\u{301}e", 3), "e\u{301}e\u{301}e");
    }

    #[test]
    fn foreign_words_steer_nothing() {
        let shown = PLAIN.call(Some("a\u{1b}[2J"), CallStatus::Ok, "b\u{9b}31m\u{202e}");
        assert_eq!(shown, "> a  b31m\n");
    }
}
