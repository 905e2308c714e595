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

/// How many lines of history are kept.
const HISTORY_LINES: usize = 1_000;

/// A line to be read.
struct Ask {
    /// What stands before it.
    prompt: String,
    /// Where it goes.
    answer: oneshot::Sender<Input>,
    /// Whether it is kept in the history.
    is_kept: bool,
}

/// The way to the editor's thread.
pub(super) struct Editor {
    ask: mpsc::UnboundedSender<Ask>,
    /// The answer to a question that was taken back while it was being answered.
    unwanted: Option<oneshot::Receiver<Input>>,
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
        Ok(Self { ask, unwanted: None, found })
    }

    /// The next line a person types behind this prompt; the end when the editor is gone. What was being typed for a
    /// question that is no longer asked is passed over first.
    pub(super) async fn next(&mut self, prompt: &str) -> Input {
        self.read(prompt, true).await
    }

    /// The same for the answer to a question, which is not kept in the history. Dropping the future takes the question
    /// back.
    #[cfg(feature = "mcp")]
    pub(super) async fn answer(&mut self, prompt: &str) -> Input {
        self.read(prompt, false).await
    }

    async fn read(&mut self, prompt: &str, is_kept: bool) -> Input {
        if let Some(unwanted) = &mut self.unwanted {
            // The editor still reads it; its line means nothing any more.
            let is_gone = unwanted.await.is_err();
            self.unwanted = None;
            if is_gone {
                return Input::End;
            }
        }
        let (answer, answered) = oneshot::channel();
        let _the_answer_says_so_when_it_is_gone = self.ask.send(Ask { prompt: prompt.to_owned(), answer, is_kept });
        let answered = self.unwanted.insert(answered);
        let input = answered.await.unwrap_or(Input::End);
        self.unwanted = None;
        input
    }

    /// Gives the terminal back as it was found, also when the editor is still reading from it.
    pub(super) fn restore(&self) {
        if let Some(found) = &self.found {
            let _the_terminal_may_be_gone = tcsetattr(std::io::stdin(), OptionalActions::Now, found);
        }
    }
}

/// Whether the terminal was closed, and not only what a person had to say.
pub(super) fn terminal_is_gone() -> bool {
    tcgetattr(std::io::stdin()).is_err()
}

/// Answers each question with one line.
fn serve(mut asked: mpsc::UnboundedReceiver<Ask>, history: Option<&Path>) {
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
    while let Some(Ask { prompt, answer, is_kept }) = asked.blocking_recv() {
        is_typed.set(false);
        let input = read(&mut editor, &prompt, &is_typed);
        if let (Input::Line(line), true) = (&input, is_kept) {
            keep(&mut editor, line, history);
        }
        // The end of a question is not the end of the conversation.
        let is_end = input == Input::End && is_kept;
        if answer.send(input).is_err() || is_end {
            return;
        }
    }
}

fn read(editor: &mut rustyline::Editor<Watch, FileHistory>, prompt: &str, is_typed: &Cell<bool>) -> Input {
    loop {
        match editor.readline(prompt) {
            Ok(line) => return Input::Line(line.into_bytes()),
            Err(ReadlineError::Interrupted) if is_typed.get() => return Input::Cleared,
            // A signal or a new size of the window: the line goes on.
            Err(ReadlineError::Signal(_)) => {}
            // Ctrl-D, Ctrl-C on an empty line, or a terminal that is gone.
            Err(_ended) => return Input::End,
        }
    }
}

/// Puts a line into the history.
fn keep(editor: &mut rustyline::Editor<Watch, FileHistory>, line: &[u8], history: Option<&Path>) {
    if editor.add_history_entry(String::from_utf8_lossy(line)).unwrap_or(false)
        && let Some(file) = history
    {
        // A history that cannot be kept is no reason to stop talking.
        let _not_kept = editor.append_history(file);
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
