//! The permission mode of the conversation: `/mode`, its prompt, and Shift-Tab.

use std::io::stdout;
use std::sync::{Arc, Mutex, PoisonError};

use bob::approvals::PermissionMode;
use rustyline::{Cmd, ConditionalEventHandler, Event, EventContext, RepeatCount};
use unicode_width::UnicodeWidthStr;

use super::{Chat, PROMPT};
use crate::exit::Failure;
use crate::terminal::{print, screen};

/// The prompt for a message: the mode, where it is not the usual one.
pub(super) fn prompt(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "plan> ",
        PermissionMode::Ask => PROMPT,
        PermissionMode::Edits => "edits> ",
        PermissionMode::Auto => "auto> ",
    }
}

/// `/mode`: shows the mode, or sets it from the next message on.
///
/// # Errors
/// When there is no mode of this name.
pub(super) fn obey(chat: &mut Chat, name: &str) -> Result<(), Failure> {
    if !name.is_empty() {
        let name_of_none = print::first_line(name, 20);
        let unknown = || Failure::usage(format!("there is no mode {name_of_none}; usage: /mode plan|ask|edits|auto"));
        chat.mode = PermissionMode::named(name).ok_or_else(unknown)?;
    }
    print::note(&format!("mode {}: {}", chat.mode, means(chat.mode)));
    Ok(())
}

fn means(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "tools that only read run, all others are denied",
        PermissionMode::Ask => "what changes something asks",
        PermissionMode::Edits => "file tools change files in the workspace, the rest asks",
        PermissionMode::Auto => "everything the policy allows runs without asking",
    }
}

/// Shift-Tab in the line editor: it ends the line, which is then begun again behind the prompt of the next mode.
#[derive(Clone, Default)]
pub(super) struct ModeKey(Arc<Mutex<Key>>);

#[derive(Default)]
enum Key {
    /// An answer is being typed.
    #[default]
    Ignored,
    /// A message is being typed.
    Heard,
    /// It was pressed, with this on the line.
    Pressed(String),
}

impl ModeKey {
    /// Before a line is read.
    pub(super) fn begin(&self, is_message: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = if is_message { Key::Heard } else { Key::Ignored };
    }

    /// The line, if the key ended it. It is taken off the screen, so that it does not stand there twice.
    pub(super) fn pressed(&self, prompt: &str) -> Option<String> {
        let key = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let Key::Pressed(line) = key else { return None };
        let columns = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_col));
        if screen::is_drawn_on() && !line.contains('\n') && prompt.width() + line.width() < columns {
            // One row up, and everything below is cleared.
            let _the_next_write_says_so = print::cleaned("\u{1b}[1A\r\u{1b}[J");
        }
        Some(line)
    }
}

impl ConditionalEventHandler for ModeKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let mut key = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*key, Key::Ignored) {
            return Some(Cmd::Noop);
        }
        *key = Key::Pressed(context.line().to_owned());
        Some(Cmd::Interrupt)
    }
}
