//! The loop of a conversation: read a line, run it as a turn or a command, until the input ends.

use std::time::Duration;

use super::choose::{self, Choice, Chosen};
use super::commands::{self, Obeyed};
use super::inform::View;
use super::{ANSWER_PROMPT, Chat, GO_ON, GO_ON_PROMPT, Input, Source, message, mode};
use crate::commands::prompt;
use crate::exit::{Exit, Failure};
use crate::runtime::signals::{Caught, Signals};
use crate::terminal::{print, settings, stops};

/// How long after the end of an answer Ctrl-C still belongs to it.
const LATE: Duration = Duration::from_millis(500);

enum Next {
    Input(Input),
    /// A signal.
    Exit(Exit),
    /// The process takes no more lines.
    Drained,
}

impl Chat {
    pub(super) fn greet(&self) {
        if self.is_person {
            let model = self.model.as_ref().unwrap_or(&self.opened.default_model);
            print::note(&format!("{model}, session {}", self.session));
            print::note("/help lists the commands, Ctrl-D leaves");
        }
    }

    pub(super) async fn talk(&mut self, source: &mut Source, signals: &mut Signals) -> Result<Exit, Failure> {
        while !self.control.is_drained() {
            if let Some(exit) = self.go_on(source, signals).await? {
                return Ok(exit);
            }
            // The turn waits for another decision.
            if self.left.is_some() {
                continue;
            }
            let is_limited = std::mem::take(&mut self.is_limited);
            let prompt = match (self.is_asked, is_limited) {
                (true, _) => ANSWER_PROMPT,
                (false, true) => GO_ON_PROMPT,
                (false, false) => mode::prompt(self.mode),
            };
            let input = match self.next_input(prompt, source, signals).await? {
                Next::Input(input) => input,
                Next::Exit(exit) => return Ok(exit),
                Next::Drained => break,
            };
            let line = match input {
                // The SIGHUP of a closed terminal may arrive after the end of its input.
                Input::End if self.is_person && settings::is_gone() => return Ok(Exit::HungUp),
                Input::End => break,
                Input::Cleared | Input::Interrupted => continue,
                Input::NextMode(line) => {
                    (self.mode, self.begun, self.is_limited) = (self.mode.next(), line, is_limited);
                    continue;
                }
                Input::Output(line) => {
                    if let Some(shown) = self.view().shown("/output").await {
                        match shown {
                            Ok(text) => self.show(&text)?,
                            Err(failure) => self.tell(&failure),
                        }
                    }
                    (self.begun, self.is_limited) = (line, is_limited);
                    continue;
                }
                Input::LastMessage(line) => {
                    let last = self.last_message().await;
                    (self.begun, self.is_limited) = (last.unwrap_or(line), is_limited);
                    continue;
                }
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
            let text = if self.is_person { message::meant(&text) } else { text };
            let text = match text.trim().to_lowercase().as_str() {
                "y" | "yes" if is_limited => GO_ON.to_owned(),
                "n" | "no" if is_limited => continue,
                _a_message => text,
            };
            match commands::obey(self, &text).await {
                Ok(Obeyed::Leave) => break,
                Ok(Obeyed::Done) => {}
                Ok(Obeyed::Choose(choice)) => {
                    if let Some(exit) = self.choose(choice, source, signals).await? {
                        return Ok(exit);
                    }
                }
                Ok(Obeyed::Shell(command)) => {
                    if let Some(exit) = self.shell(&command, signals).await {
                        return Ok(exit);
                    }
                }
                Ok(Obeyed::Compact) => {
                    if let Some(exit) = self.compact(signals).await {
                        return Ok(exit);
                    }
                }
                Ok(said @ (Obeyed::NoCommand | Obeyed::Message(_))) => {
                    self.miss_session().await;
                    let message = match said {
                        Obeyed::Message(own) => self.own_message(own),
                        _typed => self.message(text),
                    };
                    match message {
                        Ok(work) => {
                            if let Some(exit) = self.run(work, source, signals).await? {
                                return Ok(exit);
                            }
                        }
                        Err(failure) => self.tell(&failure),
                    }
                }
                Err(failure) if failure.exit.is_cancelled() => return Err(failure),
                Err(failure) => self.tell(&failure),
            }
        }
        if self.control.is_drained() {
            if self.is_person {
                // The cursor is after the prompt and typed text.
                print::report("\n");
            }
            print::note("this process is draining and accepts no further messages");
        }
        Ok(self.failed.filter(|_| !self.is_person).unwrap_or(Exit::Success))
    }

    /// The next line: one that was typed during a turn, or a new one.
    async fn next_input(&mut self, prompt: &str, source: &mut Source, signals: &mut Signals) -> Result<Next, Failure> {
        let mut tree = self.opened.runtime.ended();
        if let Some(line) = self.waiting.pop_front() {
            if self.is_person {
                print::note(&format!("{prompt}{line}"));
            }
            return Ok(Next::Input(Input::Line(line.into_bytes())));
        }
        // Where no line editor reads the keys, the terminal itself takes the line away at Ctrl-C.
        let is_plain = self.is_person && print::is_plain();
        let mut is_warned = false;
        let begun = std::mem::take(&mut self.begun);
        let mut next = std::pin::pin!(source.next(prompt, &begun));
        loop {
            tokio::select! {
                // The prompt waits for no answer, and there will be none.
                _ = tree.wait_for(Option::is_some) => return Err(self.opened.gave_up()),
                input = &mut next => return Ok(Next::Input(input)),
                caught = signals.next() => match caught {
                    Caught::Interrupt if is_plain && !is_warned => {
                        is_warned = true;
                        signals.forget_interrupts();
                        print::report("\npress Ctrl-C again to leave\n");
                        print::cleaned(prompt)?;
                    }
                    // It was meant for the answer that has just ended: the editor reads Ctrl-C as a key.
                    Caught::Interrupt if !is_plain && self.ended.is_some_and(|ended| ended.elapsed() < LATE) => {
                        signals.forget_interrupts();
                    }
                    caught => return Ok(Next::Exit(caught.exit())),
                },
                () = self.control.drained() => return Ok(Next::Drained),
                // The line editor writes its prompt by itself.
                () = stops::goes_on(), if is_plain => print::cleaned(prompt)?,
            }
        }
    }

    /// Lets a person choose from a list. Returns an exit code if a signal ends the program.
    async fn choose(
        &mut self,
        choice: Choice,
        source: &mut Source,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let done = match choice {
            Choice::Session => match choose::session(&self.opened, source, signals).await {
                Ok(Chosen::This(session)) => self.resume(session).await,
                Ok(Chosen::Nothing) => Ok(()),
                Ok(Chosen::Ended(exit)) => return Ok(Some(exit)),
                Err(failure) => Err(failure),
            },
            Choice::Model => {
                let now = self.model.clone().unwrap_or_else(|| self.opened.default_model.clone());
                match choose::model(&self.models, &now, source, signals).await {
                    Ok(Chosen::This(model)) => self.use_model(&model),
                    Ok(Chosen::Nothing) => Ok(()),
                    Ok(Chosen::Ended(exit)) => return Ok(Some(exit)),
                    Err(failure) => Err(failure),
                }
            }
        };
        if let Err(failure) = done {
            self.tell(&failure);
        }
        Ok(None)
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            opened: &self.opened,
            session: &self.session,
            model: self.model.as_ref(),
            prices: &self.prices,
            own: &self.own,
            facts: &self.facts,
            is_person: self.is_person,
            mode: self.mode,
            next_mode: self.mode,
        }
    }

    pub(super) fn count(&mut self, exit: Exit) {
        if !matches!(exit, Exit::Success | Exit::Suspended) {
            self.failed = self.failed.or(Some(exit));
        }
    }

    pub(super) fn tell(&mut self, failure: &Failure) {
        self.count(failure.exit);
        print::note(&format!("error: {failure}"));
    }
}
