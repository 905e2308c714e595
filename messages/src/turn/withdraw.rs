//! A submission nobody wants any more: taken out where it waits.
//!
//! A running turn is cancelled by stopping its actor; what waits behind it has no
//! actor of its own, so it is withdrawn by a message. The supervisor cannot know
//! whether the turn has begun meanwhile, so that is decided here.

use super::state::State;
use super::{Effect, Turn};
use crate::ids::TurnId;
use crate::session::withdrawn;
use crate::sessions::{EndReason, TurnNews, TurnOutcome};
use crate::store::Fact;

impl Turn {
    pub(super) fn withdrawn(&mut self, state: State, submission: TurnId, effects: &mut Vec<Effect>) {
        let is_reading = self.session.is_none() && matches!(state, State::Start(_));
        self.state = state;
        if is_reading {
            if !self.unwanted.contains(&submission) {
                self.unwanted.push(submission);
            }
        } else {
            self.withdraw(&submission, effects);
        }
    }

    /// The journal was read: what was cancelled meanwhile is withdrawn before it begins.
    pub(super) fn withdraw_unwanted(&mut self, effects: &mut Vec<Effect>) {
        for submission in std::mem::take(&mut self.unwanted) {
            self.withdraw(&submission, effects);
        }
    }

    pub(super) fn withdraw(&mut self, submission: &TurnId, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        // One that has ended has its outcome, which is told.
        let is_ending = matches!(&self.state, State::Done(finishing) if finishing.submission == *submission);
        if is_ending || session.outcome_of(submission).is_some() {
            return;
        }
        // Said again to an actor that is started again; not to be taken up once more.
        let arrived = self.arrivals.iter().position(|arrival| arrival.submission() == Some(submission));
        if let Some(at) = arrived {
            self.arrivals.remove(at);
        }
        if let Some(input) = session.waiting.iter().find(|input| input.turn == *submission) {
            let outcome = withdrawn(input, &self.id);
            self.take_out(outcome, effects);
        } else if self.submission().as_ref() == Some(submission) {
            effects.push(Effect::AbandonAll);
            self.unrecovered = false;
            self.close(EndReason::Cancelled, effects);
        } else if arrived.is_some() {
            let outcome = super::done::unread(self.id.clone(), submission.clone(), EndReason::Cancelled, None);
            effects.push(finished(outcome));
        }
    }

    /// Takes an input out of those that wait; its outcome is told when that is durable.
    pub(super) fn take_out(&mut self, outcome: TurnOutcome, effects: &mut Vec<Effect>) {
        self.record(Some(outcome.turn_id.clone()), Fact::Withdrawn);
        let version = self.awaited();
        self.withdrawing.push((version, outcome));
        self.flush(effects);
    }

    /// The actor is stopped for an input that waits, since a turn that was recovered
    /// runs before it: the input must not begin after its caller was told.
    pub(super) fn take_out_meant(&mut self, meant: Option<&TurnId>, reason: EndReason) {
        let Some(session) = &self.session else { return };
        let Some(input) = session.waiting.iter().find(|input| Some(&input.turn) == meant) else { return };
        let (finish_reason, guard_reason) = reason.finishes();
        let cancelled = withdrawn(input, &self.id);
        let content = guard_reason.map_or(cancelled.content, |guard| input.limits.sentence(guard));
        let outcome = TurnOutcome { finish_reason, guard_reason, content, ..cancelled };
        self.record(Some(outcome.turn_id.clone()), Fact::Withdrawn);
        let version = self.awaited();
        self.withdrawing.push((version, outcome));
    }

    /// Tells the outcomes of withdrawn inputs that are durable.
    pub(super) fn tell_withdrawn(&mut self, effects: &mut Vec<Effect>) {
        let durable = self.journal.durable;
        let (told, kept): (Vec<_>, _) = self.withdrawing.drain(..).partition(|(version, _)| *version <= durable);
        self.withdrawing = kept;
        effects.extend(told.into_iter().map(|(_, outcome)| finished(TurnOutcome { saved: true, ..outcome })));
    }

    /// Tells the outcomes of withdrawn inputs of which it is not known whether they are durable.
    pub(super) fn tell_withdrawn_unsaved(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.withdrawing.drain(..).map(|(_, outcome)| finished(outcome)));
    }
}

fn finished(outcome: TurnOutcome) -> Effect {
    Effect::Report(TurnNews::Finished { submission: outcome.turn_id.clone(), outcome: Box::new(outcome) })
}
