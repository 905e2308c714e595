//! The line editor of a person at a terminal, on a thread of its own, with its history.
//!
//! It reads only when it is asked to, so that during a turn the terminal belongs to the answer, and Ctrl-C is a signal.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bob::config::{Config, StoreKind};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Context, Helper};
use tokio::sync::{mpsc, oneshot};

use super::Input;
use crate::exit::Failure;

const PROMPT: &str = "you> ";

/// How many lines of history are kept.
const HISTORY_LINES: usize = 1_000;

/// The way to the editor's thread.
pub(super) struct Editor {
    ask: mpsc::UnboundedSender<oneshot::Sender<Input>>,
    /// The terminal as it was found.
    found: Option<Termios>,
}

impl Editor {
    /// Starts the thread. The terminal is not touched before the first line is asked for.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(super) fn start(config: &Config) -> Result<Self, Failure> {
        let found = tcgetattr(std::io::stdin()).ok();
        let history = history_file(config);
        let (ask, asked) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("line editor".to_owned())
            .spawn(move || serve(asked, history.as_deref()))
            .map_err(|error| Failure::internal(format!("cannot start the line editor: {error}")))?;
        Ok(Self { ask, found })
    }

    /// The next line a person types; the end when the editor is gone.
    pub(super) async fn next(&mut self) -> Input {
        let (answer, answered) = oneshot::channel();
        let _the_answer_says_so_when_it_is_gone = self.ask.send(answer);
        answered.await.unwrap_or(Input::End)
    }

    /// Gives the terminal back as it was found, also when the editor is still reading from it.
    pub(super) fn restore(&self) {
        if let Some(found) = &self.found {
            let _the_terminal_may_be_gone = tcsetattr(std::io::stdin(), OptionalActions::Now, found);
        }
    }
}

/// Answers each question with one line.
fn serve(mut asked: mpsc::UnboundedReceiver<oneshot::Sender<Input>>, history: Option<&Path>) {
    let is_typed = Rc::new(Cell::new(false));
    let settings = rustyline::Config::builder().auto_add_history(false).bracketed_paste(true);
    let settings = match settings.max_history_size(HISTORY_LINES) {
        Ok(settings) => settings.build(),
        Err(_refused_and_not_needed) => rustyline::Config::default(),
    };
    let Ok(mut editor) = rustyline::Editor::<Watch, FileHistory>::with_config(settings) else { return };
    editor.set_helper(Some(Watch { is_typed: Rc::clone(&is_typed) }));
    if let Some(file) = history {
        let _there_may_be_none_yet = editor.load_history(file);
    }
    while let Some(answer) = asked.blocking_recv() {
        is_typed.set(false);
        let input = read(&mut editor, &is_typed, history);
        let is_end = input == Input::End;
        if answer.send(input).is_err() || is_end {
            return;
        }
    }
}

fn read(editor: &mut rustyline::Editor<Watch, FileHistory>, is_typed: &Cell<bool>, history: Option<&Path>) -> Input {
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                if editor.add_history_entry(&line).unwrap_or(false)
                    && let Some(file) = history
                {
                    // A history that cannot be kept is no reason to stop talking.
                    let _not_kept = editor.append_history(file);
                }
                return Input::Line(line.into_bytes());
            }
            Err(ReadlineError::Interrupted) if is_typed.get() => return Input::Cleared,
            // A signal or a new size of the window: the line goes on.
            Err(ReadlineError::Signal(_)) => {}
            // Ctrl-D, Ctrl-C on an empty line, or a terminal that is gone.
            Err(_ended) => return Input::End,
        }
    }
}

/// Knows whether anything is typed on the line: the editor shows it each change, asking for a hint.
struct Watch {
    is_typed: Rc<Cell<bool>>,
}

impl rustyline::hint::Hinter for Watch {
    type Hint = String;

    fn hint(&self, line: &str, _position: usize, _context: &Context<'_>) -> Option<String> {
        self.is_typed.set(!line.is_empty());
        None
    }
}

impl rustyline::completion::Completer for Watch {
    type Candidate = String;
}
impl rustyline::highlight::Highlighter for Watch {}
impl rustyline::validate::Validator for Watch {}
impl Helper for Watch {}

/// Where the history is kept: beside the sessions, readable by nobody else. None when sessions are not kept either.
fn history_file(config: &Config) -> Option<PathBuf> {
    let store = config.store_path()?;
    let folder = match config.store.kind {
        StoreKind::Memory => return None,
        StoreKind::Json => store.as_path(),
        StoreKind::Sqlite => store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    let file = folder.join("chat_history");
    OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
    Some(file)
}
