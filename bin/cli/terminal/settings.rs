//! The terminal as it was found, for every way out of the program.

use std::io::stdin;
use std::sync::OnceLock;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

static FOUND: OnceLock<Termios> = OnceLock::new();

/// Remembers how the terminal is, before anything is changed about it. Only the first time counts.
pub(crate) fn remember() {
    if let Ok(found) = tcgetattr(stdin()) {
        let _the_first_time_counts = FOUND.set(found);
    }
}

/// Restores the terminal's settings, also while it is still being read. Does nothing if nothing was changed.
pub(crate) fn restore() {
    if let Some(found) = FOUND.get() {
        let _the_terminal_may_be_gone = tcsetattr(stdin(), OptionalActions::Now, found);
    }
}

/// Whether the terminal was closed, rather than only its input.
pub(crate) fn is_gone() -> bool {
    tcgetattr(stdin()).is_err()
}
