//! `/rewind`: the files, the conversation, or both, as they were at the end of a turn; and `/compact`.

use bob::AgentRuntime;
use bob::store::Fact;

use super::Chat;
use super::spent::SessionSpending;
use crate::arguments::Part;
use crate::commands::file_changes::{self, Which};
use crate::commands::rewind;
use crate::commands::run::new_session;
use crate::commands::sessions::fork;
use crate::exit::{Exit, Failure};
use crate::runtime::signals::{Caught, Signals};
use crate::terminal::print;
use crate::terminal::spending::grouped;

const USAGE: &str = "usage: /rewind N [files|conversation] [force]: back to the end of turn N; 0 is the beginning";

impl Chat {
    pub(super) fn begin_anew(&mut self) -> Result<(), Failure> {
        self.session = new_session()?;
        (self.is_begun, self.is_nothing) = (false, false);
        self.cwd = self.folder.clone();
        self.spent = SessionSpending::default();
        self.is_asked = false;
        print::note(&format!("session {}", self.session));
        Ok(())
    }

    /// Goes back to the end of a turn; without an argument, lists the turns.
    pub(super) async fn rewind(&mut self, argument: &str) -> Result<(), Failure> {
        let records = self.opened.runtime.records(self.session.clone()).await?;
        let turns = rewind::turns(&records);
        let mut words = argument.split_whitespace();
        let Some(first) = words.next() else {
            self.show(&rewind::listed(&turns))?;
            print::note(USAGE);
            return Ok(());
        };
        let at: usize = first.parse().map_err(|_| Failure::usage(USAGE))?;
        let (mut part, mut overwrite) = (None, false);
        for word in words {
            match (word, Part::named(word)) {
                ("force", _) => overwrite = true,
                (_, Some(named)) if part.is_none() => part = Some(named),
                (_, _) => return Err(Failure::usage(USAGE)),
            }
        }
        rewind::check(&self.session, at, turns.len())?;
        if part != Some(Part::Conversation) {
            let changed = file_changes::of_session(&*self.opened.store, &self.session, &records).await;
            let workspace = vec![self.opened.workspace.to_string_lossy().into_owned()];
            let which = Which::Behind(at as u64);
            let originals = file_changes::originals(&*self.opened.store, &changed, which, &workspace).await;
            let undone = move || file_changes::take_back((&changed.turns, &originals), which, &workspace, overwrite);
            let names =
                tokio::task::spawn_blocking(undone).await.map_err(|_| Failure::internal("the undo failed"))??;
            if part == Some(Part::Files) && names.is_empty() {
                print::note("no file was changed after that turn");
            }
            self.tell_undone(&names).await;
        }
        if part == Some(Part::Files) {
            return Ok(());
        }
        print::note(&format!("the conversation so far can be resumed: /resume {}", self.session));
        match at {
            0 => self.begin_anew(),
            at => {
                let forked = fork::fork(&*self.opened.store, &self.session, &records, Some(at)).await?;
                self.resume(forked.id).await
            }
        }
    }

    /// The last message of the person, to be edited; the one that was sent stays in the conversation.
    pub(super) async fn last_message(&self) -> Option<String> {
        let records = self.opened.runtime.records(self.session.clone()).await.ok()?;
        let last = records.iter().rev().find_map(|record| match &record.fact {
            Fact::Input(input) => input.parts.first().map(|part| part.as_text().to_string()),
            _another => None,
        })?;
        let turns = rewind::turns(&records).len();
        print::note(&match turns {
            0 => "[the message before stays in the conversation]".to_owned(),
            turns => format!("[the message before stays in the conversation; /rewind {} takes it back]", turns - 1),
        });
        Some(last)
    }

    /// Condenses the history now. Ctrl-C leaves it as it is; another signal ends the program with this code.
    pub(super) async fn compact(&mut self, signals: &mut Signals) -> Option<Exit> {
        if !self.is_begun {
            print::note("nothing was said in this session yet");
            return None;
        }
        print::note("[writing a summary; Ctrl-C leaves the conversation as it is]");
        let work = self.opened.runtime.condense(self.session.clone(), self.model.clone());
        let condensed = tokio::select! {
            condensed = work => condensed,
            caught = signals.next() => match caught {
                Caught::Interrupt => {
                    signals.forget_interrupts();
                    print::note("[cancelled; the conversation is as it was]");
                    return None;
                }
                caught => return Some(caught.exit()),
            },
        };
        match condensed {
            Ok(done) => print::note(&format!(
                "condensed {}: about {} tokens before, {} now; what was said stays in the session",
                print::counted(done.messages, "message"),
                grouped(done.tokens_before),
                grouped(done.tokens_after)
            )),
            Err(error) => self.tell(&error.into()),
        }
        None
    }
}
