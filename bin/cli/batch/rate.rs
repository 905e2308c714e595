//! Progress and rate of a batch, as text. Time is passed in.

use std::collections::VecDeque;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(30);

/// Samples of lines done, by time since the start.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    seen: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Adds a sample and returns the text: lines done, total, rate, time left.
    pub(crate) fn say(&mut self, now: Duration, done: u64, total: Option<u64>, running: usize) -> String {
        self.note(now, done);
        let rate = self.rate(now, done);
        let mut text = match total {
            Some(total) => format!("{done} of {total}"),
            None => format!("{done} lines"),
        };
        text.push_str(&format!(", {rate:.1}/s"));
        let left = total.map(|total| total.saturating_sub(done) as f64 / rate).filter(|left| left.is_finite());
        if let Some(left) = left {
            text.push_str(&format!(", {} left", clock(left)));
        }
        text.push_str(&format!(", {running} running"));
        text
    }

    fn note(&mut self, now: Duration, done: u64) {
        self.seen.push_back((now, done));
        // The oldest one kept is just outside of the window.
        while self.seen.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Lines per second in the window, or overall when nothing ended in the window.
    fn rate(&self, now: Duration, done: u64) -> f64 {
        let whole = done as f64 / now.as_secs_f64().max(0.001);
        let Some((at, before)) =
            self.seen.front().filter(|(at, before)| now > *at && *at > Duration::ZERO && done > *before)
        else {
            return whole;
        };
        match now.saturating_sub(*at) < WINDOW {
            true => whole,
            false => (done - before) as f64 / (now - *at).as_secs_f64(),
        }
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_left_follows_from_the_rate() {
        let mut rate = Rate::default();
        assert_eq!(rate.say(at(0), 0, Some(100), 4), "0 of 100, 0.0/s, 4 running");
        assert_eq!(rate.say(at(10), 20, Some(100), 4), "20 of 100, 2.0/s, 40 s left, 4 running");
        assert_eq!(rate.say(at(10), 20, None, 4), "20 lines, 2.0/s, 4 running");
        assert_eq!(rate.say(at(50), 100, Some(100), 0), "100 of 100, 2.0/s, 0 s left, 0 running");
    }

    #[test]
    fn the_rate_is_that_of_late() {
        let mut rate = Rate::default();
        (1..=100).for_each(|second| drop(rate.say(at(second), 10 * second, None, 1)));
        (101..=140).for_each(|second| drop(rate.say(at(second), 1_000 + 2 * (second - 100), None, 1)));
        assert_eq!(rate.say(at(141), 1_082, Some(1_282), 1), "1082 of 1282, 2.0/s, 1:40 min left, 1 running");
        assert!(rate.seen.len() < 40);
    }

    #[test]
    fn long_times_are_readable() {
        assert_eq!([0.2, 59.0, 60.0, 3_599.0, 7_260.0].map(clock), ["1 s", "59 s", "1:00 min", "59:59 min", "2:01 h"]);
    }
}
