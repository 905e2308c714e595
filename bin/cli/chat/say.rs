//! One turn of a conversation: output, questions and typed input while it runs, and its usage at the end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use bob::approvals::ApprovalsMode;
use bob::events::AgentEvent;
use bob::model::ContentPart;
use bob::sessions::{FinishReason, SuspendReason, TurnOutcome};
use bob::{AgentRequest, AgentRuntime};
use bob_config::sanitise;
use tokio::sync::watch;

use super::at_once::AtOnce;
use super::help::{self, COMMANDS};
use super::inform::View;
use super::own_commands::OwnMessage;
use super::spent::SessionSpending;
use super::terminal_owner::{TerminalOwner, Typed};
use super::{Chat, Source, commands, cost, mentions};
use crate::commands::attach;
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::runtime::taken;
use crate::runtime::turn::{self, Work};
use crate::terminal::screen::Screen;
use crate::terminal::screen::look::Look;
use crate::terminal::show::{Show, is_nothing};
use crate::terminal::spending::Spending;
use crate::terminal::{notify, print};

/// How many characters are shown of a line that was not read.
const MOST_OF_UNREAD: usize = 80;

impl Chat {
    /// The next input for the session. On a terminal a file that is named with `@` goes with it.
    pub(super) fn message(&self, text: String) -> Result<Work, Failure> {
        let files = if self.is_person { mentions::files(&text, &self.working_folder()) } else { Vec::new() };
        self.message_with(text, &files)
    }

    /// The message of a command of the project. Its file may have come with the folder: what that names goes along only from
    /// the session's folder, and no secrets; what the person typed behind the command goes as in any message.
    pub(super) fn own_message(&self, own: OwnMessage) -> Result<Work, Failure> {
        let folder = self.working_folder();
        let named = if self.is_person { mentions::files(&own.text, &folder) } else { Vec::new() };
        let typed = mentions::files(&own.arguments, &folder);
        let (files, refused): (Vec<_>, Vec<_>) = named
            .into_iter()
            .map(|file| (self.own.files.refuses(&file, &folder).filter(|_| !typed.contains(&file)), file))
            .partition(|(why, _)| why.is_none());
        for (why, file) in refused {
            print::note(&format!("[not sent: {}, {}]", file.display(), why.unwrap_or_default()));
        }
        let files: Vec<PathBuf> = files.into_iter().map(|(_, file)| file).collect();
        self.message_with(own.text, &files)
    }

    fn message_with(&self, text: String, files: &[PathBuf]) -> Result<Work, Failure> {
        let attached = attach::parts(files, "@")?;
        if !files.is_empty() {
            // A text that was pasted may name a file that the person did not see.
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            print::note(&format!("[with {}]", names.join(", ")));
        }
        let mut request = AgentRequest {
            model: self.model.clone(),
            mode: Some(self.mode),
            interactive: true,
            ask_at_limits: true,
            // Without a terminal no question can be asked.
            approvals: if self.is_person { ApprovalsMode::Wait } else { ApprovalsMode::Deny },
            options: self.first_options(),
            ..AgentRequest::text(self.session.clone(), text)
        };
        request.input.extend(attached);
        Ok(Work::Say(Box::new(request)))
    }

    /// Says so when what was said is in the store no longer: the next message begins the session anew.
    pub(super) async fn miss_session(&mut self) {
        if !self.is_begun || !self.is_stored {
            return;
        }
        if let Ok(None) = self.opened.runtime.session(self.session.clone()).await {
            let session = &self.session;
            print::note(&format!(
                "[session {session} is not in the store: it was deleted, or never saved; this message begins it anew]"
            ));
            (self.is_begun, self.spent) = (false, SessionSpending::default());
        }
    }

    /// Runs one turn. An exit code means that a signal ends the program.
    pub(super) async fn run(
        &mut self,
        work: Work,
        source: &mut Source,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let (session, folder) = (self.session.clone(), self.working_folder());
        let is_person = self.is_person;
        let grows = self.grows;
        let begun = || if is_person { Show::new(grows).talking() } else { Show::new(grows).talking().on_a_pipe() };
        let mut shown = begun();
        let mut spent = Spending::default();
        let screen = RefCell::new(Screen::new(self.live.as_ref()));
        let owner = TerminalOwner::new(&screen, &self.typing, self.live.as_ref());
        let mut filled = 0;
        let mut unread = Unread::default();
        let requested = watch::Sender::new(Vec::new());
        let heard_of = requested.subscribe();
        let followed = turn::follow(&self.opened, work, signals, |event| {
            if let AgentEvent::ApprovalRequested { approval_id, .. } | AgentEvent::LimitAsked { approval_id, .. } =
                &event.event
            {
                requested.send_modify(|known| known.push(approval_id.clone()));
            }
            if event.session_id.as_ref() != Some(&session) {
                let below = event.parent.iter().flat_map(|parent| shown.below(parent, &event.event));
                return screen.borrow_mut().print(below.collect());
            }
            spent.event(&event.event);
            unread.hear(&event.event);
            if let AgentEvent::PromptBuilt { estimated_tokens, .. } = &event.event {
                filled = *estimated_tokens;
            }
            let (tokens, is_about) = spent.tokens();
            let mut screen = screen.borrow_mut();
            screen.tokens(tokens, is_about);
            match &event.event {
                // The question itself is shown.
                AgentEvent::ApprovalRequested { .. } if is_person => Ok(()),
                // Another one follows.
                AgentEvent::TurnFinished { outcome } => {
                    let last = shown.outcome(outcome);
                    shown = begun();
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
        let answered = self.asked.answer(source, &owner, &folder, heard_of, interrupt);
        let waiting = &mut self.waiting;
        let view = View {
            opened: &self.opened,
            session: &self.session,
            model: self.model.as_ref(),
            prices: &self.prices,
            own: &self.own,
            facts: &self.facts,
            is_person,
            mode: self.mode,
            next_mode: self.mode,
        };
        let next_mode = Cell::new(self.mode);
        let at_once = AtOnce { view, origin: &self.origin, next_mode: &next_mode };
        let heard = hear(at_once, &owner, &mut self.typed, |line| waiting.push_back(line));
        let followed = tokio::select! {
            followed = followed => followed,
            never = answered => match never {},
            never = heard => match never {},
            () = warned => return Ok(None),
        };
        drop(owner);
        self.mode = next_mode.get();
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
        self.is_nothing = (self.is_nothing || !self.is_begun) && is_nothing(&ended.outcome);
        self.is_begun = true;
        self.ended = Some(Instant::now());
        if is_person && outcome_is_late(&ended.outcome) {
            notify::person("the answer is ready");
        }
        unread.kept(taken::is_taken(&ended.outcome)).iter().for_each(|line| print::note(line));
        taken::remark(&self.opened, &ended.outcome).await.iter().for_each(|line| print::note(line));
        self.sum_up(&ended.outcome, &spent, filled).await;
        match ended.caught {
            // Ctrl-C during an answer continues the conversation on a terminal; on a pipe it ends the program.
            Some(turn::Interrupted::Once) if self.is_person => signals.forget_interrupts(),
            Some(interrupted) => return Ok(Some(interrupted.exit())),
            None => self.count(Exit::of(&ended.outcome)),
        }
        Ok(None)
    }

    /// Prints the usage of a turn, whose last prompt had about `filled` tokens, and what the session waits for.
    async fn sum_up(&mut self, outcome: &TurnOutcome, spent: &Spending, filled: u64) {
        self.spent.add(spent);
        self.is_asked =
            outcome.finish_reason == FinishReason::Suspended && outcome.suspend_reason == Some(SuspendReason::AskUser);
        let is_refused = self.asked.take_refused();
        self.is_limited = self.is_person && !is_refused && outcome.finish_reason == FinishReason::GuardExceeded;
        if self.is_person && spent.total().calls > 0 {
            let model = outcome.model.as_ref().unwrap_or(&self.opened.default_model);
            let all = self.opened.model.capabilities(model).map_or(0, |can| u64::from(can.context_tokens));
            // Only a cost is shown of the whole session.
            let session = match spent.cost(&self.prices).is_known() {
                true => self.spent.total(&*self.opened.store, &self.session).await,
                false => None,
            };
            let summary = cost::summary(spent, outcome.duration_ms, session, &self.prices);
            let summary = cost::with_context(&summary, filled, all);
            match &self.live {
                Some(_) => print::report(&Look::now().note(&summary)),
                None => print::note(&summary),
            }
        }
    }
}

/// Lines that were sent into the turn and that no model call has had so far.
#[derive(Default)]
struct Unread {
    lines: VecDeque<String>,
    /// How many of them are in the prompt that was built last.
    in_prompt: usize,
}

impl Unread {
    fn hear(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageUser { parts, steered: true, .. } => {
                self.lines.push_back(parts.iter().map(ContentPart::as_text).collect());
            }
            AgentEvent::PromptBuilt { .. } => self.in_prompt = self.lines.len(),
            AgentEvent::LlmRequested { .. } => {
                self.lines.drain(..std::mem::take(&mut self.in_prompt).min(self.lines.len()));
            }
            _another => {}
        }
    }

    /// What is said of them when the turn has ended.
    fn kept(&self, is_taken: bool) -> Vec<String> {
        let told = |line: &String| {
            let line = print::on_one_line(&sanitise::clean(line), MOST_OF_UNREAD);
            match is_taken {
                true => format!("[not read: {line}; the session was taken from this process, and may not have it]"),
                false => format!("[not read yet: {line}; the model sees it with your next message]"),
            }
        };
        self.lines.iter().map(told).collect()
    }
}

/// Whether a person may have looked away meanwhile.
fn outcome_is_late(outcome: &TurnOutcome) -> bool {
    outcome.finish_reason != FinishReason::Cancelled && outcome.duration_ms >= notify::LONG_MS
}

/// Whether a line begins with the name of a command that is none.
fn is_unknown(view: View<'_>, line: &str) -> bool {
    let name = line.split(char::is_whitespace).next().unwrap_or_default();
    let is_command = line.starts_with('/') && !mentions::begins_with_image(line);
    is_command
        && COMMANDS.iter().all(|command| command.name != name)
        && view.own.listed().iter().all(|(own, _)| own != name)
}

/// Sends typed lines into the running turn, and obeys commands that only look, or that do not touch it. A line that the turn
/// does not take, and any other command, wait until it is over.
async fn hear(
    at_once: AtOnce<'_>,
    owner: &TerminalOwner<'_>,
    typed: &mut Typed,
    mut wait: impl FnMut(String),
) -> std::convert::Infallible {
    let View { opened, session, .. } = at_once.view;
    loop {
        for line in owner.next_lines(typed).await {
            if line.trim() == "/cancel" {
                opened.runtime.cancel(session.clone()).await;
                continue;
            }
            // An image cannot be sent into a turn: it goes with the next message.
            if commands::own(&line).is_some() || mentions::begins_with_image(line.trim_start()) {
                let view = View { next_mode: at_once.next_mode.get(), ..at_once.view };
                let obeyed = match view.shown(&line).await {
                    Some(shown) => Some(shown.map(|text| print::report(&sanitise::clean(&print::wrapped(&text))))),
                    None => at_once.obey(&line).await,
                };
                match obeyed {
                    Some(Ok(())) => {}
                    Some(Err(failure)) => print::note(&format!("error: {failure}")),
                    None if is_unknown(view, line.trim()) => print::note(&help::unknown(&line)),
                    None => {
                        print::note(&format!("{} will run when this answer is finished", line.trim()));
                        wait(line);
                    }
                }
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
