//! `chat`: an interactive conversation.
//!
//! Lines come from the editor on a terminal, and are read plainly otherwise.
//!
//! - `begin`, `choose`, `recap`: which session it is about, and the end of an earlier conversation
//! - `alive`: which sessions are at work, here and elsewhere
//! - `talk`: the loop: read a line, run it as a turn or a command
//! - `editor`, `helper`, `history`: the line editor on its own thread, with completion and history
//! - `message`: messages of several lines
//! - `mode`: the permission mode; `line_keys`: Shift-Tab, Ctrl-O, Esc Esc and Ctrl-V; `clipboard`: the image on it
//! - `lines`: lines of a pipe
//! - `commands`, `inform`, `help`, `cost`, `spent`, `permissions`: slash commands; `own_commands`: those of the project; `shell`: `!command`
//! - `mentions`: files named with `@`
//! - `say`: one turn; `at_once`: commands during it that change something
//! - `terminal_owner`, `keys`, `draft`: the owner of the terminal during a turn, and typed input
//! - `questions`, `limit`, `forms`: questions during a turn
//! - `rewind`: `/rewind` and `/compact`
//! - `look_back`: suspended turns of the session that are resumed

mod alive;
mod at_once;
mod begin;
mod choose;
mod clipboard;
mod commands;
mod cost;
mod draft;
mod editor;
#[cfg(feature = "mcp")]
mod forms;
mod help;
mod helper;
mod history;
mod inform;
mod keys;
mod limit;
mod line_keys;
mod lines;
mod look_back;
mod look_up;
mod mentions;
mod message;
mod mode;
mod own_commands;
mod permissions;
mod questions;
mod recap;
mod rewind;
mod say;
mod shell;
mod spent;
mod talk;
mod terminal_owner;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Instant;

use bob::approvals::PermissionMode;
use bob::{ModelName, SessionId};
use bob_config::assemble::Choices;
use bob_config::{Config, StoreKind};

use crate::arguments::ChatArgs;
use crate::commands::memory::Memory;
use crate::commands::prompt;
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::command_files::CommandFiles;
use crate::runtime::origin::Origin;
use crate::runtime::signals::{Caught, Signals};
use crate::terminal::screen::{self, Live};
use crate::terminal::spending::Prices;
use crate::terminal::warnings::Warnings;
use crate::terminal::{print, progress, settings, stops};
use begin::Begin;
use choose::Chosen;
use editor::Editor;
use history::History;
use inform::Facts;
use lines::Lines;
use look_back::Left;
use own_commands::OwnCommands;
use questions::Asked;
use spent::SessionSpending;
use terminal_owner::{Typed, Typing};

const PROMPT: &str = "you> ";

/// The prompt when the model has asked a question.
const ANSWER_PROMPT: &str = "answer> ";

/// The prompt when a limit has ended the turn.
const GO_ON_PROMPT: &str = "go on? [y/N] ";

/// The message that takes up a turn that a limit has ended.
const GO_ON: &str = "continue";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line without its end.
    Line(Vec<u8>),
    /// Shift-Tab, with the line as it is.
    NextMode(String),
    /// Ctrl-O, with the line as it is.
    Output(String),
    /// Esc twice, with the line as it is.
    LastMessage(String),
    /// Ctrl-C on a line with text: nothing to do.
    Cleared,
    /// Ctrl-C at a question.
    Interrupted,
    /// The end: Ctrl-D, Ctrl-C twice on an empty line, or nothing more to read.
    End,
}

enum Source {
    Person(Editor),
    Pipe(Lines),
}

impl Source {
    async fn next(&mut self, prompt: &str, initial: &str) -> Input {
        match self {
            Self::Person(editor) => editor.next(prompt, initial).await,
            Self::Pipe(lines) => lines.next().await,
        }
    }
}

pub(crate) struct Chat {
    opened: OpenRuntime,
    origin: Origin,
    control: Control,
    warnings: Warnings,
    asked: Asked,
    session: SessionId,
    /// Whether the session has records, so that it can be continued.
    is_begun: bool,
    /// Whether it was made by this chat, and all its turns failed before anything was said or done.
    is_nothing: bool,
    /// Whether sessions are kept beyond this process.
    is_stored: bool,
    folder: Option<String>,
    /// The working folder of the session, if it has one.
    cwd: Option<String>,
    own: OwnCommands,
    facts: Facts,
    memory: Memory,
    ended: Option<Instant>,
    models: Vec<String>,
    /// The model of the turns from now on; the session's or the default one if `None`.
    model: Option<ModelName>,
    /// What the turns from now on may do without asking.
    mode: PermissionMode,
    is_person: bool,
    /// Whether answers are shown while they grow.
    grows: bool,
    /// The lines below everything else, on a terminal that can be drawn on.
    live: Option<Live>,
    typing: Typing,
    typed: Typed,
    /// Lines that were typed during a turn that did not take them.
    waiting: VecDeque<String>,
    /// Text typed during a turn and not submitted, which starts the next line.
    begun: String,
    /// Whether the session waits for the answer to a question.
    is_asked: bool,
    /// Whether a limit has ended the turn, and the person is asked whether to go on.
    is_limited: bool,
    /// A suspended turn of an earlier process that is resumed.
    left: Option<Left>,
    prices: Prices,
    /// Usage of the session so far.
    spent: SessionSpending,
    /// The code of the first turn that failed.
    failed: Option<Exit>,
}

/// Talks until the input ends. On a terminal this is always a success; on a pipe the code is that of the
/// first turn that failed.
pub(crate) async fn chat(args: &ChatArgs, config: Config, origin: Origin) -> Result<Exit, Failure> {
    let is_person = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mode = args.mode.chosen()?.unwrap_or_else(|| config.policy.rules.default_mode());
    let begin = Begin::of(args, is_person)?;
    let folder = args.cwd.as_deref().map(|cwd| begin::folder(cwd, &config)).transpose()?;
    let first = (!args.words.is_empty()).then(|| prompt::checked(args.words.join(" ").into_bytes())).transpose()?;
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    if is_person {
        stops::catch();
    }
    let (port, asked) = questions::port();
    // Without a terminal no question can be asked.
    let approvals = is_person.then_some(port);
    let progress = Some(progress::to_stderr());
    let choices = Choices { progress, approvals, take_over: args.take_over, ..Choices::default() };
    let opened = tokio::select! {
        opened = OpenRuntime::open(&config, choices) => opened?,
        caught = signals.next() => return Ok(caught.exit()),
    };
    let warnings = opened.warnings();
    opened.check_model(&opened.default_model)?;
    let model = args.model.as_deref().map(ModelName::parse).transpose()?;
    let grows = is_person && config.llm.stream_default;
    let own = OwnCommands::of(CommandFiles::of(&config));
    own.untrusted().iter().for_each(|line| print::note(line));
    let completed = folder.as_ref().map_or_else(|| opened.workspace.clone(), PathBuf::from);
    let mut source = match is_person {
        true => Source::Person(Editor::start(History::of(&config), look_up::of(&opened, &config, &own, completed))?),
        false => Source::Pipe(Lines::start()),
    };
    let (session, may_exist) = match begin.session(&opened, folder.as_deref(), &mut source, &mut signals).await? {
        Chosen::This(session) => session,
        Chosen::Nothing => {
            settings::restore();
            return Ok(opened.close(&mut signals).await.map_or(Exit::Success, Caught::exit));
        }
        Chosen::Ended(exit) => {
            settings::restore();
            opened.close(&mut signals).await;
            return Ok(exit);
        }
    };
    let control = Control::open(&opened.runtime, &config, "chat", origin.clone()).await;
    let _attends = opened.attend();
    let (typing, typed) = Typing::new();
    let models = look_up::models(&config, &opened.catalogue).into_iter();
    let prices = Prices::of(&opened.catalogue);
    let mut chat = Chat {
        opened,
        origin,
        control,
        warnings,
        asked,
        session,
        is_begun: false,
        is_nothing: false,
        is_stored: config.store.kind != StoreKind::Memory,
        cwd: folder.clone(),
        folder,
        own,
        facts: Facts::of(&config),
        memory: Memory::of(&config),
        ended: None,
        models: models.filter(|model| !model.ends_with(':')).collect(),
        model,
        mode,
        is_person,
        grows,
        live: (is_person && screen::is_drawn_on()).then(Live::new),
        typing,
        typed,
        waiting: first.into_iter().collect(),
        begun: String::new(),
        is_asked: false,
        is_limited: false,
        left: None,
        prices,
        spent: SessionSpending::default(),
        failed: None,
    };
    let result = match chat.open(may_exist, &config).await {
        Ok(()) => chat.talk(&mut source, &mut signals).await,
        Err(failure) => Err(failure),
    };
    settings::restore();
    chat.farewell().await;
    // A second signal has ended the program without waiting for the children.
    let caught = chat.opened.close(&mut signals).await;
    chat.control.close().await;
    match (caught, result) {
        (Some(caught), Ok(Exit::Success)) => Ok(caught.exit()),
        (_, result) => result,
    }
}
