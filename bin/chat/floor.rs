//! Who has the terminal during a turn: the answer and whoever types into it, or a question.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::stdin;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::draft::Draft;
use super::keys::Keys;
use crate::screen::{Live, Screen};

/// What a person types while turns run.
pub(super) struct Typing {
    keys: RefCell<Option<Keys>>,
    draft: RefCell<Draft>,
    typed: UnboundedSender<Vec<u8>>,
}

/// Where the keys arrive.
pub(super) type Typed = UnboundedReceiver<Vec<u8>>;

impl Typing {
    /// Nobody listens yet.
    pub(super) fn new() -> (Self, Typed) {
        let (typed, keys) = unbounded_channel();
        (Self { keys: RefCell::default(), draft: RefCell::default(), typed }, keys)
    }

    /// Nobody listens to the keyboard any more. What was typed is added to the lines that wait; what stands on the line
    /// that was not ended is returned, to go on with.
    pub(super) fn end(&self, keys: &mut Typed, waiting: &mut VecDeque<String>) -> String {
        drop(self.keys.take());
        let mut draft = self.draft.borrow_mut();
        while let Ok(bytes) = keys.try_recv() {
            waiting.extend(draft.take(&bytes));
        }
        draft.take_text()
    }
}

/// The terminal during one turn.
pub(super) struct Floor<'a> {
    screen: &'a RefCell<Screen>,
    typing: &'a Typing,
    /// The lines below, where keys are shown; nobody listens where there are none.
    live: Option<&'a Live>,
}

impl<'a> Floor<'a> {
    /// The answer has it, and a person may type.
    pub(super) fn new(screen: &'a RefCell<Screen>, typing: &'a Typing, live: Option<&'a Live>) -> Self {
        let floor = Self { screen, typing, live };
        floor.listen();
        floor
    }

    /// The next lines that a person ends while the answer grows. Cancel-safe.
    pub(super) async fn next_lines(&self, keys: &mut Typed) -> Vec<String> {
        loop {
            let Some(bytes) = keys.recv().await else { return std::future::pending().await };
            let mut draft = self.typing.draft.borrow_mut();
            let lines = draft.take(&bytes);
            self.live.iter().for_each(|live| live.change(|below| draft.text().clone_into(&mut below.typed)));
            if !lines.is_empty() {
                return lines;
            }
        }
    }

    /// A question takes it until what is returned is dropped. What was typed and not read before is thrown away: it was
    /// not meant for a question nobody had seen.
    pub(super) fn take(&self) -> Taken<'_> {
        drop(self.typing.keys.take());
        let _as_it_is = tcflush(stdin(), QueueSelector::IFlush);
        self.screen.borrow_mut().hold();
        Taken(self)
    }

    fn listen(&self) {
        if self.live.is_some() {
            self.typing.keys.replace(Keys::listen(self.typing.typed.clone()));
        }
    }
}

/// A question has the terminal.
pub(super) struct Taken<'a>(&'a Floor<'a>);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let _the_next_write_says_so = self.0.screen.borrow_mut().release();
        self.0.listen();
    }
}
