//! Done: every way a turn ends, and what is written before its outcome is reported.

use super::acks::Settled;
use super::news::{finished, refused_request};
use super::state::{Finishing, State};
use super::{Effect, Turn, TurnMessage};
use crate::chat::{FinishReason, GuardReason};
use crate::error::AgentError;
use crate::event::{self, AgentEvent};
use crate::ids::{ResumeToken, SessionId, TurnId};
use crate::limits::Limits;
use crate::outcome::{EndReason, SuspendReason, TurnOutcome, never_ran};
use crate::session_state::OpenTurn;
use crate::store::{Ended, Fact, StoreError, Suspension};
use crate::submission::TurnNews;

impl Turn {
    pub(super) fn finish_final(&mut self, content: String, effects: &mut Vec<Effect>) {
        self.end(Ended { content, ..Ended::new(FinishReason::Final) }, effects);
    }

    /// A guard tripped: the caller gets what there is so far.
    pub(super) fn trip(&mut self, guard: GuardReason, effects: &mut Vec<Effect>) {
        let Some(open) = self.open_turn() else { return };
        let limit = open.limits().of(guard);
        let content = so_far(open).unwrap_or_else(|| open.limits().sentence(guard));
        self.emit(effects, || AgentEvent::GuardTripped { guard, limit });
        self.end(Ended { content, guard_reason: Some(guard), ..Ended::new(FinishReason::GuardExceeded) }, effects);
    }

    pub(super) fn fail(&mut self, error: AgentError, effects: &mut Vec<Effect>) {
        // A turn that was taken up again may fail before it comes back to its calls.
        self.tell_orphans(effects);
        self.settle_calls(&[], effects);
        let content = self.open_turn().and_then(so_far).unwrap_or_default();
        self.end(Ended { content, error: Some(error), ..Ended::new(FinishReason::Error) }, effects);
    }

    /// Fails a turn that a transition left open in `Idle`, because data that it needs was missing. That is a defect of
    /// the machine; without this, the caller would wait forever.
    pub(super) fn fail_stranded(&mut self, effects: &mut Vec<Effect>) {
        if matches!(self.state, State::Idle) && !self.unrecovered && self.open_turn().is_some() {
            let text = "the turn lost what it needed to go on; this is a defect, please report it";
            self.fail(AgentError::Internal(text.to_owned()), effects);
        }
    }

    /// The run ends with a question to a person or a result from outside, at the call of this number.
    pub(super) fn suspend(&mut self, at: usize, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let Some(open) = session.running() else { return };
        let Some(at) = open.step.as_ref().and_then(|step| step.calls.get(at)) else { return };
        let call = &at.call;
        let asked = call.arguments.get("question").and_then(|question| question.as_str());
        // A person who is asked about the call decides before anything goes on with it.
        let outside = at.outside.as_ref().filter(|_| at.is_permitted());
        let (reason, question) = match (&at.below, outside, asked) {
            (Some(below), _, _) => (SuspendReason::ApprovalRequired, below.question.clone()),
            (None, Some(outside), _) => (SuspendReason::ExternalWait, outside.what.clone()),
            (None, None, Some(question)) if call.name.is_ask_user() => (SuspendReason::AskUser, question.to_owned()),
            (None, None, _) => {
                let question = format!("May {} run with {}?", call.name, call.arguments);
                (SuspendReason::ApprovalRequired, self.with_agents_above(question))
            }
        };
        // The input's token is random; the version makes each suspension its own.
        let secret = self.owned(format!("{}-{}", open.input.token, session.version));
        let token = ResumeToken::of(&self.id, &secret);
        let content = open.text.clone();
        let good_for_ms = Some(open.input.limits.suspend_timeout_ms).filter(|timeout_ms| *timeout_ms > 0);
        // The token that expires is that of the turn that no other one called.
        let good_for_ms = good_for_ms.filter(|_| !Self::is_resumed_by_caller(open));
        let expires_at = good_for_ms.map(|ms| self.now.wall.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
        let suspended = Some(Suspension { reason, token, question, expires_at });
        self.end(Ended { content, suspended, ..Ended::new(FinishReason::Suspended) }, effects);
    }

    /// Closes a turn whose actor was killed before it could close it.
    pub(super) fn close(&mut self, reason: EndReason, effects: &mut Vec<Effect>) {
        self.tell_orphans(effects);
        self.settle_calls(&[], effects);
        let Some(open) = self.open_turn() else { return };
        let ended = ended_by(reason, open);
        self.trips(reason, effects);
        self.end(ended, effects);
    }

    /// Emits the event of a guard that the supervisor enforces.
    fn trips(&self, reason: EndReason, effects: &mut Vec<Effect>) {
        let Some(open) = self.open_turn() else { return };
        if let (_, Some(guard)) = reason.finishes() {
            let limit = open.limits().of(guard);
            self.emit(effects, || AgentEvent::GuardTripped { guard, limit });
        }
    }

    /// Closes a turn that does not go on. A child that has ended has its outcome in its journal.
    pub(super) fn close_failed(&mut self, why: &str, effects: &mut Vec<Effect>) {
        self.read_outcomes(effects);
        if self.background.is_none() {
            self.tell_orphans(effects);
            self.settle_calls(&[], effects);
        }
        let open = self.open_turn();
        let content = open.and_then(so_far).unwrap_or_else(|| format!("({why})"));
        let error = Some(AgentError::Internal(why.to_owned()));
        self.end(Ended { content, error, ..Ended::new(FinishReason::Error) }, effects);
    }

    /// Closes a suspended turn because its person went on to something else.
    pub(super) fn close_suspended(&mut self, effects: &mut Vec<Effect>) {
        self.give_up_tasks(effects);
        let Some(open) = self.session.as_ref().and_then(|session| session.open.as_ref()) else { return };
        let submission = open.submission.clone();
        let (request_id, labels) = (None, std::collections::BTreeMap::new());
        self.record_in_turn(Fact::Resumed { submission, reply: String::new(), request_id, labels });
        self.settle_calls(&[], &mut Vec::new());
        let content = "(the question was not answered)".to_owned();
        self.record_end(Ended { content, ..Ended::new(FinishReason::Cancelled) });
    }

    fn end(&mut self, ended: Ended, effects: &mut Vec<Effect>) {
        let Some(submission) = self.submission() else { return };
        self.state = State::Done(Finishing { submission, version: None });
        if self.wait_for_children(&ended, effects) {
            return;
        }
        effects.push(Effect::Tell(TurnMessage::Done { ended: Box::new(ended) }));
    }

    /// Journals the outcome; it is reported when it is durable.
    pub(super) fn done(&mut self, finishing: &mut Finishing, ended: Ended, effects: &mut Vec<Effect>) {
        let lost = self.lost_children(ended.finish_reason);
        self.record_end(ended);
        finishing.version = Some(self.await_durable());
        self.flush(effects);
        effects.extend(lost.into_iter().map(|child| Effect::Report(TurnNews::Orphaned { child })));
    }

    /// Handles an answer of the store while the outcome is being journaled: reports it once it is durable or refused.
    pub(super) fn outcome_saved(
        &mut self,
        finishing: Finishing,
        result: &Result<u64, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        if finishing.is_settled(result, self.outbox.durable) {
            return self.finish(finishing, result.as_ref().err(), effects);
        }
        self.state = State::Done(finishing);
        self.tell_the_end(result.is_err(), effects);
    }

    /// Reports the outcome, which is durable or was refused by the store, and begins the next turn.
    fn finish(&mut self, finishing: Finishing, refused: Option<&StoreError>, effects: &mut Vec<Effect>) {
        self.report_outcome(finishing.submission, refused.is_none(), refused, effects);
        self.close_deferred(effects);
        self.tell_all_given_up(effects);
        if self.unrecovered {
            self.frame = None;
            return;
        }
        self.bring_result(effects);
        self.begin_next(effects);
        self.follow_tasks(effects);
    }

    fn report_outcome(
        &mut self,
        submission: TurnId,
        saved: bool,
        refused: Option<&StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(last) = self.session.as_ref().and_then(|session| session.last.as_ref()) else { return };
        let unsaved = refused.cloned().map(Box::new);
        effects.push(finished(submission, TurnOutcome { saved, unsaved, ..(**last).clone() }));
    }

    /// Handles the stop of the actor: closes the turn with every call paired, sends buffered records, and reports the
    /// outcome. Nothing comes after this.
    pub(super) fn stopped(
        &mut self,
        state: &State,
        reason: EndReason,
        meant: Option<&TurnId>,
        words: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        self.abandon_all(effects);
        if self.session.is_none() {
            // The journal was not read yet; what came with the first input ends here, the sessions supervisor sends the
            // others again. What an earlier actor may have written is closed by the next one, which reads the journal.
            let came = self.deferred.iter().filter(|request| request.submission().is_some());
            let mut not_read = came.filter(|request| !self.came_before && !request.is_of_a_call());
            if reason == EndReason::HandedOver {
                // The next process finds nothing of them.
                let why = "the runtime was shut down before it had read the session; this input was not stored";
                effects.extend(not_read.filter_map(|request| refused_request(request, AgentError::overloaded(why))));
            } else if let Some((submission, limits)) =
                not_read.next().and_then(|first| Some((first.submission()?, first.limits())))
            {
                let outcome = unread(self.id.clone(), submission.clone(), reason, limits);
                effects.push(finished(submission.clone(), outcome));
            }
            // It was to be read once more, and is owned since before.
            if self.outbox.epoch > 0 {
                effects.push(Effect::Release { session: self.id.clone(), epoch: self.outbox.epoch });
            }
            return;
        }
        let submission = match state {
            State::Done(Finishing { submission, version: Some(_) }) => Some(submission.clone()),
            // An actor that is stopped for idleness does not end a turn that has just begun, and another process continues one
            // that is handed over.
            _ if matches!(reason, EndReason::Passivated | EndReason::HandedOver) || self.unrecovered => None,
            _ => self.submission().filter(|running| meant.is_none_or(|meant| meant == running)).inspect(|_| {
                self.settle_calls(state.slots(), effects);
                self.trips(reason, effects);
                if let Some(open) = self.open_turn() {
                    let ended = self.interrupted_answer(state, ended_by(reason, open));
                    let seen = event::interrupted(&open.input.turn, open.spent.steps + 1, &ended);
                    let content = words.unwrap_or_else(|| ended.content.clone());
                    seen.into_iter().for_each(|seen| self.emit(effects, || seen));
                    self.record_end(Ended { content, ..ended });
                }
            }),
        };
        self.withdraw_stopped(meant, reason);
        let ticket = self.ticket();
        self.outbox.flush_last(&self.id, ticket, effects);
        self.tell_given_up(effects);
        if let Some(submission) = submission {
            // The driver knows whether the append was confirmed in time.
            self.report_outcome(submission, false, None, effects);
        }
        self.settle_acks(Settled::Stopped, effects);
        // A turn that is left open is the next owner's.
        self.unrecovered = true;
        effects.push(Effect::Release { session: self.id.clone(), epoch: self.outbox.epoch });
    }

    pub(super) fn submission(&self) -> Option<TurnId> {
        self.open_turn().map(|open| open.submission.clone())
    }
}

fn ended_by(reason: EndReason, open: &OpenTurn) -> Ended {
    match reason.finishes() {
        (_, Some(guard)) => {
            let content = so_far(open).unwrap_or_else(|| open.limits().sentence(guard));
            Ended { content, guard_reason: Some(guard), ..Ended::new(FinishReason::GuardExceeded) }
        }
        (_, None) => {
            let content = so_far(open).unwrap_or_else(|| "Cancelled before there was an answer.".to_owned());
            Ended { content, ..Ended::new(FinishReason::Cancelled) }
        }
    }
}

/// The outcome of an input whose session was never read.
pub(super) fn unread(session: SessionId, turn: TurnId, reason: EndReason, limits: Option<&Limits>) -> TurnOutcome {
    never_ran(session, turn, reason, limits, "Stopped before the session was read.")
}

fn so_far(open: &OpenTurn) -> Option<String> {
    (!open.text.trim().is_empty()).then(|| open.text.clone())
}
