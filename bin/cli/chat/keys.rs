//! Reads the keyboard unbuffered and without echo while an answer is streamed. Ctrl-C stays a signal.
//!
//! A separate thread reads from the terminal and has ended when this is dropped, so that it never competes with the
//! line editor for input.

use std::io::stdin;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::UnboundedSender;

use crate::terminal::settings;

/// Bytes read at once.
const AT_ONCE: usize = 1_024;

pub(super) struct Keys {
    found: Termios,
    /// Closing it ends the thread.
    leash: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Starts to read the keyboard; `None` if the terminal does not allow it.
    pub(super) fn listen(typed: UnboundedSender<Vec<u8>>) -> Option<Self> {
        let found = tcgetattr(stdin()).ok()?;
        let mut quiet = found.clone();
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        let (leash, held) = UnixStream::pair().ok()?;
        tcsetattr(stdin(), OptionalActions::Now, &quiet).ok()?;
        settings::tell_pastes(true);
        let thread = std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || read(&held, &typed)).ok();
        Some(Self { found, leash: Some(leash), thread })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        drop(self.leash.take());
        if let Some(thread) = self.thread.take() {
            let _it_only_reads = thread.join();
        }
        settings::tell_pastes(false);
        let _the_terminal_may_be_gone = tcsetattr(stdin(), OptionalActions::Now, &self.found);
    }
}

fn read(held: &UnixStream, typed: &UnboundedSender<Vec<u8>>) {
    let keyboard = stdin();
    let mut bytes = [0; AT_ONCE];
    loop {
        let mut ready = [PollFd::new(&keyboard, PollFlags::IN), PollFd::new(held, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_nothing_to_listen_to) => return,
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        if !ready[0].revents().contains(PollFlags::IN) {
            // The terminal was closed.
            return;
        }
        match rustix::io::read(&keyboard, &mut bytes) {
            Ok(length @ 1..) if typed.send(bytes[..length].to_vec()).is_ok() => {}
            Ok(_) | Err(_) => return,
        }
    }
}
