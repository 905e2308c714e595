//! Keys of the line editor: Shift-Tab, Ctrl-O, Esc twice and Ctrl-Z end a line; something is done, and the line begins
//! again. Ctrl-V puts the image on the clipboard into it.

use std::io::stdout;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::{
    Cmd, ConditionalEventHandler, Event, EventContext, EventHandler, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use unicode_width::UnicodeWidthStr;

use super::Input;
use super::clipboard::Pasting;
use crate::terminal::{print, screen};

/// The keys, and what each makes of the line.
const KEYS: [(KeyEvent, Made); 4] = [
    (KeyEvent(KeyCode::BackTab, Modifiers::NONE), Made::Input(Input::NextMode)),
    (KeyEvent(KeyCode::Char('O'), Modifiers::CTRL), Made::Input(Input::Output)),
    (KeyEvent(KeyCode::Esc, Modifiers::NONE), Made::Input(Input::LastMessage)),
    (KeyEvent(KeyCode::Char('Z'), Modifiers::CTRL), Made::Stop),
];

/// What a key makes of the line.
#[derive(Clone, Copy)]
enum Made {
    /// The end of a message.
    Input(fn(String) -> Input),
    /// The process is stopped, and goes on with the line as it was. The editor's own key would have the process stop at a
    /// later moment, when it has the terminal again.
    Stop,
}

pub(super) enum Ended {
    By(Input),
    /// To be stopped; what was before the cursor and behind it.
    ToStop(String, String),
    /// Nothing was pasted: why, and what was before the cursor and behind it.
    NotPasted(String, String, String),
}

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
    /// Ctrl-Z was, with this before the cursor and behind it.
    Stop(String, String),
    /// Ctrl-V was, and nothing was pasted: why, and what was before the cursor and behind it.
    NotPasted(String, String, String),
}

struct Key(LineKeys, Made);

struct Paste(LineKeys, Pasting);

impl LineKeys {
    /// Has the editor listen to them.
    pub(super) fn bind<H: rustyline::Helper, I: rustyline::history::History>(
        &self,
        editor: &mut rustyline::Editor<H, I>,
        pasting: Pasting,
    ) {
        for (key, made) in KEYS {
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(Key(self.clone(), made))));
        }
        let paste = KeyEvent(KeyCode::Char('V'), Modifiers::CTRL);
        editor.bind_sequence(paste, EventHandler::Conditional(Box::new(Paste(self.clone(), pasting))));
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
            Pressed::NotPasted(why, before, behind) => {
                (format!("{before}{behind}"), Ended::NotPasted(why, before, behind))
            }
            Pressed::Stop(before, behind) => return Some(Ended::ToStop(before, behind)),
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
            Made::Input(_) if matches!(*pressed, Pressed::Ignored) => return Some(Cmd::Noop),
            Made::Input(made) => Pressed::With(context.line().to_owned(), made),
            Made::Stop => {
                let (before, behind) = context.line().split_at(context.pos());
                Pressed::Stop(before.to_owned(), behind.to_owned())
            }
        };
        Some(Cmd::Interrupt)
    }
}

impl ConditionalEventHandler for Paste {
    /// The terminal stays in raw mode, so that Ctrl-C is a key and ends no program.
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let mut pressed = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*pressed, Pressed::Ignored) {
            return Some(Cmd::Noop);
        }
        let (before, behind) = context.line().split_at(context.pos());
        match self.1.keep() {
            // A path is a word of its own.
            Ok(path) if before.is_empty() || before.ends_with(char::is_whitespace) => Some(Cmd::Insert(1, path + " ")),
            Ok(path) => Some(Cmd::Insert(1, format!(" {path} "))),
            Err(why) => {
                *pressed = Pressed::NotPasted(why, before.to_owned(), behind.to_owned());
                Some(Cmd::Interrupt)
            }
        }
    }
}
