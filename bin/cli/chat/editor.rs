//! The line editor of a terminal, on its own thread, with its history.
//!
//! It reads only on request, so that during a turn the terminal belongs to the answer, and Ctrl-C is a signal.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::CompletionType;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use tokio::sync::{mpsc, oneshot};

use super::clipboard::{Clipboard, Pasting};
use super::helper::{Aid, LookUp};
use super::history::{self, HISTORY_LINES, History};
use super::line_keys::{Ended, LineKeys};
use super::{Input, message};
use crate::commands::prompt;
use crate::exit::Failure;
use crate::terminal::{print, settings, stops};

struct Ask {
    prompt: String,
    initial: String,
    answer: oneshot::Sender<Input>,
    /// Whether it is a message: kept in the history, completed, and maybe of several lines. Otherwise it is the answer to
    /// a question.
    is_message: bool,
}

pub(super) struct Editor {
    ask: mpsc::UnboundedSender<Ask>,
    /// The answer to a question that was taken back while it was being answered.
    unwanted: Option<oneshot::Receiver<Input>>,
    /// Held so that images that were pasted are removed with the conversation, and not with the thread, which may outlive it.
    _clipboard: Clipboard,
}

impl Editor {
    /// Starts the thread. The terminal is not touched before the first request.
    pub(super) fn start(history: History, look_up: LookUp) -> Result<Self, Failure> {
        settings::remember();
        let (ask, asked) = mpsc::unbounded_channel();
        let clipboard = Clipboard::default();
        let pasting = clipboard.pasting();
        std::thread::Builder::new()
            .name("line editor".to_owned())
            .spawn(move || serve(asked, &history, look_up, pasting))
            .map_err(|error| Failure::internal(format!("cannot start the line editor: {error}")))?;
        Ok(Self { ask, unwanted: None, _clipboard: clipboard })
    }

    /// Reads the next line with this prompt and initial text; `Input::End` when the editor has ended. First discards
    /// a line still being typed for an abandoned question.
    pub(super) async fn next(&mut self, prompt: &str, initial: &str) -> Input {
        self.read(prompt, initial, true).await
    }

    /// Reads the answer to a question, which is not kept in the history. Dropping the future withdraws the question.
    pub(super) async fn answer(&mut self, prompt: &str, initial: &str) -> Input {
        self.read(prompt, initial, false).await
    }

    async fn read(&mut self, prompt: &str, initial: &str, is_message: bool) -> Input {
        if let Some(unwanted) = &mut self.unwanted {
            // The editor is still reading an abandoned line.
            let is_gone = unwanted.await.is_err();
            self.unwanted = None;
            if is_gone {
                return Input::End;
            }
        }
        let (answer, answered) = oneshot::channel();
        let ask = Ask { prompt: prompt.to_owned(), initial: initial.to_owned(), answer, is_message };
        let _the_answer_says_so_when_it_is_gone = self.ask.send(ask);
        let answered = self.unwanted.insert(answered);
        let input = answered.await.unwrap_or(Input::End);
        self.unwanted = None;
        input
    }
}

type Rustyline = rustyline::Editor<Aid, FileHistory>;

/// Answers each question with one line.
fn serve(mut asked: mpsc::UnboundedReceiver<Ask>, history: &History, look_up: LookUp, pasting: Pasting) {
    let is_typed = Rc::new(Cell::new(false));
    let is_message = Rc::new(Cell::new(true));
    let settings = rustyline::Config::builder()
        .auto_add_history(false)
        .bracketed_paste(true)
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_LINES);
    let settings = match settings {
        Ok(settings) => settings.build(),
        Err(_refused_and_not_needed) => rustyline::Config::default(),
    };
    let Ok(mut editor) = Rustyline::with_config(settings) else { return };
    editor.set_helper(Some(Aid::new(Rc::clone(&is_typed), Rc::clone(&is_message), look_up)));
    let keys = LineKeys::default();
    keys.bind(&mut editor, pasting);
    let file: Option<PathBuf> = history.file();
    if let Some(file) = &file {
        let _there_may_be_none_yet = editor.load_history(file);
    }
    while let Some(ask) = asked.blocking_recv() {
        is_typed.set(false);
        is_message.set(ask.is_message);
        let input = match print::is_plain_wanted() {
            true => read_plainly(&ask),
            false => read(&mut editor, &ask, &is_typed, &keys),
        };
        if let (Input::Line(line), true) = (&input, ask.is_message) {
            let line = String::from_utf8_lossy(line);
            let is_kept = history.keeps(&line) && editor.add_history_entry(line).unwrap_or(false);
            if let Some(file) = file.as_ref().filter(|_| is_kept) {
                // A history that cannot be kept is no reason to stop talking.
                let _not_kept = editor.append_history(file);
                history::keep_private(file);
            }
        }
        // The end of a question is not the end of the conversation.
        let is_end = input == Input::End && ask.is_message;
        if ask.answer.send(input).is_err() || is_end {
            return;
        }
    }
}

/// Reads a line as the terminal itself lets it be typed: nothing is drawn again. What a line would begin with is said, and
/// an empty line takes it.
fn read_plainly(ask: &Ask) -> Input {
    if !ask.initial.is_empty() {
        print::note(&format!("Enter alone takes: {}", ask.initial));
    }
    let mut typed = String::new();
    let mut prompt = ask.prompt.as_str();
    loop {
        if print::cleaned(prompt).is_err() {
            return Input::End;
        }
        let mut line = Vec::new();
        let is_read = prompt::next_line(&mut std::io::stdin().lock(), &mut line).unwrap_or(false);
        if !is_read {
            return Input::End;
        }
        typed.push_str(&String::from_utf8_lossy(&line));
        if !(ask.is_message && message::is_open(&typed)) {
            break;
        }
        typed.push('\n');
        prompt = "... ";
    }
    Input::Line(if typed.is_empty() { ask.initial.clone() } else { typed }.into_bytes())
}

fn read(editor: &mut Rustyline, ask: &Ask, is_typed: &Cell<bool>, keys: &LineKeys) -> Input {
    let mut initial = (ask.initial.clone(), String::new());
    let mut is_warned = false;
    loop {
        keys.begin(ask.is_message);
        let line = match (initial.0.as_str(), initial.1.as_str()) {
            ("", "") => editor.readline(ask.prompt.as_str()),
            initial => editor.readline_with_initial(ask.prompt.as_str(), initial),
        };
        match line {
            Ok(line) => return Input::Line(line.into_bytes()),
            Err(ReadlineError::Interrupted) if let Some(ended) = keys.pressed(&ask.prompt) => match ended {
                Ended::By(input) => return input,
                Ended::ToStop(before, behind) => {
                    stops::stop();
                    initial = (before, behind);
                }
                Ended::NotPasted(why, before, behind) => {
                    print::note(&format!("[not pasted: {why}]"));
                    initial = (before, behind);
                }
            },
            Err(ReadlineError::Interrupted) if !ask.is_message => return Input::Interrupted,
            Err(ReadlineError::Interrupted) if is_typed.get() => return Input::Cleared,
            // It may have been meant for an answer that ended just before.
            Err(ReadlineError::Interrupted) if !is_warned => {
                is_warned = true;
                initial = Default::default();
                print::note("press Ctrl-C again to leave");
            }
            // A signal or a resize: reading continues.
            Err(ReadlineError::Signal(_)) => {}
            // Ctrl-D, a second Ctrl-C on an empty line, or a closed terminal.
            Err(_ended) => return Input::End,
        }
    }
}
