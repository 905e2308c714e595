//! The state of a continued session: its usage, and what it waits for. A question of the model is answered by the
//! next line; a call that needs a decision is asked about again, and its turn resumed.

use bob::approvals::ApprovalQuestion;
use bob::sessions::{GuardReason, ResumeReply, SuspendReason};
use bob::store::{OpenTurn, Session, Suspension};

use super::questions::Asked;
use super::spent::SessionSpending;
use super::{Chat, Source, recap};
use crate::exit::{Exit, Failure};
use crate::runtime::asking;
use crate::runtime::newest::{self, Read};
use crate::runtime::signals::Signals;
use crate::runtime::turn::Work;
use crate::terminal::{approval, print};

pub(super) enum Left {
    /// A suspended turn that waits for a decision about this call.
    Call(Box<ApprovalQuestion>, Suspension),
    /// A turn that an earlier process left at a question about a call.
    Turn,
}

impl Chat {
    pub(super) async fn look_back(&mut self) -> Result<(), Failure> {
        // A conversation of any length begins at once.
        let Read { session: folded, is_whole } = newest::read(&*self.opened.store, &self.session).await?;
        self.spent = SessionSpending::behind(folded.version);
        self.is_asked = false;
        self.left = None;
        (self.is_begun, self.is_nothing) = (folded.version > 0, false);
        self.cwd.clone_from(&folded.latest_options().cwd);
        if self.is_person {
            recap::print(&folded, is_whole);
        }
        let Some(open) = &folded.open else { return Ok(()) };
        let decides = |suspension: &&Suspension| suspension.reason == SuspendReason::ApprovalRequired;
        if !self.is_person {
            // The token of a sub-agent is for its caller.
            let is_called = folded.options.parent.as_ref().is_some_and(|parent| parent.line.is_some());
            if let Some(suspension) = open.suspended.as_ref().filter(decides).filter(|_| !is_called) {
                let token = suspension.token.as_str();
                print::note(&format!(
                    "[the turn waits for a decision: `cli-agent resume {token} allow` or `deny`; the next message discards the question]"
                ));
            }
            return Ok(());
        }
        let offers_always = self.opened.runtime.offers_always();
        match &open.suspended {
            Some(suspension) if suspension.reason == SuspendReason::AskUser => {
                print::note("[the model asked; your next line is the answer:]");
                print::note(&suspension.question);
                self.is_asked = true;
            }
            Some(suspension) if suspension.reason == SuspendReason::ExternalWait => {
                print::note("[the turn waits for an external result; your next message continues without it:]");
                print::note(&suspension.question);
            }
            Some(_) => self.look_for_question(&folded).await?,
            // Other interrupted turns are handled by `runtime.on_restart`.
            None if is_at_limit(open) || approval::open_question(&self.session, open, offers_always).is_some() => {
                print::note("[resuming the turn that waits for your decision]");
                self.left = Some(Left::Turn);
            }
            None => print::note("[the last turn of this session was interrupted]"),
        }
        Ok(())
    }

    /// Notes the question of a turn that is suspended for a decision.
    async fn look_for_question(&mut self, folded: &Session) -> Result<(), Failure> {
        let suspended = folded.open.as_ref().and_then(|open| open.suspended.as_ref());
        if let Some(suspension) = suspended.filter(|suspension| suspension.reason == SuspendReason::ApprovalRequired) {
            let offers_always = self.opened.runtime.offers_always();
            let question = asking::question(&*self.opened.store, folded, offers_always).await?;
            self.left = question.map(|question| Left::Call(Box::new(question), suspension.clone()));
        }
        Ok(())
    }

    /// Resumes the suspended turn; when it is suspended for another decision, the next call asks for that. Returns an exit
    /// code if a signal ends the program.
    pub(super) async fn go_on(&mut self, source: &mut Source, signals: &mut Signals) -> Result<Option<Exit>, Failure> {
        match self.left.take() {
            None => Ok(None),
            Some(Left::Turn) => {
                let work = Work::Finish(self.session.clone());
                self.run(work, source, signals).await
            }
            Some(Left::Call(question, suspension)) => {
                let Source::Person(editor) = source else { return Ok(None) };
                let folder = self.working_folder();
                let decided = tokio::select! {
                    decided = Asked::at_the_prompt(&folder, &question, editor) => decided,
                    caught = signals.next() => return Ok(Some(caught.exit())),
                    () = self.control.drained() => None,
                };
                let Some(decision) = decided else { return Ok(None) };
                let token = suspension.token.clone();
                let work = Work::Resume(self.session.clone(), suspension.token, ResumeReply::Decision(decision));
                let exit = self.run(work, source, signals).await?;
                if exit.is_none() {
                    let folded = newest::read(&*self.opened.store, &self.session).await?.session;
                    self.look_for_question(&folded).await?;
                    // A decision that was refused is not asked for again at once: the prompt comes first.
                    self.left.take_if(|left| matches!(left, Left::Call(_, again) if again.token == token));
                }
                Ok(exit)
            }
        }
    }
}

/// Whether the turn waits for a person at one of its limits.
fn is_at_limit(open: &OpenTurn) -> bool {
    open.at_limit.as_ref().is_some_and(|reached| reached.goes_on.is_none() && reached.guard != GuardReason::NoProgress)
}
