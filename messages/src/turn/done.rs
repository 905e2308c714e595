//! Done: every way a turn ends, and what is written before it is told.

use super::state::{Finishing, State};
use super::{Effect, Journal, Limits, Turn, TurnMessage};
use crate::chat::{CallStatus, FinishReason, GuardReason};
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::ids::{ResumeToken, Ticket, TurnId};
use crate::session::{OpenCall, OpenTurn, Session};
use crate::sessions::{EndReason, SuspendReason, TurnNews, TurnOutcome};
use crate::store::{Ended, Fact, StoreError, Suspension};
use crate::tools::ToolReturn;

impl Turn {
    pub(super) fn finish_final(&mut self, content: String, effects: &mut Vec<Effect>) {
        self.end(Ended { content, ..ended(FinishReason::Final) }, effects);
    }

    /// A guard tripped: the caller gets what there is so far.
    pub(super) fn trip(&mut self, guard: GuardReason, effects: &mut Vec<Effect>) {
        let Some(open) = self.session.as_ref().and_then(Session::running) else { return };
        let limit = open.input.limits.of(guard);
        let content = so_far(open).unwrap_or_else(|| open.input.limits.sentence(guard));
        self.emit(effects, || AgentEvent::GuardTripped { guard, limit });
        self.end(Ended { content, guard_reason: Some(guard), ..ended(FinishReason::GuardExceeded) }, effects);
    }

    pub(super) fn fail(&mut self, error: AgentError, effects: &mut Vec<Effect>) {
        // A turn that was taken up again may fail before it comes back to its calls.
        self.settle_calls(effects);
        let content = self.session.as_ref().and_then(Session::running).and_then(so_far).unwrap_or_default();
        self.end(Ended { content, error: Some(error), ..ended(FinishReason::Error) }, effects);
    }

    /// The run ends with a question to a person or a result from outside, at the call of this number.
    pub(super) fn suspend(&mut self, at: usize, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let Some(open) = session.running() else { return };
        let Some(at) = open.step.as_ref().and_then(|step| step.calls.get(at)) else { return };
        let call = &at.call;
        let asked = call.arguments.get("question").and_then(|question| question.as_str());
        let (reason, question) = match (&at.outside, asked) {
            (Some(outside), _) => (SuspendReason::ExternalWait, outside.what.clone()),
            (None, Some(question)) if call.name.is_ask_user() => (SuspendReason::AskUser, question.to_owned()),
            (None, _) => (SuspendReason::ApprovalRequired, format!("May {} run with {}?", call.name, call.arguments)),
        };
        // The input's token is random; the version makes each suspension its own.
        let secret = self.owned(format!("{}-{}", open.input.token, session.version));
        let token = ResumeToken::of(&self.id, &secret);
        let content = open.text.clone();
        let good_for_ms = Some(open.input.limits.suspend_timeout_ms).filter(|timeout_ms| *timeout_ms > 0);
        let expires_at = good_for_ms.map(|ms| self.now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
        let suspended = Some(Suspension { reason, token, question, expires_at });
        self.end(Ended { content, suspended, ..ended(FinishReason::Suspended) }, effects);
    }

    /// Closes a turn whose actor was killed before it could close it.
    pub(super) fn close(&mut self, reason: EndReason, effects: &mut Vec<Effect>) {
        self.settle_calls(effects);
        let Some(open) = self.session.as_ref().and_then(Session::running) else { return };
        let ended = ended_by(reason, open);
        self.trips(reason, effects);
        self.end(ended, effects);
    }

    /// Tells of the guard that is kept from outside.
    fn trips(&self, reason: EndReason, effects: &mut Vec<Effect>) {
        let Some(open) = self.session.as_ref().and_then(Session::running) else { return };
        if let (_, Some(guard)) = reason.finishes() {
            let limit = open.input.limits.of(guard);
            self.emit(effects, || AgentEvent::GuardTripped { guard, limit });
        }
    }

    pub(super) fn close_failed(&mut self, why: &str, effects: &mut Vec<Effect>) {
        self.settle_calls(effects);
        let open = self.session.as_ref().and_then(Session::running);
        let content = open.and_then(so_far).unwrap_or_else(|| format!("({why})"));
        let error = Some(AgentError::Internal(why.to_owned()));
        self.end(Ended { content, error, ..ended(FinishReason::Error) }, effects);
    }

    /// Closes a suspended turn because its person went on to something else.
    pub(super) fn close_suspended(&mut self) {
        let Some(open) = self.session.as_ref().and_then(|session| session.open.as_ref()) else { return };
        let submission = open.submission.clone();
        let (request_id, labels) = (None, std::collections::BTreeMap::new());
        self.record_in_turn(Fact::Resumed { submission, reply: String::new(), request_id, labels });
        self.settle_calls(&mut Vec::new());
        let content = "(the question was not answered)".to_owned();
        self.record_in_turn(Fact::Outcome(Ended { content, ..ended(FinishReason::Cancelled) }));
    }

    fn end(&mut self, ended: Ended, effects: &mut Vec<Effect>) {
        let Some(submission) = self.submission() else { return };
        self.state = State::Done(Finishing { submission, version: None });
        effects.push(Effect::Tell(TurnMessage::Done { ended: Box::new(ended) }));
    }

    /// The outcome is journaled; it is told when it is durable.
    pub(super) fn done(&mut self, finishing: &mut Finishing, ended: Ended, effects: &mut Vec<Effect>) {
        self.record_in_turn(Fact::Outcome(ended));
        finishing.version = Some(self.awaited());
        self.flush(effects);
    }

    /// An append was answered.
    pub(super) fn saved(
        &mut self,
        state: State,
        ticket: Ticket,
        result: Result<u64, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        self.state = state;
        match result {
            Ok(_version) => {
                if self.journal.stored(ticket) {
                    self.flush(effects);
                }
                self.tell_accepted(effects);
                self.tell_withdrawn(effects);
                self.tell_configured(effects);
                self.tell_steered(effects);
                self.tell_flushed(effects);
                self.go_on_stored(Ok(()), effects);
            }
            // One before it was lost on its way and has not been missed: all of it goes again.
            Err(StoreError::Conflict { .. }) if self.journal.follows(ticket) => {
                self.journal.failed();
                self.flush(effects);
            }
            Err(error @ (StoreError::Fenced { .. } | StoreError::Conflict { .. })) => self.lose(error, effects),
            Err(error) => {
                self.journal.failed();
                self.tell_withdrawn_unsaved(effects);
                self.tell_unconfigured(&AgentError::Store(error.clone()), effects);
                self.tell_steered_unsaved(&error, effects);
                self.tell_readers(effects);
                self.go_on_stored(Err(error), effects);
            }
        }
    }

    fn go_on_stored(&mut self, result: Result<(), StoreError>, effects: &mut Vec<Effect>) {
        let durable = self.journal.durable;
        match (std::mem::replace(&mut self.state, State::Idle), result) {
            // An input that is not durable was never accepted.
            (State::Start(_), Err(error)) => self.lose(error, effects),
            (State::Start(mut wait), Ok(())) => {
                wait.until = wait.until.filter(|version| *version > durable);
                self.gathered(wait, effects);
            }
            (State::CallTool(calling), result) if calling.entered => self.intents_stored(calling, result, effects),
            (State::Done(finishing), Ok(())) if finishing.version.is_some_and(|version| version <= durable) => {
                self.finish(&finishing, true, effects);
            }
            (State::Done(finishing), Err(_)) if finishing.version.is_some() => self.finish(&finishing, false, effects),
            (state, _nothing_waits_for_it) => self.state = state,
        }
    }

    fn tell_accepted(&mut self, effects: &mut Vec<Effect>) {
        let durable = self.journal.durable;
        self.accepting.retain(|(version, submission)| {
            let accepted = *version <= durable;
            if accepted {
                effects.push(Effect::Report(TurnNews::Accepted { submission: submission.clone() }));
            }
            !accepted
        });
    }

    fn finish(&mut self, finishing: &Finishing, saved: bool, effects: &mut Vec<Effect>) {
        self.report_outcome(finishing.submission.clone(), saved, effects);
        self.begin_next(effects);
    }

    fn report_outcome(&mut self, submission: TurnId, saved: bool, effects: &mut Vec<Effect>) {
        let Some(last) = self.session.as_ref().and_then(|session| session.last.as_ref()) else { return };
        let outcome = Box::new(TurnOutcome { saved, ..(**last).clone() });
        effects.push(Effect::Report(TurnNews::Finished { submission, outcome }));
    }

    /// The session is no longer ours to write, or what it holds is not durable:
    /// everybody is told, and the next input reads the journal again.
    fn lose(&mut self, error: StoreError, effects: &mut Vec<Effect>) {
        effects.push(Effect::AbandonAll);
        self.tell_steered_unsaved(&error, effects);
        self.tell_readers(effects);
        let error = AgentError::Store(error);
        let submission = match &self.state {
            State::Done(finishing) => Some(finishing.submission.clone()),
            // It was only looked at.
            _ if self.unrecovered => None,
            _ => self.submission(),
        };
        let Some(session) = self.session.take() else { return };
        if let Some(submission) = submission {
            let turn = session.open.as_ref().map_or_else(|| submission.clone(), |open| open.input.turn.clone());
            let outcome = Box::new(TurnOutcome::failed(self.id.clone(), turn, error.clone()));
            effects.push(Effect::Report(TurnNews::Finished { submission, outcome }));
        }
        let waiting = session.waiting.iter().filter(|_| !self.unrecovered);
        for input in waiting {
            super::accept::refuse(&input.turn, error.clone(), effects);
        }
        self.tell_withdrawn_unsaved(effects);
        self.tell_unconfigured(&error, effects);
        self.unrecovered = false;
        self.state = State::Idle;
        // Whoever comes next claims it anew, here or in another process; until then it is nobody's.
        effects.push(Effect::Release { session: self.id.clone(), epoch: self.journal.epoch });
        self.journal = Journal::default();
        self.accepting.clear();
        self.frame = None;
    }

    /// The actor is being stopped: the turn is closed with every call paired, what
    /// is written is sent, and the outcome is told. Nothing comes after this.
    pub(super) fn stopped(
        &mut self,
        state: &State,
        reason: EndReason,
        meant: Option<&TurnId>,
        words: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::AbandonAll);
        if self.session.is_none() {
            // The journal was not read yet; what came with the first input ends here,
            // the guest book sends the others again.
            let is_turn = |arrival: &&super::Arrival| arrival.submission().is_some();
            if let Some((first, submission)) =
                self.arrivals.iter().find(is_turn).and_then(|first| Some((first, first.submission()?.clone())))
            {
                let outcome = Box::new(unread(self.id.clone(), submission.clone(), reason, first.limits()));
                effects.push(Effect::Report(TurnNews::Finished { submission, outcome }));
            }
            // It was to be read once more, and is owned since before.
            if self.journal.epoch > 0 {
                effects.push(Effect::Release { session: self.id.clone(), epoch: self.journal.epoch });
            }
            return;
        }
        let submission = match state {
            State::Done(Finishing { submission, version: Some(_) }) => Some(submission.clone()),
            // An actor that is let go for idleness takes no turn with it, should one have just begun.
            _ if reason == EndReason::Passivated || self.unrecovered => None,
            _ => self.submission().filter(|running| meant.is_none_or(|meant| meant == running)).inspect(|_| {
                self.settle_calls(effects);
                self.trips(reason, effects);
                if let Some(open) = self.session.as_ref().and_then(Session::running) {
                    let ended = ended_by(reason, open);
                    let content = words.unwrap_or(ended.content);
                    self.record_in_turn(Fact::Outcome(Ended { content, ..ended }));
                }
            }),
        };
        self.take_out_meant(meant, reason);
        let ticket = self.ticket();
        self.journal.flush_last(&self.id, ticket, effects);
        if let Some(submission) = submission {
            // Whoever performs this knows whether the append was confirmed in time.
            self.report_outcome(submission, false, effects);
        }
        self.tell_withdrawn_unsaved(effects);
        self.tell_steered_last(effects);
        effects.push(Effect::Release { session: self.id.clone(), epoch: self.journal.epoch });
    }

    /// Who is owed the outcome of the running turn.
    pub(super) fn submission(&self) -> Option<TurnId> {
        self.session.as_ref().and_then(Session::running).map(|open| open.submission.clone())
    }

    /// Gives every open call a result, since the turn ends here.
    fn settle_calls(&mut self, effects: &mut Vec<Effect>) {
        self.settle(effects, |open| {
            Some(if may_have_run(open) {
                ToolReturn::note(CallStatus::Unknown, "outcome unknown: the turn ended while the tool was running")
            } else {
                ToolReturn::note(CallStatus::Cancelled, "cancelled: the turn ended first")
            })
        });
    }

    /// Gives calls that may have run a result, unless they may run again.
    pub(super) fn settle_doubts(&mut self) {
        self.settle(&mut Vec::new(), |open| {
            let text = "outcome unknown: the program stopped while the tool was running";
            // One that came back to wait is in no doubt.
            let in_doubt = open.outside.is_none() && may_have_run(open);
            in_doubt.then(|| ToolReturn::note(CallStatus::Unknown, text))
        });
    }

    fn settle(&mut self, effects: &mut Vec<Effect>, result: impl Fn(&OpenCall) -> Option<ToolReturn>) {
        let open = self.session.as_ref().and_then(Session::running).and_then(|open| open.step.as_ref());
        let calls: Vec<_> = open.map_or_else(Vec::new, |step| step.calls.clone());
        for open in calls.iter().filter(|open| open.result.is_none()) {
            if let Some(returned) = result(open) {
                self.answer(&open.call, returned, effects);
            }
        }
    }
}

/// Whether a call has had an effect, perhaps, and would have another one if it ran again.
fn may_have_run(open: &OpenCall) -> bool {
    open.intent.is_some_and(|traits| !traits.idempotent && !traits.read_only)
}

fn ended(finish_reason: FinishReason) -> Ended {
    Ended { finish_reason, guard_reason: None, content: String::new(), suspended: None, error: None }
}

fn ended_by(reason: EndReason, open: &OpenTurn) -> Ended {
    match reason {
        EndReason::TurnTimeout => {
            let guard = GuardReason::TurnTimeout;
            let content = so_far(open).unwrap_or_else(|| open.input.limits.sentence(guard));
            Ended { content, guard_reason: Some(guard), ..ended(FinishReason::GuardExceeded) }
        }
        EndReason::Cancelled | EndReason::Shutdown | EndReason::Passivated => {
            let content = so_far(open).unwrap_or_else(|| "Cancelled before there was an answer.".to_owned());
            Ended { content, ..ended(FinishReason::Cancelled) }
        }
    }
}

/// The outcome of an input whose session was never read.
pub(super) fn unread(
    session: crate::ids::SessionId,
    turn: TurnId,
    reason: EndReason,
    limits: Option<&Limits>,
) -> TurnOutcome {
    let (finish_reason, guard_reason) = reason.finishes();
    let guarded = guard_reason.zip(limits).map(|(guard, limits)| limits.sentence(guard));
    let content = guarded.unwrap_or_else(|| "Stopped before the session was read.".to_owned());
    TurnOutcome { guard_reason, ..TurnOutcome::bare(session, turn, finish_reason, content) }
}

fn so_far(open: &OpenTurn) -> Option<String> {
    (!open.text.trim().is_empty()).then(|| open.text.clone())
}
