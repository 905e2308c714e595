//! The terminal as it was found, for every way out of the program.

use std::io::{self, stdin};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr};

use crate::terminal::print;

static FOUND: OnceLock<Termios> = OnceLock::new();

/// Whether the terminal marks what is pasted.
static TELLS_PASTES: AtomicBool = AtomicBool::new(false);

/// Remembers how the terminal is, before anything is changed about it, and has it keep what was written when Ctrl-C is
/// pressed. Only the first time counts.
///
/// Otherwise the terminal drops what is on its way to the screen, in the middle of a drawing as well; the next one would
/// erase rows that the dropped one had not used (`NOFLSH` in termios(3)).
pub(crate) fn remember() {
    let Ok(found) = tcgetattr(stdin()) else { return };
    let mut keeps = found.clone();
    keeps.local_modes.insert(LocalModes::NOFLSH);
    if FOUND.set(found).is_ok() && is_in_front() {
        let _dropped_as_before = tcsetattr(stdin(), OptionalActions::Now, &keeps);
    }
}

/// Whether this program has the terminal. One in the background that changes it is stopped.
fn is_in_front() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp())
}

/// Discards what was typed and not read: it was typed before what it would answer was visible.
pub(crate) fn throw_away() {
    let _the_terminal_may_be_gone = tcflush(stdin(), QueueSelector::IFlush);
}

/// Discards what was typed and not read, as the terminal does when Ctrl-C is pressed in a program that leaves it as it was:
/// the shell behind this one must not take it for a command.
pub(crate) fn forget_typed() {
    if FOUND.get().is_some() && is_in_front() {
        let _the_terminal_may_be_gone = tcflush(stdin(), QueueSelector::IFlush);
    }
}

/// Restores the terminal's settings, also while it is still being read. Does nothing if nothing was changed, or if another
/// program has the terminal by now.
pub(crate) fn restore() {
    tell_pastes(false);
    if let Some(found) = FOUND.get().filter(|_| is_in_front()) {
        let _the_terminal_may_be_gone = tcsetattr(stdin(), OptionalActions::Now, found);
    }
}

/// How the terminal is while it is used.
pub(crate) struct Taken {
    modes: Termios,
    tells_pastes: bool,
}

/// Restores the terminal's settings for a while. `None` if nothing was changed.
pub(crate) fn give_back() -> Option<Taken> {
    let found = FOUND.get()?;
    let modes = tcgetattr(stdin()).ok()?;
    let tells_pastes = TELLS_PASTES.load(Ordering::Acquire);
    tell_pastes_by(false, print::past_the_bar);
    tcsetattr(stdin(), OptionalActions::Now, found).ok()?;
    Some(Taken { modes, tells_pastes })
}

/// Takes the terminal as it was before [`give_back`]. As that, only while the bar is off the screen.
pub(crate) fn take_again(taken: Option<Taken>) {
    let Some(Taken { modes, tells_pastes }) = taken else { return };
    let _the_terminal_may_be_gone = tcsetattr(stdin(), OptionalActions::Now, &modes);
    tell_pastes_by(tells_pastes, print::past_the_bar);
}

/// Has the terminal mark the beginning and the end of what is pasted, or not (bracketed paste).
pub(crate) fn tell_pastes(tells: bool) {
    tell_pastes_by(tells, print::cleaned);
}

fn tell_pastes_by(tells: bool, write: impl FnOnce(&str) -> io::Result<()>) {
    if TELLS_PASTES.swap(tells, Ordering::AcqRel) != tells {
        let _the_next_write_says_so = write(if tells { "\u{1b}[?2004h" } else { "\u{1b}[?2004l" });
    }
}

pub(crate) fn is_gone() -> bool {
    tcgetattr(stdin()).is_err()
}
