//! `chat`: a conversation, line by line.
//!
//! Owns the loop: read a line, run it as a turn or obey it as a command, show what happens. The lines come from the
//! editor on a terminal and plainly from anything else; turns go the way of every turn.
//!
//! - `editor`: the line editor, on a thread of its own
//! - `lines`: lines of a pipe
//! - `commands`: what begins with a slash
//! - `forms`: what tool servers ask

mod commands;
mod editor;
#[cfg(feature = "mcp")]
mod forms;
mod lines;

#[cfg(not(feature = "mcp"))]
use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use bob::assemble::Choices;
use bob::config::{Config, Environment, Overrides};
use bob::facade::AgentRequest;
use bob_messages::ids::{ModelName, SessionId};

use crate::cli::ChatArgs;
use crate::exit::{Exit, Failure};
use crate::house::House;
use crate::run::new_session;
use crate::show::{self, Show};
use crate::signals::Signals;
use crate::warnings::Warnings;
use crate::{print, progress, prompt, trust, turn};
use commands::Obeyed;
use editor::Editor;
use lines::Lines;

/// What stands before a person's line.
const PROMPT: &str = "you> ";

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line without its end.
    Line(Vec<u8>),
    /// Ctrl-C on a line with text: nothing to do.
    Cleared,
    /// The end: Ctrl-D, Ctrl-C on an empty line, or nothing more to read.
    End,
}

/// Where lines come from.
enum Source {
    Person(Editor),
    Pipe(Lines),
}

impl Source {
    async fn next(&mut self) -> Input {
        match self {
            Self::Person(editor) => editor.next(PROMPT).await,
            Self::Pipe(lines) => lines.next().await,
        }
    }
}

/// Where the configuration came from, to read it again.
pub(crate) struct Origin {
    /// The file.
    pub(crate) file: PathBuf,
    /// What the command line lays over it.
    pub(crate) overrides: Overrides,
    /// Whether it was named, so that it needs no trust.
    pub(crate) is_named: bool,
}

impl Origin {
    /// Reads it again.
    ///
    /// # Errors
    /// What is wrong with it, or that nobody trusts it.
    pub(crate) fn read(&self) -> Result<Config, Failure> {
        let config = bob::config::load(&self.file, &Environment::of_process(), &self.overrides)?;
        if !self.is_named {
            trust::check(&config)?;
        }
        Ok(config)
    }
}

/// A conversation under way.
pub(crate) struct Chat {
    house: House,
    origin: Origin,
    warnings: Warnings,
    #[cfg(feature = "mcp")]
    asked: forms::Asked,
    session: SessionId,
    /// The model of the turns from now on; the session's or the default one if `None`.
    model: Option<ModelName>,
    is_person: bool,
    /// Whether answers are shown while they grow.
    grows: bool,
    /// The code of the first turn that failed.
    failed: Option<Exit>,
}

/// Talks until the input ends. On a terminal this is a success whatever the turns were; on a pipe the code is that of the
/// first turn that failed.
///
/// # Errors
/// When there can be no conversation: a bad id, a missing key, a store that does not open.
pub(crate) async fn chat(args: &ChatArgs, config: Config, origin: Origin) -> Result<Exit, Failure> {
    let session = match &args.session {
        Some(id) => SessionId::parse(id)?,
        None => new_session()?,
    };
    let is_person = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    #[cfg(feature = "mcp")]
    let (port, asked) = forms::port();
    // On a pipe nobody can be asked.
    #[cfg(feature = "mcp")]
    let approvals = is_person.then_some(port);
    #[cfg(not(feature = "mcp"))]
    let approvals = None;
    let progress = Some(progress::to_stderr());
    let choices = Choices { progress, approvals, take_over: args.take_over, ..Choices::default() };
    let house = tokio::select! {
        house = House::open(&config, choices) => house?,
        caught = signals.next() => return Ok(caught.exit()),
    };
    let warnings = house.warnings();
    house.check_model(&house.default_model)?;
    let model = args.model.as_deref().map(ModelName::parse).transpose()?;
    let grows = is_person && config.llm.stream_default;
    let mut source = match is_person {
        true => Source::Person(Editor::start(&config)?),
        false => Source::Pipe(Lines::start()),
    };
    let mut chat = Chat {
        house,
        origin,
        warnings,
        #[cfg(feature = "mcp")]
        asked,
        session,
        model,
        is_person,
        grows,
        failed: None,
    };
    chat.greet();
    let result = chat.talk(&mut source, &mut signals).await;
    if let Source::Person(editor) = &source {
        editor.restore();
    }
    // Whoever does not want to wait for the children any more has ended the program.
    match (chat.house.close(&mut signals).await, result) {
        (Some(caught), Ok(Exit::Success)) => Ok(caught.exit()),
        (_, result) => result,
    }
}

impl Chat {
    fn greet(&self) {
        if self.is_person {
            let model = self.model.as_ref().unwrap_or(&self.house.default_model);
            print::note(&format!("{model}, session {}", self.session));
            print::note("/help lists the commands, Ctrl-D leaves");
        }
    }

    async fn talk(&mut self, source: &mut Source, signals: &mut Signals) -> Result<Exit, Failure> {
        let mut tree = self.house.runtime.ended();
        loop {
            let input = tokio::select! {
                // Nobody waits for an answer at the prompt, and there will be none any more.
                _ = tree.wait_for(Option::is_some) => return Err(self.house.gave_up()),
                input = source.next() => input,
                caught = signals.next() => return Ok(caught.exit()),
            };
            let line = match input {
                // The signal of a terminal that was closed may come after the end of what is read from it.
                Input::End if self.is_person && editor::terminal_is_gone() => return Ok(Exit::HungUp),
                Input::End => break,
                Input::Cleared => continue,
                Input::Line(line) => line,
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let text = match prompt::checked(line) {
                Ok(text) => text,
                Err(failure) => {
                    self.tell(&failure);
                    continue;
                }
            };
            match commands::obey(self, &text).await {
                Ok(Obeyed::Leave) => break,
                Ok(Obeyed::Done) => {}
                Ok(Obeyed::NoCommand) => {
                    if let Some(exit) = self.say(text, source, signals).await? {
                        return Ok(exit);
                    }
                }
                Err(failure) if failure.exit.is_cancelled() => return Err(failure),
                Err(failure) => self.tell(&failure),
            }
        }
        Ok(self.failed.filter(|_| !self.is_person).unwrap_or(Exit::Success))
    }

    /// Runs one turn. An exit code means that a signal ends the program.
    async fn say(&mut self, text: String, source: &mut Source, signals: &mut Signals) -> Result<Option<Exit>, Failure> {
        let request = AgentRequest {
            model: self.model.clone(),
            interactive: true,
            ..AgentRequest::text(self.session.clone(), text)
        };
        let mut shown = Show::new(self.grows);
        let followed = turn::follow(&self.house, request, signals, |event| show::print(shown.event(&event.event)));
        let warnings = &mut self.warnings;
        let warned = async {
            // What came while a person was typing is told now, and not across the line.
            let mut news = warnings.now();
            loop {
                news.iter().for_each(|line| print::note(line));
                news = warnings.next().await;
            }
        };
        #[cfg(feature = "mcp")]
        let answered = self.asked.answer(source);
        #[cfg(not(feature = "mcp"))]
        let answered = {
            let _nobody_asks = source;
            std::future::pending::<Infallible>()
        };
        let followed = tokio::select! {
            followed = followed => followed,
            never = answered => match never {},
            () = warned => return Ok(None),
        };
        let ended = match followed {
            Ok(ended) => ended,
            Err(failure) => {
                self.tell(&failure);
                return Ok(None);
            }
        };
        let told = ended.unread.map_or_else(|| show::print(shown.outcome(&ended.outcome)), Err);
        match ended.caught {
            // The signal that closed a terminal says more than the writes that fail because of it.
            None | Some(turn::Interrupted::Once) => told?,
            Some(turn::Interrupted::ToLeave(_)) => {}
        }
        match ended.caught {
            // A person who presses Ctrl-C during an answer wants to go on talking; on a pipe there is nobody.
            Some(turn::Interrupted::Once) if self.is_person => signals.forget_interrupts(),
            Some(interrupted) => return Ok(Some(interrupted.exit())),
            None => self.count(Exit::of(&ended.outcome)),
        }
        Ok(None)
    }

    fn count(&mut self, exit: Exit) {
        if !matches!(exit, Exit::Success | Exit::Suspended) {
            self.failed = self.failed.or(Some(exit));
        }
    }

    fn tell(&mut self, failure: &Failure) {
        self.count(failure.exit);
        print::note(&format!("error: {failure}"));
    }
}
