//! Start: the journal is read, what was interrupted recovered, and what the next turn needs gathered.

use super::accept::{no_answer, resumed};
use super::done::unread;
use super::news::{began, finished, refused};
use super::skills::Listed;
use super::state::{Gathering, State};
use super::{Effect, Recover, Turn, TurnMessage};
use crate::chat::Message;
use crate::error::AgentError;
use crate::event::{self, AgentEvent};
use crate::ids::{ToolName, TurnId};
use crate::input::TurnInput;
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::session_state::Session;
use crate::store::{Claim, Fact, StoreError};
use crate::submission::TurnNews;
use crate::tools::ToolSet;
use crate::turn::prompt::Frame;
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

impl Turn {
    /// The actor was restarted: continues from the journal.
    pub(super) fn wake(&mut self, turn_config: Arc<TurnConfig>, recover: Recover, effects: &mut Vec<Effect>) {
        self.turn_config = Some(turn_config);
        self.recover = Some(recover);
        self.came_before = true;
        self.claim(false, effects);
    }

    /// Asks for the journal: from its last snapshot on, or whole.
    pub(super) fn claim(&mut self, whole: bool, effects: &mut Vec<Effect>) {
        let ticket = self.ticket();
        self.state = State::Load { awaiting: ticket, whole };
        effects.push(Effect::Claim { ticket, session: self.id.clone(), whole });
    }

    /// The journal was read: what was open is recovered, what came is taken up.
    pub(super) fn loaded(&mut self, result: Result<Claim, StoreError>, whole: bool, effects: &mut Vec<Effect>) {
        let read = result.and_then(|claim| {
            self.outbox = super::Outbox::new(claim.epoch, claim.version);
            match self.session_of(&claim) {
                None if whole => Err(StoreError::Corrupt("the store did not give the beginning of the journal".into())),
                session => Ok((claim, session)),
            }
        });
        match read {
            Ok((claim, Some(session))) => {
                self.came_before = false;
                self.session = Some(session);
                self.answer_lookups(&claim.records, effects);
            }
            Ok((_not_enough, None)) => return self.claim(true, effects),
            Err(error) => return self.refuse_all(&error, effects),
        }
        self.end_all_again(effects);
        let asks_for_turn = self.deferred.iter().any(|request| request.submission().is_some());
        let takes_none_up =
            |request: &TurnMessage| matches!(request, TurnMessage::Configure { .. } | TurnMessage::GivenUp { .. });
        let takes_none_up = self.deferred.iter().any(takes_none_up);
        if takes_none_up && !asks_for_turn && self.recover.is_none() {
            // What is open goes on only for an input, and what waits begins only then.
            self.unrecovered = true;
            return self.take_deferred(effects);
        }
        self.recovered(effects);
    }

    /// Recovers what an earlier owner left open, then handles the requests that came since.
    pub(super) fn recovered(&mut self, effects: &mut Vec<Effect>) {
        self.unrecovered = false;
        self.tell_all_given_up(effects);
        self.recover_open(effects);
        if matches!(self.state, State::Idle) && self.bring_result(effects) {
            self.begin_next(effects);
        }
        self.follow_tasks(effects);
        self.take_deferred(effects);
    }

    fn recover_open(&mut self, effects: &mut Vec<Effect>) {
        let woken = self.recover.take();
        let is_open = self.open_turn().is_some();
        // One that is being closed was answered before.
        if !is_open || !matches!(self.state, State::Idle) {
            return self.end_unjournaled(woken, effects);
        }
        let on_restart = self.turn_config.as_ref().map_or(OnRestart::Report, |turn_config| turn_config.on_restart);
        match (woken, on_restart) {
            (Some(Recover::Continue), _) | (None, OnRestart::Resume) => {
                if let Some(open) = self.open_turn() {
                    effects.push(began(&open.submission, &open.input));
                }
                if woken.is_none() {
                    // Another process began it: it has its whole time for this run.
                    self.now.begin();
                }
                self.settle_doubts();
                self.gather(effects);
            }
            (Some(Recover::Close(reason)), _) => self.close(reason, effects),
            (Some(Recover::GiveUp), _) => {
                let why = "the turn's actor crashed too often; the history of the session marks its unfinished calls";
                self.close_failed(why, effects);
            }
            (None, OnRestart::Report) => {
                self.close_failed("a crash of the program interrupted the turn; its calls are marked", effects);
            }
        }
    }

    /// The turn that was to be closed had not reached the journal: it ends here.
    fn end_unjournaled(&mut self, woken: Option<Recover>, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let mut requests = self.deferred.iter().enumerate();
        let first =
            requests.find_map(|(at, request)| Some((at, request.submission()?.clone(), request.limits().copied())));
        let Some((at, submission, limits)) = first else { return };
        if session.knows(&submission) {
            return;
        }
        let waits = session.waiting.iter().any(|input| input.turn == submission);
        match woken {
            // It must not begin after its caller was answered.
            Some(Recover::Close(_)) if waits => return self.withdraw(&submission, effects),
            Some(Recover::Close(reason)) => {
                let open = session.open.as_ref().and_then(|open| open.suspended.as_ref());
                let token = self.deferred.get(at).and_then(TurnMessage::handed_down);
                let mut outcome = unread(self.id.clone(), submission.clone(), reason, limits.as_ref());
                if token.is_some() && token == open.map(|open| &open.token) {
                    // Its caller has ended, and counts what it used.
                    self.close_suspended(effects);
                    self.flush(effects);
                    self.tell_given_up(effects);
                    if let Some(last) = self.session.as_ref().and_then(|session| session.last.as_ref()) {
                        outcome = TurnOutcome { saved: false, ..(**last).clone() };
                    }
                }
                effects.push(finished(submission, outcome));
            }
            Some(Recover::GiveUp) => {
                let error = AgentError::Internal("the turn's actor crashed too often before it began".into());
                if waits {
                    self.take_out(TurnOutcome::failed(self.id.clone(), submission, error));
                    self.flush(effects);
                } else {
                    effects.push(refused(&submission, error));
                }
            }
            Some(Recover::Continue) | None => return,
        }
        self.deferred.remove(at);
    }

    /// The oldest waiting input's turn begins, if there is one.
    pub(super) fn begin_next(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Idle;
        self.frame = None;
        let Some(session) = &self.session else { return };
        let Some(input) = session.waiting.front().cloned() else { return };
        if self.may_be_left() {
            return effects.push(Effect::Report(TurnNews::BetweenSteps));
        }
        let suspension = session.open.as_ref().and_then(|open| open.suspended.as_ref());
        match suspension.map(|suspension| suspension.reason) {
            // An input that waited behind a question answers it.
            Some(SuspendReason::AskUser) => {
                if let Some(error) = no_answer(&input) {
                    self.take_out(TurnOutcome::failed(self.id.clone(), input.turn.clone(), error));
                    self.flush(effects);
                    return self.begin_next(effects);
                }
                self.record_in_turn(resumed(input.turn.clone(), input.text(), Some(&input)));
                if let Some(open) = self.open_turn() {
                    // Its limits are those of the turn that goes on.
                    effects.push(began(&input.turn, &open.input));
                }
                return self.gather(effects);
            }
            Some(SuspendReason::ApprovalRequired | SuspendReason::ExternalWait) => self.close_suspended(effects),
            None => {}
        }
        let (Some(session), Some(turn_config)) = (&self.session, &self.turn_config) else { return };
        let model = input.model.clone().or_else(|| session.options.model.clone());
        let model = model.unwrap_or_else(|| turn_config.default_model.clone());
        let (model, selected, said) = super::select::model(turn_config, session, &input, model);
        let turn = Some(input.turn.clone());
        self.tell_began(&input.turn, &input, effects);
        self.record(turn, Fact::Started { model, selected });
        self.gather(effects);
        if let State::Start(wait) = &mut self.state {
            wait.said.extend(said);
        }
    }

    /// A turn begins whose input was not taken up just now: it waited, perhaps since before this actor, and the
    /// supervisor, which keeps the clocks, cannot know when its time begins.
    fn tell_began(&self, submission: &TurnId, input: &TurnInput, effects: &mut Vec<Effect>) {
        if self.undurable(submission).is_none() {
            effects.push(began(submission, input));
        }
    }

    /// Asks for what the first prompt needs.
    pub(super) fn gather(&mut self, effects: &mut Vec<Effect>) {
        let (tools_at, profile_at) = (self.ticket(), self.ticket());
        let reads_files = self.turn_config.as_ref().is_some_and(|turn_config| turn_config.reads_files);
        let layers_at = reads_files.then(|| self.ticket());
        let until = Some(self.await_durable());
        self.flush(effects);
        let Some(open) = self.open_turn() else { return };
        let allow = open.input.allow_tools.clone();
        let allow = allow.or_else(|| self.session.as_ref().and_then(|session| session.options.allow_tools.clone()));
        let brought = self.session.as_ref().map(|session| Arc::clone(&session.options.servers)).unwrap_or_default();
        let tenant = self.session.as_ref().and_then(|session| session.tenant.clone());
        // A turn that was suspended keeps its id; what runs now is named by who asked for it.
        let submission = open.submission.clone();
        effects.push(Effect::ListTools { ticket: tools_at, submission, allow, brought, tenant });
        // A selector that selected nothing has no profile.
        let profile = super::select::none(open).map(Err);
        let profile_at = match &profile {
            Some(_no_model) => None,
            None => Some(profile_at),
        };
        if let Some(ticket) = profile_at {
            effects.push(Effect::Profile { ticket, model: open.model.clone() });
        }
        if let Some(ticket) = layers_at {
            effects.push(Effect::ReadLayers { ticket, cwd: self.cwd() });
        }
        let skills_at = self.ask_for_skills(effects);
        let until = until.filter(|version| *version > self.outbox.durable);
        self.state = State::Start(Box::new(Gathering {
            tools_at: Some(tools_at),
            profile_at,
            profile,
            layers_at,
            skills_at,
            until,
            ..Gathering::default()
        }));
    }

    /// The session's folder if it is inside the workspace. That is checked again, since a journal may come from
    /// elsewhere.
    pub(super) fn cwd(&self) -> Option<String> {
        let (session, turn_config) = (self.session.as_ref()?, self.turn_config.as_ref()?);
        session.options.cwd.clone().filter(|cwd| turn_config.holds(cwd))
    }

    /// Continues when everything was gathered: with the open step, with the answer that was journaled but not
    /// reported, or with the first prompt.
    pub(super) fn gathered(&mut self, mut wait: Box<Gathering>, effects: &mut Vec<Effect>) {
        wait.until = wait.until.filter(|version| *version > self.outbox.durable);
        let (Some(tools), Some(profile), None, None, None) =
            (&wait.tools, &wait.profile, wait.layers_at, wait.until, wait.skills_at)
        else {
            self.state = State::Start(wait);
            return;
        };
        let servers = std::mem::take(&mut wait.servers);
        // That their calls have ended is durable now.
        self.tell_given_up(effects);
        let Some(open) = self.open_turn() else { return };
        let profile = match profile {
            Ok(profile) => Arc::clone(profile),
            Err(error) => return self.fail(AgentError::Llm(error.clone()), effects),
        };
        if !open.input.limits.max_cost.is_zero() && profile.price.is_none() {
            return self.fail(AgentError::Llm(super::select::no_price(&open.model)), effects);
        }
        if let Some(part) = open.input.parts.iter().find(|part| !profile.capabilities.takes(part)) {
            let error = AgentError::Invalid(format!("the model {} does not take {} parts", open.model, part.kind()));
            return self.fail(error, effects);
        }
        let offered = self.offered(tools);
        let scores = wait.scores.as_deref();
        let listed = wait.skills.as_ref().map(|index| Listed { index, scores });
        let mut chosen = self.choose_skills(listed, &profile, &offered);
        let (Some(session), Some(turn_config)) = (&self.session, &self.turn_config) else { return };
        let Some(open) = session.running() else { return };
        self.emit(effects, || AgentEvent::TurnStarted {
            submission: open.submission.clone(),
            model: open.model.clone(),
            cwd: session.options.cwd.clone(),
            traceparent: open.input.traceparent.clone(),
            tracestate: open.input.tracestate.clone(),
            agent: session.options.agent.clone(),
            tools: told(&chosen.tools, session),
            servers,
            parent: session.options.parent.clone(),
            context: open.input.context.clone(),
        });
        if !self.unwatched
            && let Some(said) = event::began(open)
        {
            self.emit(effects, || said);
        }
        for said in wait.said {
            self.emit(effects, || said);
        }
        let layers = match &wait.layers {
            Some(Ok(layers)) => layers,
            Some(Err(error)) => return self.fail(error.clone(), effects),
            None => &turn_config.layers,
        };
        let answered = answer_not_told(session);
        let in_step = open.step.is_some();
        if let Some(told) = chosen.told.take() {
            self.emit(effects, || told);
        }
        self.frame = Some(Frame::new(turn_config, layers, session, profile, (chosen, offered)));
        // What an earlier actor waited for is asked for again.
        self.progressed(effects);
        match answered {
            Some(text) => self.finish_final(text, effects),
            None if in_step => self.enter_calls(effects),
            None => self.go_on(effects),
        }
    }
}

fn told(tools: &ToolSet, session: &Session) -> Vec<ToolName> {
    let plain = tools.without_reader().filter(|_| !session.has_artifacts());
    plain.map_or(tools, |plain| plain).tools().iter().map(|tool| tool.id.clone()).collect()
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
