//! Keys that end a line in the line editor: Shift-Tab, Ctrl-O, Esc twice, Ctrl-V and Ctrl-Z. Something is done, and the line
//! begins again.

use std::io::stdout;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::{
    Cmd, ConditionalEventHandler, Event, EventContext, EventHandler, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use unicode_width::UnicodeWidthStr;

use super::Input;
use crate::terminal::{print, screen};

/// The keys, and what each makes of the line.
const KEYS: [(KeyEvent, Made); 5] = [
    (KeyEvent(KeyCode::BackTab, Modifiers::NONE), Made::Input(Input::NextMode)),
    (KeyEvent(KeyCode::Char('O'), Modifiers::CTRL), Made::Input(Input::Output)),
    (KeyEvent(KeyCode::Esc, Modifiers::NONE), Made::Input(Input::LastMessage)),
    (KeyEvent(KeyCode::Char('V'), Modifiers::CTRL), Made::Aside(Aside::Paste)),
    (KeyEvent(KeyCode::Char('Z'), Modifiers::CTRL), Made::Aside(Aside::Stop)),
];

/// What a key makes of the line.
#[derive(Clone, Copy)]
enum Made {
    /// The end of a message.
    Input(fn(String) -> Input),
    /// The line goes on behind it.
    Aside(Aside),
}

/// What is done while a line waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aside {
    /// The process is stopped. The editor's own key would have it stop at a later moment, when it has the terminal again.
    Stop,
    /// The image on the clipboard is kept, and its path is put where the cursor is.
    Paste,
}

/// A key that ended a line.
pub(super) enum Ended {
    By(Input),
    /// Something is to be done; what was before the cursor and behind it.
    For(Aside, String, String),
}

/// What of them was pressed.
#[derive(Clone, Default)]
pub(super) struct LineKeys(Arc<Mutex<Pressed>>);

#[derive(Default)]
enum Pressed {
    /// An answer is being typed.
    #[default]
    Ignored,
    /// A message is being typed.
    Heard,
    /// One was pressed, with this on the line.
    With(String, fn(String) -> Input),
    /// One was pressed after which the line goes on, with this before the cursor and behind it.
    Aside(Aside, String, String),
}

/// One key.
struct Key(LineKeys, Made);

impl LineKeys {
    /// Has the editor listen to them.
    pub(super) fn bind<H: rustyline::Helper, I: rustyline::history::History>(
        &self,
        editor: &mut rustyline::Editor<H, I>,
    ) {
        for (key, made) in KEYS {
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(Key(self.clone(), made))));
        }
        editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(BehindEsc)));
    }

    /// Before a line is read.
    pub(super) fn begin(&self, is_message: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            if is_message { Pressed::Heard } else { Pressed::Ignored };
    }

    /// What a key made of the line, if one ended it. The line is taken off the screen, so that it does not stand there twice.
    pub(super) fn pressed(&self, prompt: &str) -> Option<Ended> {
        let pressed = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (line, ended) = match pressed {
            Pressed::With(line, made) => (line.clone(), Ended::By(made(line))),
            Pressed::Aside(Aside::Stop, before, behind) => return Some(Ended::For(Aside::Stop, before, behind)),
            Pressed::Aside(aside, before, behind) => (format!("{before}{behind}"), Ended::For(aside, before, behind)),
            Pressed::Ignored | Pressed::Heard => return None,
        };
        let columns = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_col));
        if screen::is_drawn_on() && !line.contains('\n') && prompt.width() + line.width() < columns {
            // One row up, and everything below is cleared.
            let _the_next_write_says_so = print::cleaned("\u{1b}[1A\r\u{1b}[J");
        }
        Some(ended)
    }
}

/// A letter behind Esc, which the editor takes for one key with Alt: unless that key does something, the letter is typed.
struct BehindEsc;

/// The letters that do something with Alt, the first ones to a word of the line.
const WITH_ALT: [&str; 2] = ["bcdfltuy", "<>"];

impl ConditionalEventHandler for BehindEsc {
    fn handle(&self, event: &Event, count: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let KeyEvent(KeyCode::Char(letter), Modifiers::ALT) = event.get(0)? else { return None };
        let [of_words, of_history] = WITH_ALT.map(|letters| letters.contains(letter.to_ascii_lowercase()));
        let does_something = of_history || (of_words && !context.line().is_empty());
        (!does_something).then_some(Cmd::SelfInsert(count, *letter))
    }
}

impl ConditionalEventHandler for Key {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let mut pressed = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *pressed = match self.1 {
            Made::Input(_) | Made::Aside(Aside::Paste) if matches!(*pressed, Pressed::Ignored) => {
                return Some(Cmd::Noop);
            }
            Made::Input(made) => Pressed::With(context.line().to_owned(), made),
            Made::Aside(aside) => {
                let (before, behind) = context.line().split_at(context.pos());
                Pressed::Aside(aside, before.to_owned(), behind.to_owned())
            }
        };
        Some(Cmd::Interrupt)
    }
}
