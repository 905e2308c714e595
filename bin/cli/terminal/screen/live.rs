//! The status lines below all other output while a turn runs: the unfinished part of the answer, the current activity
//! with time and tokens, and typed input.
//!
//! The process has one bar, drawn here; `print` hides it while other output is written. It exists only if stdout and
//! stderr are terminals that support it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use unicode_width::UnicodeWidthStr;

use super::look::{self, Look};
use crate::terminal::draw::Screen;
use crate::terminal::{print, progress, spending, stderr};

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// How many drawings a second there are at most.
const MOST_A_SECOND: u8 = 20;

/// How many lines of the unfinished part are shown.
const MOST_LINES: usize = 12;

/// How many bytes of the unfinished part are wrapped: a multiple of the visible part.
const MOST_BYTES: usize = 4_096;

/// How the end of a line is shown in typed input.
const LINE_END: &str = "↵";

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// When the turn began; `None` when there is nothing to be drawn.
    since: Option<Instant>,
    /// The current activity; empty while the model responds.
    pub(crate) doing: String,
    /// The last line of the running call's output.
    pub(crate) output: String,
    /// Tokens so far, and whether that is an estimate.
    pub(crate) tokens: (u64, bool),
    /// The piece of the answer that grows.
    pub(crate) tail: String,
    /// A question, shown instead of the activity.
    pub(crate) prompt: String,
    /// Typed input, and the byte of it at which the cursor is.
    pub(crate) typed: String,
    pub(crate) cursor: usize,
}

#[derive(Clone)]
pub(crate) struct Live {
    bar: ProgressBar,
    below: Arc<Mutex<LiveState>>,
}

impl Live {
    /// Lines below, of which nothing is drawn yet.
    pub(crate) fn new() -> Self {
        let below = Arc::new(Mutex::new(LiveState::default()));
        let drawn = Arc::clone(&below);
        let lines = move |_state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let below = drawn.lock().unwrap_or_else(PoisonError::into_inner);
            let _writing_to_a_string_cannot_fail = out.write_str(&below.lines(Look::now()));
        };
        let style = ProgressStyle::with_template("{lines}").unwrap_or_else(|_ours| ProgressStyle::default_spinner());
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(Screen::new(0)), MOST_A_SECOND);
        let bar = ProgressBar::with_draw_target(None, target).with_style(style.with_key("lines", lines));
        bar.finish_and_clear();
        print::above(&bar);
        Self { bar, below }
    }

    pub(crate) fn begin(&self) {
        progress::drawn(true);
        let (typed, cursor) = self.change(|below| (std::mem::take(&mut below.typed), below.cursor));
        self.change(|below| *below = LiveState { since: Some(Instant::now()), typed, cursor, ..LiveState::default() });
        self.go_on();
    }

    pub(crate) fn end(&self) {
        progress::drawn(false);
        self.change(|below| *below = LiveState::default());
        self.pause();
    }

    /// Takes the lines away, while something else needs the terminal. They are off it when this returns: the line editor
    /// writes past the queue that drawings go through, and its prompt would be taken away with them.
    pub(crate) fn pause(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
        stderr::settle();
    }

    /// Draws the lines again.
    pub(crate) fn go_on(&self) {
        if self.change(|below| below.since.is_some()) {
            self.bar.reset();
            self.bar.enable_steady_tick(EVERY);
        }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut LiveState) -> T) -> T {
        change(&mut self.below.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LiveState {
    fn lines(&self, look: Look) -> String {
        let elapsed = self.since.map(|since| since.elapsed()).unwrap_or_default();
        if !self.prompt.is_empty() {
            return typed(&self.prompt, &self.typed, self.cursor, look.columns);
        }
        let mut lines = self.grown(look);
        lines.push(self.status(look, elapsed));
        if !self.output.is_empty() {
            let style = look.dimmed();
            let line = look::cut(&self.output, look.columns.saturating_sub(3).max(8));
            lines.push(format!("{style}  {line}{style:#}"));
        }
        if !self.typed.is_empty() {
            lines.push(typed("» ", &self.typed, self.cursor, look.columns));
        }
        lines.join("\n")
    }

    fn grown(&self, look: Look) -> Vec<String> {
        let start = self.tail.len().saturating_sub(MOST_BYTES);
        let tail = self.tail[self.tail.ceil_char_boundary(start)..].trim_matches('\n').replace('\t', "    ");
        if tail.is_empty() {
            return Vec::new();
        }
        let options = textwrap::Options::new(look.columns).break_words(true);
        let lines: Vec<_> = tail.split('\n').flat_map(|line| textwrap::wrap(line, options.clone())).collect();
        let first = lines.len().saturating_sub(MOST_LINES);
        lines[first..].iter().map(|line| line.clone().into_owned()).collect()
    }

    fn status(&self, look: Look, elapsed: Duration) -> String {
        #[allow(clippy::cast_possible_truncation, reason = "a remainder of ten")]
        let frame = FRAMES[(elapsed.as_millis() / EVERY.as_millis() % 10) as usize];
        let starting = progress::state();
        if !starting.is_empty() {
            return look::cut(&format!("{frame} {starting}"), look.columns);
        }
        let doing = if self.doing.is_empty() { "waiting" } else { &self.doing };
        let tokens = match self.tokens {
            (0, _) => String::new(),
            (tokens, is_about) => {
                format!(", {}{} tokens", if is_about { "about " } else { "" }, spending::grouped(tokens))
            }
        };
        let figures = format!("{:.1} s{tokens}", elapsed.as_secs_f64());
        let room = look.columns.saturating_sub(figures.width() + 5).max(8);
        let style = look.dimmed();
        look::cut(&format!("{frame} {} ", look::cut(doing, room)), look.columns) + &format!("{style}{figures}{style:#}")
    }
}

/// Typed input with its cursor, on one line; if it is too long, what is before the cursor, and behind it as far as it fits.
fn typed(prompt: &str, text: &str, cursor: usize, columns: usize) -> String {
    // Lines that were pasted; the sign is longer than what it stands for.
    let cursor = cursor + text[..text.floor_char_boundary(cursor)].matches('\n').count() * (LINE_END.len() - 1);
    let text = text.replace('\n', LINE_END);
    let room = columns.saturating_sub(prompt.width() + 2);
    let (before, behind) = text.split_at(text.floor_char_boundary(cursor));
    let mut from = 0;
    while before[from..].width() > room {
        from = before.ceil_char_boundary(from + 1);
    }
    let mut end = behind.len();
    while before[from..].width() + behind[..end].width() > room {
        end = behind.floor_char_boundary(end.saturating_sub(1));
    }
    format!("{prompt}{}▏{}", &before[from..], &behind[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { columns: 40, colour: false };

    fn lines(below: &LiveState) -> Vec<String> {
        below.lines(PLAIN).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_done_and_what_it_took_stay_on_one_line() {
        let below = LiveState {
            doing: "local/read_file {\"path\":\"a/very/long/path\"}".to_owned(),
            tokens: (12_345, true),
            ..LiveState::default()
        };
        let shown = lines(&below);
        assert_eq!(shown, ["⠋ local/re… 0.0 s, about 12,345 tokens"]);
        assert!(shown[0].width() <= 40);
        assert_eq!(lines(&LiveState::default()), ["⠋ waiting 0.0 s"]);
    }

    #[test]
    fn of_what_grows_the_end_is_shown() {
        let below = LiveState { tail: (0..100).map(|n| format!("line {n}\n")).collect(), ..LiveState::default() };
        let shown = lines(&below);
        assert_eq!((shown.len(), shown[0].as_str(), shown[11].as_str()), (13, "line 88", "line 99"));
    }

    #[test]
    fn of_what_is_typed_the_end_is_shown() {
        let text = "x".repeat(100) + "漢字";
        let below = LiveState { cursor: text.len(), typed: text.clone(), ..LiveState::default() };
        let shown = lines(&below);
        assert!(shown[1].starts_with("» xx") && shown[1].ends_with("漢字▏") && shown[1].width() <= 40, "{shown:?}");
        let shown = lines(&LiveState { cursor: 2, typed: text, ..LiveState::default() });
        assert!(shown[1].starts_with("» xx▏xx") && shown[1].width() <= 40, "{shown:?}");
        let shown = lines(&LiveState { cursor: 4, typed: "a\nb\nc".to_owned(), ..LiveState::default() });
        assert_eq!(shown[1], "» a↵b↵▏c");
    }
}
