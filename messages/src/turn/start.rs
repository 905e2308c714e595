//! Start: the journal is read, what was interrupted recovered, and what the next turn
//! needs gathered.

use super::accept::{refuse, resumed};
use super::configure::configured;
use super::state::{Gathering, State};
use super::{Brief, Effect, Limits, OnRestart, PromptLayers, Recover, ResumeReply, Turn};
use crate::chat::Message;
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::ids::{ResumeToken, TurnId};
use crate::llm::{LlmError, ModelProfile};
use crate::session::{Configuring, Session, TurnInput};
use crate::sessions::{SuspendReason, TurnNews, TurnOutcome};
use crate::store::{Claim, Fact, StoreError};
use crate::tools::ToolSet;
use crate::turn::prompt::Frame;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What came and has no place yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Arrival {
    /// An input.
    Input(Arc<TurnInput>),
    /// A reply to a suspended turn.
    Resume { submission: TurnId, token: ResumeToken, reply: ResumeReply },
    /// A change of the session's options.
    Configure(Arc<Configuring>),
}

impl Arrival {
    /// Who is owed an outcome for it; nobody is for a change of the options.
    pub(super) fn submission(&self) -> Option<&TurnId> {
        match self {
            Self::Input(input) => Some(&input.turn),
            Self::Resume { submission, .. } => Some(submission),
            Self::Configure(_) => None,
        }
    }

    /// Whether it is the same that came before.
    fn is_again(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Configure(one), Self::Configure(other)) => one.request_id == other.request_id,
            _ => self.submission().is_some() && self.submission() == other.submission(),
        }
    }

    /// It is not taken, for this reason.
    fn refuse(&self, error: AgentError, effects: &mut Vec<Effect>) {
        match self {
            Self::Input(input) => refuse(&input.turn, error, effects),
            Self::Resume { submission, .. } => refuse(submission, error, effects),
            Self::Configure(asked) => effects.push(configured(&asked.request_id, Err(error))),
        }
    }

    /// The bounds of its turn, where it brings them along.
    pub(super) fn limits(&self) -> Option<&Limits> {
        match self {
            Self::Input(input) => Some(&input.limits),
            Self::Resume { .. } | Self::Configure(_) => None,
        }
    }
}

impl Turn {
    /// Something came: it is taken up now, or when the journal was read.
    pub(super) fn arrive(&mut self, state: State, arrival: Arrival, brief: Arc<Brief>, effects: &mut Vec<Effect>) {
        self.state = state;
        self.brief = Some(brief);
        if self.session.is_some() {
            if self.unrecovered && arrival.submission().is_some() {
                self.arrivals.push(arrival);
                return self.recovered(effects);
            }
            self.take_up(arrival, effects);
            return;
        }
        if !self.arrivals.iter().any(|known| known.is_again(&arrival)) {
            self.arrivals.push(arrival);
        }
        if matches!(self.state, State::Idle) {
            self.claim(effects);
        }
    }

    /// The actor was started again: the journal says what it was doing.
    pub(super) fn wake(&mut self, brief: Arc<Brief>, recover: Recover, effects: &mut Vec<Effect>) {
        self.brief = Some(brief);
        self.recover = Some(recover);
        self.claim(effects);
    }

    pub(super) fn claim(&mut self, effects: &mut Vec<Effect>) {
        let ticket = self.ticket();
        self.state = State::Start(Gathering { load: Some(ticket), ..Gathering::default() });
        effects.push(Effect::Claim { ticket, session: self.id.clone() });
    }

    /// The journal was read: what was open is recovered, what came is taken up.
    pub(super) fn loaded(&mut self, result: Result<Claim, StoreError>, effects: &mut Vec<Effect>) {
        let claim = match result {
            Ok(claim) => claim,
            Err(error) => {
                self.recover = None;
                self.unwanted.clear();
                self.refuse_early(effects);
                self.hear_spoken(effects);
                for arrival in std::mem::take(&mut self.arrivals) {
                    arrival.refuse(AgentError::from(error.clone()), effects);
                }
                return;
            }
        };
        let most = self.brief.as_ref().map_or(usize::MAX, |brief| brief.max_history_messages);
        self.session = Some(Session::fold_keeping(self.id.clone(), most, &claim.records));
        self.journal = super::Journal::new(claim.epoch, claim.version);
        self.tell_forgotten(&claim.records, effects);
        let only_changes = self.arrivals.iter().all(|arrival| arrival.submission().is_none());
        if only_changes && !self.arrivals.is_empty() && self.recover.is_none() {
            self.unrecovered = true;
            for arrival in std::mem::take(&mut self.arrivals) {
                self.take_up(arrival, effects);
            }
            // Nothing runs that could hear it: whoever means what is open says that it is to go on.
            self.hear_spoken(effects);
            return self.take_early(effects);
        }
        self.recovered(effects);
    }

    /// What an earlier owner left is seen to, then what came since.
    fn recovered(&mut self, effects: &mut Vec<Effect>) {
        self.unrecovered = false;
        self.recover_open(effects);
        self.hear_spoken(effects);
        self.withdraw_unwanted(effects);
        for arrival in std::mem::take(&mut self.arrivals) {
            self.take_up(arrival, effects);
        }
        if matches!(self.state, State::Idle) {
            self.begin_next(effects);
        }
        self.take_early(effects);
    }

    fn recover_open(&mut self, effects: &mut Vec<Effect>) {
        let woken = self.recover.take();
        let is_open = self.session.as_ref().is_some_and(|session| session.running().is_some());
        if !is_open {
            return self.end_unjournaled(woken, effects);
        }
        let on_restart = self.brief.as_ref().map_or(OnRestart::Report, |brief| brief.on_restart);
        match (woken, on_restart) {
            (Some(Recover::Continue), _) | (None, OnRestart::Resume) => {
                if let Some(open) = self.session.as_ref().and_then(Session::running) {
                    effects.push(began(&open.submission, &open.input));
                }
                self.settle_doubts();
                self.gather(effects);
            }
            (Some(Recover::Close(reason)), _) => self.close(reason, effects),
            (Some(Recover::GiveUp), _) => {
                self.close_failed("the turn's actor crashed too often; its calls are marked in the session", effects);
            }
            (None, OnRestart::Report) => {
                self.close_failed("a crash of the program interrupted the turn; its calls are marked", effects);
            }
        }
    }

    /// The turn that was to be closed had not reached the journal: it ends here.
    fn end_unjournaled(&mut self, woken: Option<Recover>, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        // Changes of the options are no turns.
        let is_turn = |arrival: &Arrival| arrival.submission().is_some();
        let Some(at) = self.arrivals.iter().position(is_turn) else { return };
        let first = &self.arrivals[at];
        let Some(submission) = first.submission().filter(|first| !session.knows(first)).cloned() else { return };
        let waits = session.waiting.iter().any(|input| input.turn == submission);
        match woken {
            // It must not begin after its caller was told.
            Some(Recover::Close(_)) if waits => return self.withdraw(&submission, effects),
            Some(Recover::Close(reason)) => {
                let outcome =
                    Box::new(super::done::unread(self.id.clone(), submission.clone(), reason, first.limits()));
                effects.push(Effect::Report(TurnNews::Finished { submission, outcome }));
            }
            Some(Recover::GiveUp) => {
                let error = AgentError::Internal("the turn's actor crashed too often before it began".into());
                if waits {
                    self.take_out(TurnOutcome::failed(self.id.clone(), submission, error), effects);
                } else {
                    refuse(&submission, error, effects);
                }
            }
            Some(Recover::Continue) | None => return,
        }
        self.arrivals.remove(at);
    }

    /// The oldest waiting input's turn begins, if there is one.
    pub(super) fn begin_next(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Idle;
        self.frame = None;
        let Some(session) = &self.session else { return };
        let Some(input) = session.waiting.front().cloned() else { return };
        let suspension = session.open.as_ref().and_then(|open| open.suspended.as_ref());
        match suspension.map(|suspension| suspension.reason) {
            // What waited behind a question is its answer.
            Some(SuspendReason::AskUser) => {
                self.tell_began(&input, effects);
                self.record_in_turn(resumed(input.turn.clone(), input.text(), Some(&input)));
                return self.gather(effects);
            }
            Some(SuspendReason::ApprovalRequired | SuspendReason::ExternalWait) => self.close_suspended(),
            None => {}
        }
        let (Some(session), Some(brief)) = (&self.session, &self.brief) else { return };
        let model = input.model.clone().or_else(|| session.options.model.clone());
        let model = model.unwrap_or_else(|| brief.default_model.clone());
        let turn = Some(input.turn.clone());
        self.tell_began(&input, effects);
        self.record(turn, Fact::Started { model });
        self.gather(effects);
    }

    /// A turn begins that was not taken up just now: it waited, perhaps since before this
    /// actor, and whoever keeps the clocks cannot know when its own time begins.
    fn tell_began(&self, input: &TurnInput, effects: &mut Vec<Effect>) {
        if !self.accepting.iter().any(|(_, taken)| *taken == input.turn) {
            effects.push(began(&input.turn, input));
        }
    }

    /// Asks for what the first prompt needs.
    pub(super) fn gather(&mut self, effects: &mut Vec<Effect>) {
        let (tools_at, profile_at) = (self.ticket(), self.ticket());
        let reads_files = self.brief.as_ref().is_some_and(|brief| brief.reads_files);
        let layers_at = reads_files.then(|| self.ticket());
        let until = Some(self.awaited());
        self.flush(effects);
        let Some(open) = self.session.as_ref().and_then(Session::running) else { return };
        let allow = open.input.allow_tools.clone();
        let allow = allow.or_else(|| self.session.as_ref().and_then(|session| session.options.allow_tools.clone()));
        let brought = self.session.as_ref().map(|session| Arc::clone(&session.options.servers)).unwrap_or_default();
        effects.push(Effect::ListTools { ticket: tools_at, allow, brought });
        effects.push(Effect::Profile { ticket: profile_at, model: open.model.clone() });
        if let Some(ticket) = layers_at {
            effects.push(Effect::ReadLayers { ticket, cwd: self.cwd() });
        }
        let skills_at = self.ask_for_skills(effects);
        let until = until.filter(|version| *version > self.journal.durable);
        self.state = State::Start(Gathering {
            tools_at: Some(tools_at),
            profile_at: Some(profile_at),
            layers_at,
            skills_at,
            until,
            ..Gathering::default()
        });
    }

    /// The session's folder if it is inside the workspace. It was judged when it was given, and a journal may come
    /// from elsewhere.
    pub(super) fn cwd(&self) -> Option<String> {
        let (session, brief) = (self.session.as_ref()?, self.brief.as_ref()?);
        session.options.cwd.clone().filter(|cwd| brief.holds(cwd))
    }

    pub(super) fn tools_listed(&mut self, mut wait: Gathering, tools: Arc<ToolSet>, effects: &mut Vec<Effect>) {
        wait.tools_at = None;
        wait.tools = Some(tools);
        self.gathered(wait, effects);
    }

    pub(super) fn profiled(
        &mut self,
        mut wait: Gathering,
        result: Result<Arc<ModelProfile>, LlmError>,
        effects: &mut Vec<Effect>,
    ) {
        wait.profile_at = None;
        wait.profile = Some(result);
        self.gathered(wait, effects);
    }

    pub(super) fn layers_read(
        &mut self,
        mut wait: Gathering,
        result: Result<Arc<PromptLayers>, AgentError>,
        effects: &mut Vec<Effect>,
    ) {
        wait.layers_at = None;
        wait.layers = Some(result);
        self.gathered(wait, effects);
    }

    /// Goes on when everything is there: with the open step, with the answer that
    /// was journaled but not told, or with the first prompt.
    pub(super) fn gathered(&mut self, wait: Gathering, effects: &mut Vec<Effect>) {
        let (Some(tools), Some(profile), None, None, None) =
            (&wait.tools, &wait.profile, wait.layers_at, wait.until, wait.skills_at)
        else {
            self.state = State::Start(wait);
            return;
        };
        let Some(open) = self.session.as_ref().and_then(Session::running) else { return };
        let profile = match profile {
            Ok(profile) => Arc::clone(profile),
            Err(error) => return self.fail(AgentError::Llm(error.clone()), effects),
        };
        if let Some(part) = open.input.parts.iter().find(|part| !profile.capabilities.takes(part)) {
            let error = AgentError::Invalid(format!("the model {} does not take {} parts", open.model, part.kind()));
            return self.fail(error, effects);
        }
        let mut chosen = self.choose_skills(wait.skills.as_deref(), &profile, tools);
        let tools = chosen.tools.take().unwrap_or_else(|| Arc::clone(tools));
        let (Some(session), Some(brief)) = (&self.session, &self.brief) else { return };
        let Some(open) = session.running() else { return };
        self.emit(effects, || AgentEvent::TurnStarted {
            submission: open.submission.clone(),
            model: open.model.clone(),
            cwd: session.options.cwd.clone(),
            traceparent: open.input.traceparent.clone(),
            tools: tools.tools().iter().map(|tool| tool.id.clone()).collect(),
            servers: wait.servers,
            parent: session.options.parent.clone(),
        });
        let layers = match &wait.layers {
            Some(Ok(layers)) => layers,
            Some(Err(error)) => return self.fail(error.clone(), effects),
            None => &brief.layers,
        };
        let answered = answer_not_told(session);
        let in_step = open.step.is_some();
        if let Some(told) = chosen.told.take() {
            self.emit(effects, || told);
        }
        self.frame = Some(Frame::new(brief, layers, session, profile, tools, &chosen.text));
        match answered {
            Some(text) => self.finish_final(text, effects),
            None if in_step => self.enter_calls(effects),
            None => self.go_on(effects),
        }
    }
}

fn began(submission: &TurnId, input: &TurnInput) -> Effect {
    Effect::Report(TurnNews::Began { submission: submission.clone(), limits: input.limits })
}

/// A final answer that is in the journal while the outcome is not.
fn answer_not_told(session: &Session) -> Option<String> {
    let open = session.running()?;
    let answered = session.history.len() > open.message_at + 1 && open.step.is_none() && open.malformed_in_a_row == 0;
    match session.history.last().map(Arc::as_ref) {
        Some(Message::Assistant { text, calls }) if answered && calls.is_empty() => Some(text.clone()),
        _ => None,
    }
}
