//! Owner of the terminal during a turn: the answer with the typed lines below it, or a question.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::draft::Draft;
use super::keys::Keys;
use super::mode;
use crate::terminal::screen::{Live, Screen};
use crate::terminal::{question, settings};

/// The pause in typing, and the time on the screen, before a question takes the keyboard.
pub(super) const PAUSE: Duration = question::PAUSE;

/// The byte of Esc, with which other keys begin.
const ESCAPE: u8 = 0x1b;

/// The byte of Ctrl-O.
const SHOW_OUTPUT: u8 = 0x0f;

/// The bytes of Shift-Tab.
const NEXT_MODE: &[u8] = b"\x1b[Z";

/// The commands that these keys stand for.
const INTERRUPT: &str = "/cancel";
const OUTPUT: &str = "/output";

/// How long after its first byte the rest of a key may arrive.
const REST_OF_A_KEY: Duration = Duration::from_millis(60);

/// Typed input while turns run.
pub(super) struct Typing {
    keys: RefCell<Option<Keys>>,
    draft: RefCell<Draft>,
    /// Time of the last key.
    last: Cell<Instant>,
    typed: UnboundedSender<Vec<u8>>,
}

/// Where the keys arrive.
pub(super) type Typed = UnboundedReceiver<Vec<u8>>;

impl Typing {
    /// No listener yet.
    pub(super) fn new() -> (Self, Typed) {
        let (typed, keys) = unbounded_channel();
        (Self { keys: RefCell::default(), draft: RefCell::default(), last: Cell::new(Instant::now()), typed }, keys)
    }

    /// Stops listening to the keyboard. Complete lines are added to the queue; the incomplete line is returned, so
    /// that it can be continued.
    pub(super) fn end(&self, keys: &mut Typed, waiting: &mut VecDeque<String>) -> String {
        drop(self.keys.take());
        let mut draft = self.draft.borrow_mut();
        while let Ok(bytes) = keys.try_recv() {
            waiting.extend(draft.take(&bytes));
        }
        draft.interrupt();
        draft.take_text()
    }
}

pub(super) struct TerminalOwner<'a> {
    screen: &'a RefCell<Screen>,
    typing: &'a Typing,
    /// The lines below the answer, which show the keys; without them the keyboard is not read.
    live: Option<&'a Live>,
    /// The keys belong to a question.
    question: RefCell<Option<UnboundedSender<Vec<u8>>>>,
    /// The line editor still reads a line that is no longer needed.
    is_editing: Cell<bool>,
}

impl<'a> TerminalOwner<'a> {
    /// The answer has it, and a person may type.
    pub(super) fn new(screen: &'a RefCell<Screen>, typing: &'a Typing, live: Option<&'a Live>) -> Self {
        let owner = Self { screen, typing, live, question: RefCell::default(), is_editing: Cell::default() };
        owner.listen();
        owner
    }

    /// The next lines that are entered while the answer is written; Esc is the command `/cancel`, Ctrl-O `/output` and
    /// Shift-Tab `/mode next`. Questions get their keys from here as well, so this must be polled all the time.
    pub(super) async fn next_lines(&self, keys: &mut Typed) -> Vec<String> {
        loop {
            let Some(mut bytes) = keys.recv().await else { return std::future::pending().await };
            self.typing.last.set(Instant::now());
            let mut is_escape = false;
            // Keys such as the arrows begin with the same byte, and their other bytes follow at once.
            if bytes.ends_with(&[ESCAPE]) {
                match timeout(REST_OF_A_KEY, keys.recv()).await {
                    Ok(more) => bytes.extend(more.unwrap_or_default()),
                    Err(_elapsed) => {
                        is_escape = true;
                        bytes.retain(|byte| *byte != ESCAPE);
                    }
                }
            }
            if let Some(question) = &*self.question.borrow() {
                if is_escape {
                    return vec![INTERRUPT.to_owned()];
                }
                let _nobody_asks_any_more = question.send(bytes);
                continue;
            }
            let modes = bytes.windows(NEXT_MODE.len()).filter(|bytes| *bytes == NEXT_MODE).count();
            let asks_for_output = bytes.contains(&SHOW_OUTPUT);
            let mut draft = self.typing.draft.borrow_mut();
            let mut lines = draft.take(&bytes);
            self.show_typed(&draft);
            lines.extend(asks_for_output.then(|| OUTPUT.to_owned()));
            lines.extend((0..modes).map(|_| format!("/mode {}", mode::NEXT)));
            lines.extend(is_escape.then(|| INTERRUPT.to_owned()));
            if !lines.is_empty() {
                return lines;
            }
        }
    }

    /// Whether [`ask`](Self::ask) can show a question below other output.
    pub(super) fn is_drawn_on(&self) -> bool {
        self.live.is_some() && !self.is_editing.get()
    }

    /// Waits until a question that was shown just now may take the keyboard. Until then typed lines are sent into the
    /// turn if the keyboard is read, and dropped otherwise.
    pub(super) async fn pause(&self) {
        if !self.is_drawn_on() {
            return sleep(PAUSE).await;
        }
        let shown = Instant::now();
        loop {
            let until = self.typing.last.get().max(shown) + PAUSE;
            sleep_until(until).await;
            // Keys that arrived at the end of the pause are handled first.
            tokio::task::yield_now().await;
            if self.typing.last.get() + PAUSE <= until {
                return;
            }
        }
    }

    /// Gives the keys to a question that was shown, until the returned guard is dropped. Earlier input is discarded:
    /// it was typed before the question could be seen.
    pub(super) fn ask(&self) -> Keyboard<'_> {
        if !self.is_drawn_on() {
            return Keyboard::OfEditor(self.edit());
        }
        let (keys, typed) = unbounded_channel();
        settings::throw_away();
        self.question.replace(Some(keys));
        Keyboard::Drawn(OpenQuestion { owner: self, typed, rest: Vec::new() })
    }

    /// Holds back the turn's output until the guard is dropped. What has arrived is shown whole.
    pub(super) fn quiet(&self) -> OutputPause<'_> {
        let _the_next_write_says_so = self.screen.borrow_mut().hold();
        OutputPause(self)
    }

    /// Gives the terminal to the line editor until the returned guard is dropped. Unread input is discarded: it was
    /// typed before the question could be seen.
    pub(super) fn edit(&self) -> Editing<'_> {
        drop(self.typing.keys.take());
        settings::throw_away();
        self.typing.draft.borrow_mut().interrupt();
        self.live.iter().for_each(|live| live.pause());
        Editing(self)
    }

    fn listen(&self) {
        if self.live.is_some() && !self.is_editing.get() {
            self.typing.keys.replace(Keys::listen(self.typing.typed.clone()));
        }
    }

    fn show_typed(&self, draft: &Draft) {
        self.live.iter().for_each(|live| {
            live.change(|below| {
                draft.text().clone_into(&mut below.typed);
                below.cursor = draft.cursor();
            });
        });
    }
}

/// Holds back the turn's output while alive.
pub(super) struct OutputPause<'a>(&'a TerminalOwner<'a>);

impl Drop for OutputPause<'_> {
    fn drop(&mut self) {
        let _the_next_write_says_so = self.0.screen.borrow_mut().release();
    }
}

/// The line editor has the terminal.
pub(super) struct Editing<'a>(&'a TerminalOwner<'a>);

impl Editing<'_> {
    /// The question was withdrawn, and the line editor still reads: until the end of the turn nothing else may.
    pub(super) fn abandon(&self) {
        self.0.is_editing.set(true);
    }
}

impl Drop for Editing<'_> {
    fn drop(&mut self) {
        self.0.live.iter().for_each(|live| live.go_on());
        self.0.listen();
    }
}

/// The keys of a question, from its first prompt to its last: what is typed while a complaint is printed answers the
/// next prompt.
pub(super) enum Keyboard<'a> {
    /// Lines are typed below all other output.
    Drawn(OpenQuestion<'a>),
    /// The line editor reads them, since nothing can be drawn.
    OfEditor(Editing<'a>),
}

/// A question that is drawn, to which the keys belong.
pub(super) struct OpenQuestion<'a> {
    owner: &'a TerminalOwner<'a>,
    typed: Typed,
    /// What was typed behind the line that was taken last.
    rest: Vec<u8>,
}

impl Keyboard<'_> {
    /// Discards what was typed and not asked for yet.
    pub(super) fn forget(&mut self) {
        if let Self::Drawn(open) = self {
            open.rest.clear();
            while open.typed.try_recv().is_ok() {}
        }
    }
}

impl OpenQuestion<'_> {
    /// The next line. Dropping the future withdraws what was typed.
    pub(super) async fn line(&mut self, prompt: &str) -> String {
        let mut draft = Draft::default();
        let _until_it_is_entered = Prompt(self.owner);
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            if let Some((line, rest)) = draft.take_any(&bytes) {
                self.rest = rest.to_vec();
                return line;
            }
            self.owner.live.iter().for_each(|live| {
                live.change(|below| {
                    prompt.clone_into(&mut below.prompt);
                    draft.text().clone_into(&mut below.typed);
                    below.cursor = draft.cursor();
                });
            });
            let Some(next) = self.typed.recv().await else { return std::future::pending().await };
            bytes = next;
        }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.owner.question.replace(None);
    }
}

/// The prompt of a question, while it is shown.
struct Prompt<'a>(&'a TerminalOwner<'a>);

impl Drop for Prompt<'_> {
    fn drop(&mut self) {
        self.0.live.iter().for_each(|live| live.change(|below| below.prompt.clear()));
        self.0.show_typed(&self.0.typing.draft.borrow());
    }
}
