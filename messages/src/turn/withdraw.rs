//! Cancelled submissions: taken out where they wait.
//!
//! A running turn is cancelled by stopping its actor; what waits behind it has no actor of its own, so it is withdrawn
//! by a message. The supervisor cannot know whether the turn has begun meanwhile, so that is decided here.

use super::acks::Ack;
use super::done::unread;
use super::lookup::is_lookup;
use super::news::finished;
use super::state::State;
use super::{Effect, Turn, TurnMessage};
use crate::ids::TurnId;
use crate::outcome::{EndReason, TurnOutcome};
use crate::session_state::withdrawn;
use crate::store::Fact;
use crate::submission::TurnNews;

impl Turn {
    pub(super) fn withdraw(&mut self, submission: &TurnId, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        // If it has ended, its outcome is reported.
        if session.outcome_of(submission).is_some() {
            return;
        }
        // Sent again after a restart of the actor, it must not be accepted once more.
        let is_it = |request: &TurnMessage| request.submission() == Some(submission) && !is_lookup(session, request);
        let deferred = self.deferred.iter().position(is_it);
        if let Some(at) = deferred {
            self.deferred.remove(at);
        }
        if let Some(input) = session.waiting.iter().find(|input| input.turn == *submission) {
            let outcome = withdrawn(input, &self.id);
            if self.outbox.failures() > 0 {
                // A cancel does not wait for a store that fails; what is sent again may wait for a while.
                self.record(Some(outcome.turn_id.clone()), Fact::Withdrawn);
                effects.push(finished(outcome.turn_id.clone(), TurnOutcome { saved: false, ..outcome }));
            } else {
                self.take_out(outcome);
            }
            self.flush(effects);
        } else if self.submission().as_ref() == Some(submission) {
            self.abandon_all(effects);
            self.unrecovered = false;
            self.close(EndReason::Cancelled, effects);
        } else if deferred.is_some() {
            let outcome = unread(self.id.clone(), submission.clone(), EndReason::Cancelled, None);
            effects.push(finished(submission.clone(), outcome));
        }
    }

    /// Removes a waiting input; its outcome is reported when that is durable.
    pub(super) fn take_out(&mut self, outcome: TurnOutcome) {
        self.record(Some(outcome.turn_id.clone()), Fact::Withdrawn);
        self.acknowledge(Ack::Withdrawn(Box::new(outcome)));
    }

    /// The actor is stopped for an input that waits, since a turn that was recovered runs before it: the input must
    /// not begin after its caller was answered.
    pub(super) fn withdraw_stopped(&mut self, meant: Option<&TurnId>, reason: EndReason) {
        let Some(session) = &self.session else { return };
        let Some(input) = session.waiting.iter().find(|input| Some(&input.turn) == meant) else { return };
        let (finish_reason, guard_reason) = reason.finishes();
        let cancelled = withdrawn(input, &self.id);
        let content = guard_reason.map_or(cancelled.content, |guard| input.limits.sentence(guard));
        self.take_out(TurnOutcome { finish_reason, guard_reason, content, ..cancelled });
    }

    /// Closes what was answered as ended before this actor, as soon as the journal was read.
    pub(super) fn end_all_again(&mut self, effects: &mut Vec<Effect>) {
        let is_end = |request: &mut TurnMessage| matches!(request, TurnMessage::Ended { .. });
        let ended: Vec<_> = self.deferred.extract_if(.., is_end).collect();
        for request in ended {
            self.step(request, effects);
        }
    }

    /// Closes what is open or waits of a submission that was answered as ended. That alone begins nothing.
    pub(super) fn end_again(&mut self, submission: &TurnId, reason: EndReason, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        if session.waiting.iter().any(|input| input.turn == *submission) {
            self.withdraw_stopped(Some(submission), reason);
            self.flush(effects);
        } else if self.submission().as_ref() != Some(submission) {
            effects.push(Effect::Report(TurnNews::NotOpen { submission: submission.clone() }));
        } else if matches!(self.state, State::Idle) {
            // Its end was told to subscribers.
            let unwatched = std::mem::replace(&mut self.unwatched, true);
            self.close(reason, effects);
            self.unwatched = unwatched;
        }
    }

    /// What was answered as ended from outside and is not known to be durable when the session is given up: an actor that
    /// reads the journal again closes it.
    pub(super) fn told_and_not_kept(&self) -> Vec<TurnMessage> {
        let Some(session) = &self.session else { return Vec::new() };
        let last = session.last.as_ref().filter(|last| self.outbox.ends(&last.turn_id));
        let reason = |last: &TurnOutcome| EndReason::of(last.finish_reason, last.guard_reason);
        let last = last.and_then(|last| Some((session.last_submission.clone()?, reason(last)?)));
        let withdrawn = self.outbox.withdrawn().map(|turn| (turn.clone(), EndReason::Cancelled));
        last.into_iter()
            .chain(withdrawn)
            .map(|(submission, reason)| TurnMessage::Ended { submission, reason })
            .collect()
    }
}
