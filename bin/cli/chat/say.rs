//! One turn of a conversation: output, questions and typed input while it runs, and its usage at the end.

use std::cell::RefCell;

use bob::{
    AgentEvent, AgentRequest, AgentRuntime, ApprovalsMode, ContentPart, FinishReason, SessionId, SuspendReason,
    TurnOutcome,
};

use super::terminal_owner::{TerminalOwner, Typed};
use super::{Chat, Source, cost};
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::Signals;
use crate::runtime::turn::{self, Work};
use crate::terminal::print;
use crate::terminal::screen::Screen;
use crate::terminal::screen::look::Look;
use crate::terminal::show::Show;
use crate::terminal::spending::Spending;

impl Chat {
    /// The next input for the session.
    pub(super) fn message(&self, text: String) -> Work {
        Work::Say(Box::new(AgentRequest {
            model: self.model.clone(),
            interactive: true,
            // Without a terminal no question can be asked.
            approvals: if self.is_person { ApprovalsMode::Wait } else { ApprovalsMode::Deny },
            options: self.first_options(),
            ..AgentRequest::text(self.session.clone(), text)
        }))
    }

    /// Runs one turn. An exit code means that a signal ends the program.
    pub(super) async fn run(
        &mut self,
        work: Work,
        source: &mut Source,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let session = self.session.clone();
        let is_person = self.is_person;
        let grows = self.grows;
        let mut shown = Show::new(grows).talking();
        let mut spent = Spending::default();
        let screen = RefCell::new(Screen::new(self.live.as_ref()));
        let owner = TerminalOwner::new(&screen, &self.typing, self.live.as_ref());
        let followed = turn::follow(&self.opened, work, signals, |event| {
            spent.event(&event.event);
            let (tokens, is_about) = spent.tokens();
            let mut screen = screen.borrow_mut();
            screen.tokens(tokens, is_about);
            match &event.event {
                // The question itself is shown.
                AgentEvent::ApprovalRequested { .. } if is_person => Ok(()),
                // Another one follows.
                AgentEvent::TurnFinished { outcome } => {
                    let last = shown.outcome(outcome);
                    shown = Show::new(grows).talking();
                    screen.print(last)
                }
                told => screen.print(shown.event(told, event.step)),
            }
        });
        let warnings = &mut self.warnings;
        let warned = async {
            // Warnings that arrived during typing are printed before the next line.
            let mut news = warnings.now();
            loop {
                news.iter().for_each(|line| print::note(line));
                news = warnings.next().await;
            }
        };
        let interrupt = async || {
            self.opened.runtime.cancel(session.clone()).await;
        };
        let answered = self.asked.answer(source, &owner, interrupt);
        let waiting = &mut self.waiting;
        let heard = hear(&self.opened, &session, &owner, &mut self.typed, |line| waiting.push_back(line));
        let followed = tokio::select! {
            followed = followed => followed,
            never = answered => match never {},
            never = heard => match never {},
            () = warned => return Ok(None),
        };
        drop(owner);
        self.begun = self.typing.end(&mut self.typed, &mut self.waiting);
        let mut screen = screen.into_inner();
        let ended = match followed {
            Ok(ended) => ended,
            Err(failure) => {
                drop(screen);
                self.tell(&failure);
                return Ok(None);
            }
        };
        let told = ended.unread.map_or_else(|| screen.print(shown.outcome(&ended.outcome)), Err);
        drop(screen);
        match ended.caught {
            // The signal of a closed terminal explains failed writes.
            None | Some(turn::Interrupted::Once) => told?,
            Some(turn::Interrupted::ToLeave(_)) => {}
        }
        self.is_begun = true;
        self.sum_up(&ended.outcome, &spent);
        match ended.caught {
            // Ctrl-C during an answer continues the conversation on a terminal; on a pipe it ends the program.
            Some(turn::Interrupted::Once) if self.is_person => signals.forget_interrupts(),
            Some(interrupted) => return Ok(Some(interrupted.exit())),
            None => self.count(Exit::of(&ended.outcome)),
        }
        Ok(None)
    }

    /// Prints the usage of a turn, and what the session waits for.
    fn sum_up(&mut self, outcome: &TurnOutcome, spent: &Spending) {
        self.spent.extend(spent);
        self.is_asked =
            outcome.finish_reason == FinishReason::Suspended && outcome.suspend_reason == Some(SuspendReason::AskUser);
        self.is_limited = self.is_person && outcome.finish_reason == FinishReason::GuardExceeded;
        if self.is_person && spent.total().calls > 0 {
            let summary = cost::summary(spent, outcome.duration_ms, &self.spent, &self.prices);
            match &self.live {
                Some(_) => print::report(&Look::now().note(&summary)),
                None => print::note(&summary),
            }
        }
    }
}

/// Sends typed lines into the running turn. A line that the turn does not take waits until it is over.
async fn hear(
    opened: &OpenRuntime,
    session: &SessionId,
    owner: &TerminalOwner<'_>,
    typed: &mut Typed,
    mut wait: impl FnMut(String),
) -> std::convert::Infallible {
    loop {
        for line in owner.next_lines(typed).await {
            if line.trim() == "/cancel" {
                opened.runtime.cancel(session.clone()).await;
                continue;
            }
            let is_command = line.trim_start().starts_with('/');
            if is_command {
                print::note(&format!("[{line} will run when this answer is finished]"));
                wait(line);
                continue;
            }
            match opened.runtime.steer(session.clone(), vec![ContentPart::text(&line)]).await {
                Ok(true) => print::note(&format!("» {line}")),
                Ok(false) => wait(line),
                Err(error) => print::note(&format!("error: {error}; not sent: {line}")),
            }
        }
    }
}
