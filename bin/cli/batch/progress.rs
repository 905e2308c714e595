//! Progress on stderr: a bar on a terminal, a line now and then anywhere else.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::rate::Rate;
use crate::terminal::draw::{self, Screen};
use crate::terminal::print;

/// How often the bar is drawn.
const DRAWN: Duration = Duration::from_millis(250);

/// How often a line is printed. A batch that ends sooner prints none.
const PRINTED: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    shown: Shown,
    rate: Rate,
    since: Instant,
    total: Option<u64>,
}

enum Shown {
    Nothing,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let shown = match (is_quiet, print::stderr_is_screen()) {
            (true, _) => Shown::Nothing,
            (false, false) => Shown::Lines,
            (false, true) => {
                let target = ProgressDrawTarget::term_like_with_hz(Box::new(Screen::new(draw::FREE)), 10);
                let bar = ProgressBar::with_draw_target(None, target).with_style(style("{spinner} {wide_msg}"));
                print::above(&bar);
                Shown::Bar(bar)
            }
        };
        Self { shown, rate: Rate::default(), since: Instant::now(), total: None }
    }

    /// How often [`show`](Self::show) wants to be called.
    pub(crate) fn every(&self) -> Duration {
        match self.shown {
            Shown::Bar(_) => DRAWN,
            Shown::Lines | Shown::Nothing => PRINTED,
        }
    }

    /// Since when the batch runs.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn show(&mut self, done: u64, total: Option<u64>, running: usize) {
        if matches!(self.shown, Shown::Nothing) {
            return;
        }
        let text = self.rate.say(self.since.elapsed(), done, total, running);
        match &self.shown {
            Shown::Nothing => {}
            Shown::Lines => print::note(&text),
            Shown::Bar(bar) => {
                if let (None, Some(total)) = (self.total, total) {
                    bar.set_style(style("[{bar:16}] {wide_msg}"));
                    bar.set_length(total);
                    self.total = Some(total);
                }
                bar.set_position(done);
                bar.set_message(text);
                bar.tick();
            }
        }
    }

    pub(crate) fn end(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// A form of the bar; the templates above are all there are.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_never| ProgressStyle::default_bar()).progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_understood() {
        for template in ["{spinner} {wide_msg}", "[{bar:16}] {wide_msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
