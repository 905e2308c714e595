//! What a person types, and changes of the terminal's size.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{self, Receiver};

/// How often the key thread checks whether it should end.
const KEYS_EVERY: Duration = Duration::from_millis(100);

/// Reads keys and resize events on a separate thread, since reading blocks.
pub(super) fn keys() -> Receiver<Event> {
    let (say, typed) = mpsc::channel(32);
    std::thread::spawn(move || {
        while !say.is_closed() {
            let is_there = match event::poll(KEYS_EVERY) {
                Ok(false) => true,
                Ok(true) => event::read().is_ok_and(|event| {
                    if matches!(event, Event::Resize(..)) {
                        tell_of_keys_again();
                    }
                    say.blocking_send(event).is_ok()
                }),
                Err(_the_terminal_is_gone) => false,
            };
            if !is_there {
                return;
            }
        }
    });
    typed
}

/// Has the terminal tell anew that it has input. A change of the size makes crossterm forget what it was told at the same
/// moment, which it is told once, so a key that came with it would wait for the next one. Settings that are written as they
/// are wake every reader.
fn tell_of_keys_again() {
    let stdin = io::stdin();
    let settings = rustix::termios::tcgetattr(&stdin);
    let _the_terminal_is_gone = settings
        .and_then(|settings| rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Now, &settings));
}
