//! What is said to a session: taken up once, and accepted, refused or answered.
//!
//! An input is accepted when it is durable. What the journal knows already is not taken
//! a second time, and what has its outcome is told that.

use super::start::Arrival;
use super::state::State;
use super::{Effect, ResumeReply, Turn};
use crate::error::AgentError;
use crate::ids::{ResumeToken, TurnId};
use crate::session::TurnInput;
use crate::sessions::{Decision, SuspendReason, TurnNews, TurnOutcome};
use crate::store::Fact;
use std::sync::Arc;

impl Turn {
    /// Takes an arrival up, once: what is known already is not taken again.
    pub(super) fn take_up(&mut self, arrival: Arrival, effects: &mut Vec<Effect>) {
        if let Arrival::Configure(asked) = &arrival {
            return self.take_configure(asked, effects);
        }
        let (Some(submission), Some(session)) = (arrival.submission(), &self.session) else { return };
        // An outcome that is being journaled is told when it is durable, and not before.
        let is_ending = matches!(&self.state, State::Done(finishing) if finishing.submission == *submission);
        if is_ending || self.withdrawing.iter().any(|(_, outcome)| outcome.turn_id == *submission) {
            return;
        }
        if let Some(last) = session.outcome_of(submission) {
            return self.tell_again(submission, (**last).clone(), effects);
        }
        if session.knows(submission) {
            return;
        }
        match arrival {
            Arrival::Input(input) => self.take_input(input, effects),
            Arrival::Resume { submission, token, reply } => self.take_resume(submission, &token, reply, None, effects),
            Arrival::Configure(_) => {}
        }
    }

    /// What a turn has come to is told to one more, with what is known of it by now.
    pub(super) fn tell_again(&self, submission: &TurnId, outcome: TurnOutcome, effects: &mut Vec<Effect>) {
        let saved = !self.journal.ends(&outcome.turn_id);
        let outcome = Box::new(TurnOutcome { saved, ..outcome });
        effects.push(Effect::Report(TurnNews::Finished { submission: submission.clone(), outcome }));
    }

    fn take_input(&mut self, input: Arc<TurnInput>, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let max_waiting = self.brief.as_ref().map_or(0, |brief| brief.max_waiting);
        if let Some(request) = &input.request_id {
            if let Some(outcome) = session.first_outcome(request) {
                return self.tell_again(&input.turn, outcome, effects);
            }
            if session.has_forgotten(request) {
                return self.look_up(input, effects);
            }
            let waits = session.waiting.iter().any(|other| other.request_id.as_ref() == Some(request));
            if waits || session.running().is_some_and(|open| open.is_request(request)) {
                let error = AgentError::Busy("a request of this request_id is running; its outcome comes once".into());
                return refuse(&input.turn, error, effects);
            }
        }
        let suspension = session.open.as_ref().and_then(|open| open.suspended.as_ref());
        match suspension.map(|suspension| (suspension.reason, suspension.token.clone())) {
            Some((SuspendReason::AskUser, token)) if matches!(self.state, State::Idle) => {
                let reply = ResumeReply::Answer(input.text());
                return self.take_resume(input.turn.clone(), &token, reply, Some(&input), effects);
            }
            Some((SuspendReason::ApprovalRequired | SuspendReason::ExternalWait, _))
                if matches!(self.state, State::Idle) =>
            {
                self.close_suspended();
            }
            _ => {}
        }
        let busy = !matches!(self.state, State::Idle);
        let waiting = self.session.as_ref().map_or(0, |session| session.waiting.len());
        if busy && waiting >= max_waiting {
            let error =
                AgentError::Busy(format!("the session has {waiting} inputs waiting; try again when it has answered"));
            return refuse(&input.turn, error, effects);
        }
        self.accept(input, effects);
    }

    fn accept(&mut self, input: Arc<TurnInput>, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        // What waits brings its options along when its turn begins.
        let begins = matches!(self.state, State::Idle);
        let changed = begins && input.options.as_ref().is_some_and(|options| *options != session.options);
        if changed || !session.opened {
            let options = input.options.clone().unwrap_or_else(|| session.options.clone());
            self.record(None, Fact::Options(options));
        }
        let turn = input.turn.clone();
        self.record(Some(turn.clone()), Fact::Input(input));
        let version = self.awaited();
        self.accepting.push((version, turn));
        if matches!(self.state, State::Idle) {
            self.begin_next(effects);
        } else {
            self.flush(effects);
        }
    }

    /// A person answers a suspended turn.
    fn take_resume(
        &mut self,
        submission: TurnId,
        token: &ResumeToken,
        reply: ResumeReply,
        brought_by: Option<&Arc<TurnInput>>,
        effects: &mut Vec<Effect>,
    ) {
        let suspended = self.session.as_ref().and_then(|session| session.open.as_ref());
        let known =
            suspended.is_some_and(|open| open.suspended.as_ref().is_some_and(|suspension| suspension.token == *token));
        if !known || !matches!(self.state, State::Idle) {
            let error =
                AgentError::Invalid("no suspended turn has this token; it may have been answered already".into());
            return refuse(&submission, error, effects);
        }
        // What is said to the session itself needs no token.
        let expires_at =
            suspended.and_then(|open| open.suspended.as_ref()).and_then(|suspension| suspension.expires_at);
        if brought_by.is_none() && expires_at.is_some_and(|at| self.now >= at) {
            let text = "the token has expired; say something to the session instead: that answers a question, and \
                        leaves a call that waits for a decision undone";
            return refuse(&submission, AgentError::Invalid(text.into()), effects);
        }
        let reason = suspended.and_then(|open| open.suspended.as_ref()).map(|suspension| suspension.reason);
        if reason == Some(SuspendReason::ExternalWait) && !matches!(reply, ResumeReply::Answer(_)) {
            let text = "the turn waits for a result from outside and not for a decision";
            return refuse(&submission, AgentError::Invalid(text.into()), effects);
        }
        // The answer to a question, and a result, is no decision about a call beside it.
        let decides = reason == Some(SuspendReason::ApprovalRequired);
        let step = suspended.filter(|_| decides).and_then(|open| open.step.as_ref());
        let asked = step.into_iter().flat_map(|step| &step.calls).filter_map(|call| call.approval.as_ref());
        let mut undecided = asked.filter(|asked| asked.allowed.is_none()).map(|asked| asked.id.clone());
        let (asked, text) = match &reply {
            ResumeReply::Answer(text) => (undecided.next(), text.clone()),
            ResumeReply::Decision(_) => (undecided.next(), String::new()),
            ResumeReply::Decided { approval, .. } => match undecided.find(|asked| asked == approval) {
                // Said of one call, it is no decision about another, nor the answer to a question.
                None => {
                    let text = "the turn does not wait for this decision; it may have been made already";
                    return refuse(&submission, AgentError::Invalid(text.into()), effects);
                }
                asked => (asked, String::new()),
            },
        };
        // The options it brings are in its own record, and hold as those of an input that waited do.
        if let Some(input) = brought_by.filter(|input| input.options.is_some()) {
            self.record(Some(input.turn.clone()), Fact::Input(Arc::clone(input)));
        }
        self.record_in_turn(resumed(submission.clone(), text, brought_by.map(Arc::as_ref)));
        if let Some(approval) = asked {
            // Anything that is not a decision to allow denies.
            let decision = match reply {
                ResumeReply::Decision(decision) | ResumeReply::Decided { decision, .. } => {
                    super::approvals::understood(decision)
                }
                ResumeReply::Answer(reason) => Decision::Deny { reason },
            };
            self.record_decision(&approval, &decision, effects);
        }
        let version = self.awaited();
        self.accepting.push((version, submission));
        self.gather(effects);
    }
}

/// A suspended turn goes on, perhaps by a plain input.
pub(super) fn resumed(submission: TurnId, reply: String, brought_by: Option<&TurnInput>) -> Fact {
    let request_id = brought_by.and_then(|input| input.request_id.clone());
    let labels = brought_by.map(|input| input.labels.clone()).unwrap_or_default();
    Fact::Resumed { submission, reply, request_id, labels }
}

pub(super) fn refuse(submission: &TurnId, error: AgentError, effects: &mut Vec<Effect>) {
    effects.push(Effect::Report(TurnNews::Refused { submission: submission.clone(), error }));
}
