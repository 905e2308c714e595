//! Calls a person who may have looked away: a bell, and a notification by terminals that have them (OSC 9).

use crate::terminal::print;

/// A turn of this length is worth a call, in milliseconds.
pub(crate) const LONG_MS: u64 = 10_000;

/// Notifies with a text of our own. Nothing is written where stderr is no terminal that can be drawn on.
pub(crate) fn person(why: &'static str) {
    if !print::stderr_is_screen() {
        return;
    }
    // The console of Linux shows what it does not know.
    let is_console = std::env::var_os("TERM").is_some_and(|term| term == "linux");
    let notification = if is_console { String::new() } else { format!("\x1b]9;cli-agent: {why}\x07") };
    print::report(&format!("{notification}\x07"));
}
