//! The supervisor of the sessions: who waits for which submission, which children a turn has, and who is cancelled with whom.
//!
//! It follows the real one (`supervisors/src/sessions`) without its places, clocks and questions.

use super::lanes::{Item, Lane};
use super::{Answer, Defect, Entry, Leaving, Pending, Tree};
use crate::agent::{ChildTurn, agent_of, may_have_begun, outcome_of, resumed, worked};
use crate::chat::{CallStatus, FinishReason, ToolCall, ToolOutput};
use crate::error::AgentError;
use crate::ids::{SessionId, Ticket, TurnId};
use crate::options::{OnParentEnd, ParentTurn};
use crate::outcome::{EndReason, TurnOutcome};
use crate::submission::TurnNews;
use crate::tools::ToolReturn;
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::TurnConfig;
use std::collections::VecDeque;
use std::sync::Arc;

/// Who waits for an outcome.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    Person,
    Call { actor: u64, ticket: Ticket, call: Arc<ToolCall>, how: How },
}

/// How a call was made.
#[derive(Debug, Clone)]
pub(super) enum How {
    Inline,
    Works { again: bool },
    Resumes { asks: Box<ToolOutput>, turn: TurnId },
}

impl Pending {
    pub(super) fn parent(&self) -> Option<&ParentTurn> {
        let parent = match &self.request {
            TurnMessage::Start { input, .. } => input.options.as_ref()?.parent.as_ref(),
            TurnMessage::Resume { parent, .. } => parent.as_deref(),
            _has_no_options => None,
        };
        parent.filter(|parent| parent.line.is_some())
    }
}

impl Entry {
    pub(super) fn running(&self) -> Option<&TurnId> {
        self.recovered.as_ref().or_else(|| self.pending.front().map(|first| &first.submission))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.actor.is_some() && self.stopping.is_none() && self.running().is_none() && self.children.is_empty()
    }
}

impl Tree {
    fn entry(&mut self, session: &SessionId, turn_config: &Arc<TurnConfig>) -> &mut Entry {
        self.table.entry(session.clone()).or_insert_with(|| Entry {
            actor: None,
            turn_config: Arc::clone(turn_config),
            pending: VecDeque::new(),
            stopping: None,
            crashes: 0,
            closing: None,
            given_up: None,
            recovered: None,
            children: Vec::new(),
            is_followed: false,
        })
    }

    pub(super) fn send(&mut self, session: &SessionId, message: TurnMessage) {
        if let Some(actor) = self.table.get(session).and_then(|entry| entry.actor) {
            self.send_to(actor, message);
        }
    }

    pub(super) fn open(&mut self, session: &SessionId) {
        let actor = self.new_actor(session);
        if let Some(entry) = self.table.get_mut(session) {
            entry.actor = Some(actor);
        }
    }

    pub(super) fn submit(&mut self, session: &SessionId, pending: Pending, turn_config: &Arc<TurnConfig>) {
        let forgets = self.has(Defect::TellsTheDead);
        let known = self.table.get_mut(session).map_or(0, |entry| entry.pending.len());
        let same = self
            .table
            .get_mut(session)
            .and_then(|entry| entry.pending.iter_mut().find(|known| known.submission == pending.submission));
        if let Some(same) = same {
            if !forgets {
                same.callers.extend(pending.callers);
            }
            return self.saw("a child is found at work");
        }
        if pending.parent().is_some() && self.fault(self.plan.refuses, 8) {
            self.saw("a call is refused for now");
            return self.answers(session, &pending, &Err(AgentError::overloaded("too many turns run")));
        }
        if known > turn_config.max_waiting {
            return self.answers(session, &pending, &Err(AgentError::busy("too many wait")));
        }
        if let Some(parent) = pending.parent() {
            let child = ChildTurn::of(session.clone(), pending.submission.clone(), parent);
            if let Some(above) = self.table.get_mut(&parent.session) {
                above.is_followed |= child.outlives;
                above.children.push(child);
            }
        }
        let entry = self.entry(session, turn_config);
        entry.turn_config = Arc::clone(turn_config);
        let request = pending.request.clone();
        entry.pending.push_back(pending);
        if entry.stopping.is_none() {
            if entry.actor.is_none() {
                self.open(session);
            }
            self.send(session, request);
        }
    }

    pub(super) fn cancel(&mut self, session: &SessionId, turn: Option<&TurnId>) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let is_recovered = |turn: &TurnId| entry.recovered.as_ref() == Some(turn);
        let at = match turn {
            None => (!entry.pending.is_empty()).then_some(0),
            Some(turn) if is_recovered(turn) => None,
            Some(turn) => entry.pending.iter().position(|pending| pending.submission == *turn),
        };
        let Some(at) = at else {
            if entry.recovered.as_ref().is_some_and(|running| turn.is_none_or(|turn| turn == running)) {
                self.stop(session, EndReason::Cancelled);
            }
            return;
        };
        let submission = entry.pending[at].submission.clone();
        match &entry.stopping {
            None if at == 0 && entry.recovered.is_none() => self.stop(session, EndReason::Cancelled),
            Some(stopping) if stopping.submission.as_ref() == Some(&submission) => {}
            stopping => {
                let is_told = stopping.is_none();
                entry.pending[at].cancelled = true;
                if is_told {
                    self.send(session, TurnMessage::Withdrawn { submission });
                }
            }
        }
    }

    pub(super) fn stop(&mut self, session: &SessionId, reason: EndReason) {
        let Some(entry) = self.table.get_mut(session).filter(|entry| entry.stopping.is_none()) else { return };
        let Some(actor) = entry.actor else { return };
        let submission = entry.running().cloned();
        entry.is_followed &= reason != EndReason::Passivated;
        entry.stopping = Some(Leaving { reason, submission: submission.clone(), ended: false, reported_all: false });
        if let Some(living) = self.actors.get_mut(&actor) {
            living.ending = Some((reason, submission));
            self.lanes.push(Lane::Stop(actor), Item::Stop);
        }
        self.cancel_children(session, |child| child.ends_with_stop(reason));
    }

    pub(super) fn cancel_children(&mut self, session: &SessionId, ends: impl Fn(&ChildTurn) -> bool) {
        if self.has(Defect::CancelsNotBelow) {
            return;
        }
        let Some(entry) = self.table.get_mut(session) else { return };
        let (ended, left) = std::mem::take(&mut entry.children).into_iter().partition(|child| ends(child));
        entry.children = left;
        let ended: Vec<ChildTurn> = ended;
        for ChildTurn { session: child, turn, .. } in ended {
            self.saw("a child is cancelled with its caller");
            self.cancel(&child, Some(&turn));
        }
    }

    pub(super) fn news_of(&mut self, actor: u64, news: TurnNews) {
        let Some(session) = self.homes.get(&actor).cloned() else { return };
        match news {
            TurnNews::Began { submission, turn, .. } => {
                self.watch.begins_again(&session, &turn);
                self.began(&session, submission);
            }
            TurnNews::Refused { submission, error } => self.settles(&session, &submission, Err(error)),
            TurnNews::Finished { submission, outcome } => self.settles(&session, &submission, Ok(outcome)),
            TurnNews::ChildGivenUp { child, turn } => self.give_up_child(&session, &child, turn),
            TurnNews::Closed => drop(self.table.get_mut(&session).and_then(|entry| entry.given_up.take())),
            TurnNews::Orphaned { child } => self.close_orphan(&session, &child),
            TurnNews::TasksEnd { children } => {
                self.saw("tasks end with their turn");
                for (child, turn) in children {
                    self.cancel(&child, Some(&turn));
                }
            }
            TurnNews::Left => self.reported_all(&session),
            _of_questions_and_changes => {}
        }
    }

    /// The final reports of a stopped actor arrive.
    pub(super) fn closed(&mut self, actor: u64, news: Vec<TurnNews>, appended: bool, saved: Option<bool>) {
        let confirmed = saved.unwrap_or(!appended);
        for news in news {
            self.news_of(actor, news.behind_the_last_append(appended, confirmed));
        }
        self.news_of(actor, TurnNews::Left);
    }

    fn began(&mut self, session: &SessionId, turn: TurnId) {
        let Some(entry) = self.table.get_mut(session) else { return };
        match entry.pending.iter().position(|pending| pending.submission == turn) {
            Some(0) => {}
            Some(at) => {
                entry.recovered = None;
                let pending = entry.pending.remove(at);
                pending.into_iter().for_each(|pending| entry.pending.push_front(pending));
            }
            None => entry.recovered = Some(turn),
        }
    }

    pub(super) fn settles(&mut self, session: &SessionId, submission: &TurnId, result: Answer) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let was_running = entry.running() == Some(submission);
        if was_running {
            (entry.crashes, entry.closing) = (0, None);
        }
        let was_recovered = entry.recovered.take_if(|recovered| recovered == submission).is_some();
        let pending = entry.pending.iter().position(|pending| pending.submission == *submission);
        let pending = pending.and_then(|at| entry.pending.remove(at));
        if !was_recovered && pending.is_none() {
            return;
        }
        let cancelled = result.as_ref().ok().filter(|outcome| outcome.finish_reason == FinishReason::Cancelled);
        let cancelled = cancelled.map(|outcome| outcome.turn_id.clone());
        if let Ok(outcome) = &result {
            self.ended(session, outcome);
        }
        if let Some(pending) = pending {
            self.answers(session, &pending, &result);
        }
        if was_running {
            self.cancel_children(session, |child| child.ends_with_turn(cancelled.as_ref()));
        }
    }

    /// Answers those that wait for a submission.
    pub(super) fn answers(&mut self, session: &SessionId, pending: &Pending, result: &Answer) {
        if let Some(above) = pending.parent().and_then(|parent| self.table.get_mut(&parent.session)) {
            above.children.retain(|child| child.session != *session || child.turn != pending.submission);
        }
        let is_lost = self.has(Defect::LosesResult) && pending.parent().is_some_and(Self::outlives);
        for caller in pending.callers.clone() {
            match caller {
                Caller::Call { .. } if is_lost => {}
                Caller::Person => self.person_hears(&pending.submission, result),
                Caller::Call { actor, ticket, call, how } => {
                    self.call_ends(actor, ticket, &call, how, (session, result))
                }
            }
        }
    }

    fn call_ends(
        &mut self,
        actor: u64,
        ticket: Ticket,
        call: &Arc<ToolCall>,
        how: How,
        (session, result): (&SessionId, &Answer),
    ) {
        let returned = match how {
            How::Inline => inline(call, result),
            How::Works { again } => worked(call, result, again),
            How::Resumes { asks, turn } => match resumed(call, result, *asks) {
                Some(returned) => returned,
                None => {
                    self.saw("a decision comes too late");
                    let item = Item::Read { call: Arc::clone(call), session: session.clone(), turn };
                    return self.lanes.push(Lane::Work(actor, ticket), item);
                }
            },
        };
        let returned = self.distorts(returned);
        self.returns(actor, ticket, returned);
    }

    /// What a broken driver makes of a result.
    fn distorts(&self, mut returned: ToolReturn) -> ToolReturn {
        match self.defect {
            Some(Defect::ForgetsBill) => returned.output.delegated = None,
            Some(Defect::CountsTwice) => {
                if let Some(used) = returned.output.delegated.as_deref_mut() {
                    let once = *used;
                    used.add(&once);
                }
            }
            Some(Defect::ForgetsToken) if returned.output.waits_for.is_some() => {
                return ToolReturn::note(CallStatus::Error, "it waits");
            }
            _ => {}
        }
        returned
    }

    fn close_orphan(&mut self, parent: &SessionId, child: &SessionId) {
        self.saw("an orphan is closed");
        let Some(turn_config) = self.table.get(parent).map(|entry| Arc::clone(&entry.turn_config)) else { return };
        if self.table.get(child).is_some_and(|entry| !entry.is_idle()) {
            return self.cancel(child, None);
        }
        if self.entry(child, &turn_config).actor.is_none() {
            self.open(child);
            self.send(child, TurnMessage::Wake { turn_config, recover: Recover::Close(EndReason::Cancelled) });
        }
    }

    fn give_up_child(&mut self, parent: &SessionId, child: &SessionId, turn: TurnId) {
        self.saw("a child is given up");
        if self.has(Defect::LeavesSuspended) {
            return;
        }
        let Some(turn_config) = self.table.get(parent).map(|entry| Arc::clone(&entry.turn_config)) else { return };
        self.entry(child, &turn_config).given_up = Some(turn);
        self.tell_given_up(child);
    }

    /// The actor is told which turn it is to close; one that is being stopped is not told, and the next one is.
    pub(super) fn tell_given_up(&mut self, session: &SessionId) {
        let Some(entry) = self.table.get(session).filter(|entry| entry.stopping.is_none()) else { return };
        let Some(turn) = entry.given_up.clone() else { return };
        let (turn_config, has_actor) = (Arc::clone(&entry.turn_config), entry.actor.is_some());
        if !has_actor {
            self.open(session);
        }
        self.send(session, TurnMessage::GivenUp { turn, turn_config });
    }

    /// A turn ends: it is known to the watch, and a broken driver begins what its result has begun once more.
    fn ended(&mut self, session: &SessionId, outcome: &TurnOutcome) {
        self.note_end(session, outcome);
        let input = self.journals.get(session).and_then(|journal| {
            journal.records.iter().find_map(|record| match &record.fact {
                crate::store::Fact::Input(input) if input.turn == outcome.turn_id => Some(Arc::clone(input)),
                _ => None,
            })
        });
        let is_first = !outcome.turn_id.as_str().starts_with("again-");
        let is_result = is_first && input.as_ref().is_some_and(|input| input.labels.contains_key("task"));
        if let (true, true, Some(input)) = (self.has(Defect::BringsTwice), is_result, input) {
            let turn = TurnId::new(format!("again-{}", input.turn));
            let again = crate::input::TurnInput { turn, request_id: None, ..(*input).clone() };
            self.person_says(Arc::new(again), crate::turn_config::OnRestart::Resume);
        }
    }

    /// The sessions below which a task outlives its turn.
    pub(super) fn outlives(parent: &ParentTurn) -> bool {
        parent.on_parent_end == Some(OnParentEnd::Continue)
    }
}

/// The result of a call that waits for its session, as the tools of the runtime answer it.
fn inline(call: &ToolCall, result: &Answer) -> ToolReturn {
    let refused = |error: &AgentError| format!("the agent {} was not started: {error}", agent_of(call));
    match result {
        Ok(outcome) => ToolReturn::of(outcome_of(agent_of(call), outcome)),
        Err(error) if may_have_begun(error) => {
            ToolReturn::note(CallStatus::Unknown, format!("outcome unknown: {error}"))
        }
        Err(error) if error.is_retryable() => ToolReturn::not_run(refused(error)),
        Err(error) => ToolReturn::note(CallStatus::Error, refused(error)),
    }
}
