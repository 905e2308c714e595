//! Requests: what callers want of a session, before the state decides about it.
//!
//! A request that comes before the journal was read waits until then. One that the journal contains already is not
//! taken a second time; if it has an outcome, it is answered with that.

use super::acks::Ack;
use super::lookup::has_ended;
use super::news::{finished, refused};
use super::state::State;
use super::{Effect, Turn, TurnMessage};
use crate::error::{AgentError, other_tenant};
use crate::ids::TurnId;
use crate::outcome::TurnOutcome;
use std::sync::Arc;

impl Turn {
    /// Handles what does not depend on the state: requests that wait for the journal or are known to it, and
    /// acknowledgements. Returns whether the message is handled, so the state does not decide about it.
    pub(super) fn preprocess(&mut self, message: &TurnMessage, effects: &mut Vec<Effect>) -> bool {
        match message {
            TurnMessage::Start { turn_config, .. }
            | TurnMessage::Resume { turn_config, .. }
            | TurnMessage::GivenUp { turn_config, .. }
            | TurnMessage::Configure { turn_config, .. } => {
                self.turn_config = Some(Arc::clone(turn_config));
                match &self.session {
                    Some(_) if self.unrecovered && message.submission().is_some() => {
                        self.defer(message);
                        self.recovered(effects);
                        true
                    }
                    Some(_) => self.answer_if_known(message, effects),
                    None => {
                        self.defer(message);
                        if matches!(self.state, State::Idle) {
                            self.claim(false, effects);
                        }
                        true
                    }
                }
            }
            // A decision by timeout is about a question of an earlier actor.
            TurnMessage::Decided { asker: Some(_), .. }
            | TurnMessage::Steered { .. }
            | TurnMessage::Withdrawn { .. }
                if matches!(self.state, State::Load { .. }) =>
            {
                self.defer(message);
                true
            }
            TurnMessage::Ended { submission, reason } => {
                match self.session {
                    Some(_) => self.end_again(submission, *reason, effects),
                    None => self.defer(message),
                }
                true
            }
            TurnMessage::Decided { approval, asker, .. } => !self.report_decision(approval, *asker, effects),
            TurnMessage::Steered { steer } if self.knows_steer(&steer.request_id) => {
                self.tell_when_kept(&steer.request_id, effects);
                true
            }
            TurnMessage::Saved { ticket, result } => {
                !(self.outbox.awaits(*ticket) && self.appended(*ticket, result, effects))
            }
            TurnMessage::Draining => {
                self.draining = true;
                true
            }
            TurnMessage::HandOver => {
                (self.draining, self.hands_over) = (true, true);
                true
            }
            _for_the_state => false,
        }
    }

    /// Keeps a request until the journal was read, once.
    fn defer(&mut self, message: &TurnMessage) {
        if self.deferred.iter().all(|known| !is_again(known, message)) {
            let at = self.deferred.partition_point(|known| rank(known) <= rank(message));
            // Mostly the only one; the usual growth would make room for four.
            self.deferred.reserve_exact(1);
            self.deferred.insert(at, message.clone());
        }
    }

    /// Handles the requests that waited for the journal as if they came now. Steer messages come after the inputs,
    /// which may begin a turn.
    pub(super) fn take_deferred(&mut self, effects: &mut Vec<Effect>) {
        // A request that has to wait for something else is put back at the end.
        for _ in 0..self.deferred.len() {
            if self.deferred.first().is_none_or(|next| matches!(next, TurnMessage::Steered { .. })) {
                self.begin_waiting(effects);
            }
            if !self.deferred.is_empty() {
                let message = self.deferred.remove(0);
                self.step(message, effects);
            }
        }
        self.begin_waiting(effects);
        self.deferred.shrink_to_fit();
    }

    fn begin_waiting(&mut self, effects: &mut Vec<Effect>) {
        if matches!(self.state, State::Idle) && !self.unrecovered {
            self.begin_next(effects);
        }
    }

    /// Answers an input or a reply that is known, unless the turn that it is does so. Returns whether it is known.
    fn answer_if_known(&mut self, message: &TurnMessage, effects: &mut Vec<Effect>) -> bool {
        let (Some(submission), Some(session)) = (message.submission(), &self.session) else { return false };
        // An outcome that is being journaled is reported when it is durable, and not before.
        let is_ending = matches!(&self.state, State::Done(finishing) if finishing.submission == *submission);
        let is_withdrawn = |ack: &Ack| matches!(ack, Ack::Withdrawn(outcome) if outcome.turn_id == *submission);
        if is_ending || self.acks.iter().any(|(_, ack)| is_withdrawn(ack)) {
            return true;
        }
        if let Some(last) = session.outcome_of(submission) {
            self.tell_again(submission, (**last).clone(), effects);
            return true;
        }
        if has_ended(session, submission) {
            self.look_up_later(message, effects);
            return true;
        }
        if session.knows(submission) {
            return true;
        }
        let TurnMessage::Start { input, .. } = message else { return false };
        // Before anything of an earlier request is reported.
        if session.is_closed_to(input.tenant()) {
            effects.push(refused(submission, other_tenant(&self.id, input.tenant())));
            return true;
        }
        let Some(request) = &input.request_id else { return false };
        if let Some(outcome) = session.first_outcome(request) {
            self.tell_again(submission, outcome, effects);
            return true;
        }
        if session.has_forgotten(request) {
            self.look_up(message, effects);
            return true;
        }
        // A name that the runtime gave is the one of its turn.
        if has_ended(session, &TurnId::new(request.as_str())) {
            self.look_up_later(message, effects);
            return true;
        }
        let waits = session.waiting.iter().any(|other| other.request_id.as_ref() == Some(request));
        let is_running = waits || session.running().is_some_and(|open| open.is_request(request));
        if is_running {
            let text = "a request with this request_id is still running";
            effects.push(refused(submission, AgentError::busy(text)));
        }
        is_running
    }

    /// Tells an outcome to one more caller, with what is known of it by now.
    pub(super) fn tell_again(&self, submission: &TurnId, outcome: TurnOutcome, effects: &mut Vec<Effect>) {
        let saved = !self.outbox.ends(&outcome.turn_id);
        effects.push(finished(submission.clone(), TurnOutcome { saved, ..outcome }));
    }
}

/// Whether a request is one that came before.
fn is_again(known: &TurnMessage, message: &TurnMessage) -> bool {
    match (known, message) {
        (TurnMessage::Configure { asked: known, .. }, TurnMessage::Configure { asked, .. }) => {
            known.request_id == asked.request_id
        }
        (TurnMessage::Steered { steer: known }, TurnMessage::Steered { steer }) => known.request_id == steer.request_id,
        (TurnMessage::Withdrawn { .. }, TurnMessage::Withdrawn { .. })
        | (TurnMessage::Ended { .. }, TurnMessage::Ended { .. })
        | (TurnMessage::GivenUp { .. }, TurnMessage::GivenUp { .. }) => known == message,
        _inputs_and_replies => known.submission().is_some() && known.submission() == message.submission(),
    }
}

/// The order in which requests that waited for the journal are handled: decisions find the questions of the turn that
/// continues, a cancelled input does not begin, and a steer message finds a turn that has begun.
fn rank(message: &TurnMessage) -> u8 {
    match message {
        TurnMessage::Decided { .. } => 0,
        TurnMessage::Withdrawn { .. } | TurnMessage::Ended { .. } | TurnMessage::GivenUp { .. } => 1,
        TurnMessage::Steered { .. } => 3,
        _inputs_replies_and_options => 2,
    }
}
